"""Configurations, states and errors as values: defaults, conversions to and from JSON, equality, copies."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from ..case import Case

TIME = "2026-01-02T03:04:05.123456789Z"
LIMITS = {
    **{"max_memory": -1, "max_storage": 1, "max_streams": 2, "max_consumers": 3, "max_ack_pending": 4},
    **{"memory_max_stream_bytes": 5, "storage_max_stream_bytes": 6, "max_bytes_required": False},
}
TIER = {"memory": 1, "storage": 2, "streams": 3, "consumers": 4, "limits": LIMITS}
STATE = {"messages": 1, "bytes": 2, "first_seq": 3, "last_seq": 4, "consumer_count": 5}
SOURCE = {"name": "O", "opt_start_seq": 2, "opt_start_time": TIME, "filter_subject": "a", "external": {"api": "$X.API"}}
PEER = {"name": "n", "current": True, "active": 12.5}
CONSUMER = {
    **{"stream_name": "S", "name": "c", "config": {}, "created": TIME, "num_ack_pending": 1, "num_redelivered": 2},
    **{"delivered": {"consumer_seq": 1, "stream_seq": 2}, "ack_floor": {"consumer_seq": 0, "stream_seq": 0}},
    **{"num_waiting": 3, "num_pending": 4},
}
STREAM_CONFIG = {
    **{"name": "S", "subjects": ["a"], "retention": "workqueue", "max_consumers": -1, "max_msgs": 5, "max_bytes": -1},
    **{"max_age": 1_500_000_000, "max_msg_size": 7, "storage": "memory", "discard": "new", "num_replicas": 3},
    **{"duplicate_window": 2_000_001_000, "allow_direct": True, "mirror": SOURCE, "sources": [SOURCE, {"name": "P"}]},
    **{"placement": {"cluster": "C", "tags": ["t"]}, "republish": {"src": "a", "dest": "b", "headers_only": True}},
    **{"subject_transform": {"src": "a", "dest": "b"}, "consumer_limits": {"inactive_threshold": 5_000, "x": 1}},
    **{"subject_delete_marker_ttl": 1_000_000_000, "persist_mode": "async", "first_seq": 9},
}
# Responses by module and class. Every key of the reference's classes occurs at least once.
RESPONSES: dict[tuple[str, str], list[Any]] = {
    ("jetstream", "APIStats"): [{"total": 1, "errors": 2, "level": 3}, {"total": 1, "errors": 2}, {"total": 1}, {}],
    ("jetstream", "AccountLimits"): [LIMITS, {**LIMITS, "max_other": 1}, {}],
    ("jetstream", "Tier"): [TIER, {**TIER, "reserved_memory": 1}, {**TIER, "limits": {}}],
    ("jetstream", "AccountInfo"): [
        {**TIER, "api": {"total": 1, "errors": 2}, "type": "t"},
        {
            **{**TIER, "api": {"total": 1, "errors": 2}, "domain": "D", "tiers": {"R1": TIER}},
            **{"reserved_memory": 7, "reserved_storage": 8, "other": 9},
        },
        {**TIER, "api": {"total": 1, "errors": 2}, "tiers": {}},
        TIER,
    ],
    ("jetstream", "PublishAck"): [
        {"stream": "S", "seq": 4, "domain": "D", "duplicate": True, "val": "12", "batch": "b", "count": 3},
        {"stream": "S"},
        {"stream": "S", "seq": 1, "other": 2},
        {"seq": 1},
    ],
    ("jetstream.stream", "LostStreamData"): [{"msgs": [1, 2], "bytes": 3}, {}, {"other": 1}],
    ("jetstream.stream", "ExternalStreamSource"): [{"api": "A", "deliver": "D"}, {"api": "A"}, {"deliver": "D"}],
    ("jetstream.stream", "SubjectTransform"): [
        {"src": "a", "dest": "b"},
        {"src": "a"},
        {"src": "a", "dest": "b", "c": 1},
    ],
    ("jetstream.stream", "StreamConsumerSource"): [{"name": "a", "deliver_subject": "b"}, {"name": "a"}],
    ("jetstream.stream", "StreamSource"): [
        SOURCE,
        {
            **SOURCE,
            "consumer": {"name": "a", "deliver_subject": "b"},
            "subject_transforms": [{"src": "a", "dest": "b"}],
        },
        {"name": "O", "external": {}, "consumer": {}},
        {"name": "O", "other": 1},
        {"name": "O", "external": {"api": "a", "other": 1}},
        {},
    ],
    ("jetstream.stream", "StreamSourceInfo"): [
        {"name": "O", "lag": 1, "active": -1},
        {
            **{"name": "O", "lag": 1, "active": 2, "filter_subject": "a", "external": {"api": "A"}},
            **{"error": {"code": 500}, "subject_transforms": [{"src": "a", "dest": "b"}], "other": 1},
        },
        {"name": "O"},
    ],
    ("jetstream.stream", "Placement"): [{"cluster": "C", "tags": ["t"]}, {}, {"preferred": "n"}],
    ("jetstream.stream", "Republish"): [
        {"src": "a", "dest": "b", "headers_only": False},
        {"src": "a", "dest": "b"},
        {},
    ],
    ("jetstream.stream", "StreamConsumerLimits"): [
        {"inactive_threshold": 1_500, "max_ack_pending": 3},
        {"inactive_threshold": 0},
        {"other": 1},
    ],
    ("jetstream.stream", "PeerInfo"): [{**PEER, "lag": 1, "offline": True, "observer": False, "peer": "x"}, PEER, {}],
    ("jetstream.stream", "ClusterInfo"): [
        {"name": "C", "leader": "n", "replicas": [PEER], "raft_group": "R", "leader_since": TIME},
        {"replicas": []},
        {},
    ],
    ("jetstream.stream", "StreamState"): [
        STATE,
        {
            **{**STATE, "first_ts": TIME, "last_ts": TIME, "deleted": [2], "num_deleted": 1, "lost": {"msgs": [7]}},
            **{"subjects": {"a": 1}, "num_subjects": 1, "other": 1},
        },
        {**STATE, "first_ts": "", "lost": {}},
        {"messages": 1, "bytes": 2},
    ],
    ("jetstream.stream", "StreamConfig"): [
        {},
        {"name": "S", "max_age": 0, "max_bytes": 0, "max_msgs": -1, "max_msg_size": -1, "max_consumers": 0},
        STREAM_CONFIG,
        {"consumer_limits": {}, "placement": {}, "mirror": None, "sources": [], "duplicate_window": 0},
        {"mirror": {**SOURCE, "other": 1}, "other": 2},
        {"name": "S", "allow_other": True},
    ],
    ("jetstream.stream", "StreamInfo"): [
        {"config": {"name": "S"}, "created": TIME, "state": STATE},
        {
            **{"config": {"name": "S"}, "created": TIME, "state": STATE, "ts": TIME, "type": "t", "did_create": True},
            **{
                "cluster": {"leader": "n"},
                "mirror": {"name": "O", "lag": 1, "active": 2},
                "alternates": [{"name": "A"}],
            },
            **{"sources": [{"name": "O", "lag": 1, "active": 2}], "limit": 1, "offset": 2, "total": 3},
        },
        {
            "config": {"name": "S"},
            "created": TIME,
            "state": STATE,
            "cluster": {},
            "mirror": {},
            "sources": [],
            "ts": "",
        },
        {"config": {"name": "S"}, "created": TIME, "state": STATE, "other": 1, "more": 2},
        {"config": {"name": "S"}, "created": TIME},
        {"created": TIME},
    ],
    ("jetstream.consumer", "ConsumerConfig"): [
        {},
        {
            **{"name": "c", "durable_name": "c", "ack_policy": "explicit", "deliver_policy": "new", "ack_wait": 30_000},
            **{
                "replay_policy": "original",
                "backoff": [1, 2],
                "idle_heartbeat": 5_000_000,
                "max_expires": 1_000_000_000,
            },
            **{"inactive_threshold": 7_500_000, "opt_start_time": TIME, "pause_until": TIME, "priority_timeout": 5},
            **{
                "max_batch": 1,
                "max_bytes": 2,
                "filter_subjects": ["a", "b"],
                "priority_groups": ["g"],
                "opt_start_seq": 3,
            },
            **{"rate_limit_bps": 5, "sample_freq": "10%", "metadata": {"a": "b"}, "priority_policy": "overflow"},
        },
        {"other": 1, "more": 2},
    ],
    ("jetstream.consumer", "ConsumerInfo"): [
        CONSUMER,
        {
            **{**CONSUMER, "ts": TIME, "cluster": {"leader": "n"}, "push_bound": True, "paused": True, "type": "t"},
            **{"pause_remaining": 1_500_000_000, "priority_groups": [{"group": "g"}]},
        },
        {**CONSUMER, "ts": "", "pause_remaining": 0},
        {**CONSUMER, "config": {"other": 1}, "more": 2},
        {**CONSUMER, "other": 2},
        {"name": "c"},
    ],
    ("jetstream.consumer", "ConsumerReset"): [
        {**CONSUMER, "reset_seq": 4, "type": "t"},
        {**CONSUMER, "reset_seq": 4, "other": 1},
        CONSUMER,
        {"reset_seq": 4},
    ],
}


def _shown(value: Any) -> Any:
    """The representation of a dataclass, with the exact times that the recorder masks."""
    return repr(value)


async def responses_become_dataclasses(case: Case) -> None:
    for (module, name), responses in RESPONSES.items():
        cls = getattr(case.module(module), name)
        for number, response in enumerate(responses):
            for strict in (False, True):
                key = f"{name} {number} {'strict' if strict else 'lax'}"
                made = await case.call(
                    key,
                    lambda cls=cls, data=response, strict=strict: cls.from_response(
                        json.loads(json.dumps(data)), strict=strict
                    ),
                )
                case.note(f"{key}: text", str(made) if isinstance(made, Exception) else _shown(made))


async def dataclasses_become_requests(case: Case) -> None:
    stream, consumer = case.module("jetstream.stream"), case.module("jetstream.consumer")
    source = stream.StreamSource(
        "O",
        opt_start_seq=2,
        filter_subject="a",
        external=stream.ExternalStreamSource("$X.API", "d"),
        subject_transforms=[{"src": "a", "dest": "b"}],
        consumer=stream.StreamConsumerSource("c", "d"),
    )
    summer = timezone(timedelta(hours=2))
    values = {
        "source": source,
        "bare source": stream.StreamSource("O", opt_start_time=TIME),
        "external": stream.ExternalStreamSource("a"),
        "transform": stream.SubjectTransform("a", "b"),
        "placement": stream.Placement("C", ["t"]),
        "no placement": stream.Placement(),
        "republish": stream.Republish("a", "b"),
        "limits": stream.StreamConsumerLimits(timedelta(minutes=1), 5),
        "stream": stream.StreamConfig(),
        "stream with options": stream.StreamConfig(
            name="S",
            subjects=["a"],
            max_age=timedelta(days=1, microseconds=500_000),
            max_bytes=0,
            max_msgs=5,
            duplicate_window=timedelta(seconds=2),
            mirror=source,
            sources=[source, source],
            placement=stream.Placement(tags=[]),
            republish=stream.Republish("a", "b", False),
            subject_transform=stream.SubjectTransform("a", "b"),
            subject_delete_marker_ttl=timedelta(seconds=1),
            consumer_limits=stream.StreamConsumerLimits(),
            metadata={},
            sealed=False,
        ),
        "consumer": consumer.ConsumerConfig(),
        "consumer with options": consumer.ConsumerConfig(
            name="c",
            ack_policy="explicit",
            deliver_policy="by_start_time",
            replay_policy="original",
            ack_wait=timedelta(seconds=30),
            backoff=[1, 2],
            idle_heartbeat=timedelta(milliseconds=500),
            inactive_threshold=timedelta(hours=1),
            max_expires=timedelta(0),
            opt_start_time=datetime(2026, 7, 1, 12, tzinfo=summer),
            pause_until=datetime(2026, 7, 1, 12, 0, 0, 123, tzinfo=UTC),
            priority_timeout=5,
            filter_subjects=[],
            headers_only=False,
        ),
    }
    for key, value in values.items():
        case.note(key, value.to_request())
    config = stream.StreamConfig.from_response(values["stream with options"].to_request())
    case.note("converted back and forth", config.to_request())


async def microseconds_become_nanoseconds(case: Case) -> None:
    consumer = case.module("jetstream.consumer")
    # The product of a float of seconds and 1e9 is not a whole number of microseconds.
    case.note("1001 us", consumer.ConsumerConfig(ack_wait=timedelta(microseconds=1001)).to_request())


async def values_that_become_json_by_themselves(case: Case) -> None:
    stream, consumer = case.module("jetstream.stream"), case.module("jetstream.consumer")
    time = datetime(2026, 7, 1, 12, tzinfo=UTC)
    transforms = [stream.SubjectTransform("a", "b")]
    case.note("time of a source", stream.StreamSource("O", opt_start_time=time).to_request())
    case.note("transforms", stream.StreamSource("O", subject_transforms=transforms).to_request())
    case.note("priority timeout", consumer.ConsumerConfig(priority_timeout=timedelta(seconds=1)).to_request())


async def responses_are_not_changed(case: Case) -> None:
    stream = case.module("jetstream.stream")
    response = {"src": "a", "dest": "b"}
    stream.SubjectTransform.from_response(response)
    case.note("response", response)


async def keyword_arguments_become_configurations(case: Case) -> None:
    stream, consumer = case.module("jetstream.stream"), case.module("jetstream.consumer")
    source = {"name": "O", "external": {"api": "a"}, "consumer": {"name": "c", "deliver_subject": "d"}}
    given = {
        "nothing": {},
        "mirror": {"mirror": source},
        "mirror of objects": {"mirror": {"name": "O", "external": stream.ExternalStreamSource("a")}},
        "mirror object": {"mirror": stream.StreamSource("O")},
        "sources": {"sources": [source, stream.StreamSource("P")]},
        "source tuple": {"sources": (source,)},
        "no sources": {"sources": None},
        "parts": {
            "placement": {"cluster": "C"},
            "republish": {"src": "a", "dest": "b"},
            "subject_transform": {"src": "a", "dest": "b"},
            "consumer_limits": {"max_ack_pending": 3},
        },
        "unknown": {"nope": 1},
        "unknown in a part": {"placement": {"nope": 1}},
        "missing in a part": {"republish": {"src": "a"}},
    }
    for key, kwargs in given.items():
        await case.call(key, lambda kwargs=kwargs: stream.StreamConfig.from_kwargs(**kwargs))
    case.note("dict is kept", source)
    await case.call("consumer", lambda: consumer.ConsumerConfig.from_kwargs(name="c", backoff=[1]))
    await case.call("unknown of a consumer", lambda: consumer.ConsumerConfig.from_kwargs(nope=1))
    await case.call("ordered", lambda: consumer.OrderedConsumerConfig.from_kwargs(filter_subjects=["a"]))
    await case.call("unknown of an ordered consumer", lambda: consumer.OrderedConsumerConfig.from_kwargs(nope=1))


async def values_are_equal_copied_and_replaced(case: Case) -> None:
    stream, jetstream = case.module("jetstream.stream"), case.jetstream
    config = stream.StreamConfig(name="S", sources=[stream.StreamSource("O")])
    info = stream.StreamInfo.from_response({"config": {"name": "S"}, "created": TIME, "state": dict(STATE), "ts": TIME})
    ack = jetstream.PublishAck("S", 3)
    for key, value in (("config", config), ("info", info), ("ack", ack)):
        copied = pickle.loads(pickle.dumps(value))
        case.note(f"{key} pickled", (copied == value, copied is value, repr(copied) == repr(value)))
        case.note(f"{key} copied", copy.deepcopy(value) == value)
        case.note(f"{key} is hashable", type(value).__hash__ is not None)
    case.note("replaced", dataclasses.replace(config, name="T"))
    case.note("as dict", dataclasses.asdict(config))
    case.note("positional", stream.StreamConfig(3, "interest", "memory", timedelta(1), 5, 6, 7))
    message = stream.StreamMessage("a", 1, b"x", info.created)
    case.note("items", [message["subject"], message["sequence"], message["data"], message["headers"]])
    await case.call("no item", lambda: message["nope"])
    case.note("text of no item", str(await case.call("no such item", lambda: message["other"])))


async def errors_have_codes(case: Case) -> None:
    errors = case.module("jetstream.errors")
    for name in sorted(name for name in dir(errors) if name.endswith("Error")):
        error = getattr(errors, name)("text", 404, 10059, "description")
        case.note(name, error)
        case.note(f"{name} pickled", pickle.loads(pickle.dumps(error)))
        case.note(f"{name} alone", getattr(errors, name)("text"))
    codes = errors.ErrorCode
    case.note("codes", {name: getattr(codes, name) for name in dir(codes) if name.isupper()})
    headers = case.module("jetstream.headers")
    case.note("headers", {name: getattr(headers, name) for name in headers.__all__})
    case.note("inbox", len(case.module("jetstream.util").new_inbox()))
