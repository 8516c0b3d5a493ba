"""The types of jetarrow.js.api: nats-py's names and wire form, and what is new."""

import copy
import dataclasses
import inspect
import json
import pickle
import warnings
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum

import jetarrow.js.api as api
import nats.js.api as theirs
import pytest

THEIR_CLASSES = [c for c in vars(theirs).values() if inspect.isclass(c) and c.__module__ == theirs.__name__]
DATACLASSES = [c for c in THEIR_CLASSES if dataclasses.is_dataclass(c) and dataclasses.fields(c)]
ENUMS = [c for c in THEIR_CLASSES if issubclass(c, Enum)]


@pytest.mark.parametrize("cls", DATACLASSES, ids=lambda c: c.__name__)
def test_fields_of_nats_py_in_their_order(cls):
    mine = dataclasses.fields(getattr(api, cls.__name__))
    for ours, other in zip(mine, dataclasses.fields(cls), strict=False):
        # The seeds' `duplicate: bool = False`, nats-py's None.
        default = False if (cls.__name__, other.name) == ("PubAck", "duplicate") else other.default
        assert (ours.name, ours.default) == (other.name, default)
    assert len(mine) >= len(dataclasses.fields(cls))
    for extra in mine[len(dataclasses.fields(cls)) :]:
        assert extra.default is None, f"{extra.name} is new, so it must be optional"


@pytest.mark.parametrize("cls", ENUMS, ids=lambda c: c.__name__)
def test_enums_of_nats_py(cls):
    ours = getattr(api, cls.__name__)
    for name, member in cls.__members__.items():
        assert ours[name] == member.value == ours(member.value)


def test_names_of_nats_py():
    assert (len(DATACLASSES) > 20, len(ENUMS) > 5) == (True, True)
    for name in vars(theirs):
        if not name.startswith("_") and name.isupper():
            assert getattr(api, name) == getattr(theirs, name)
    for cls in THEIR_CLASSES:
        if not cls.__name__.startswith("_"):
            assert hasattr(api, cls.__name__)
    assert set(api.__all__) <= set(vars(api))


CONFIGS = [
    ("StreamConfig", {"name": "A"}),
    (
        "StreamConfig",
        {"name": "A", "subjects": ["a.>"], "max_age": 60, "duplicate_window": 0.5, "metadata": {}},
    ),
    ("StreamConfig", {"name": "A", "subject_delete_marker_ttl": 0, "max_age": 1.1}),
    ("StreamConfig", {"name": "A", "subject_delete_marker_ttl": 2.5, "compression": "s2"}),
    ("ConsumerConfig", {}),
    ("ConsumerConfig", {"durable_name": "d", "ack_wait": 30, "backoff": [1, 2.5], "inactive_threshold": 5}),
    ("ConsumerConfig", {"opt_start_time": datetime(2024, 5, 1, 10, 0, 0, 120, tzinfo=UTC)}),
    ("ConsumerConfig", {"opt_start_time": datetime(2024, 5, 1, 10, tzinfo=timezone(timedelta(hours=2)))}),
    ("KeyValueConfig", {"bucket": "B", "ttl": 3, "limit_marker_ttl": 2}),
    ("ObjectStoreConfig", {"bucket": "B", "ttl": 3}),
    ("StreamPurgeRequest", {"keep": 3, "filter": "a.b"}),
    ("PubAck", {"stream": "A", "seq": 4, "batch_id": "x", "batch_size": 3}),
]


@pytest.mark.parametrize(("name", "fields"), CONFIGS)
def test_wire_form_is_that_of_nats_py(name, fields):
    ours = getattr(api, name)(**fields).as_dict()
    assert ours == getattr(theirs, name)(**fields).as_dict()
    json.dumps(ours)


def test_nested_wire_form():
    def build(module):
        return module.StreamConfig(
            name="A",
            placement=module.Placement(cluster="c", tags=["x"]),
            sources=[
                module.StreamSource(
                    "B",
                    opt_start_time=datetime(2024, 1, 2, tzinfo=UTC),
                    external=module.ExternalStream("$JS.hub.API"),
                    subject_transforms=[module.SubjectTransform("a", "b")],
                )
            ],
            consumer_limits=module.StreamConsumerLimits(inactive_threshold=3),
        )

    assert build(api).as_dict() == build(theirs).as_dict()


def test_enums_take_strings():
    config = api.StreamConfig(storage="file", retention="WorkQueue", discard=api.DiscardPolicy.NEW)
    assert config.storage is api.StorageType.FILE
    assert config.retention is api.RetentionPolicy.WORK_QUEUE
    config.compression = "s2"
    assert config.compression is api.StoreCompression.S2
    assert api.RetentionPolicy("work_queue") is api.RetentionPolicy.WORK_QUEUE
    assert config.as_dict()["retention"] == "workqueue"


@pytest.mark.parametrize("how", ["construct", "assign", "evolve", "enum"])
def test_unknown_string_lists_the_valid_ones(how):
    config = api.ConsumerConfig()
    calls = {
        "construct": lambda: api.ConsumerConfig(ack_policy="sometimes"),
        "assign": lambda: setattr(config, "ack_policy", "sometimes"),
        "evolve": lambda: config.evolve(ack_policy="sometimes"),
        "enum": lambda: api.AckPolicy("sometimes"),
    }
    with pytest.raises(ValueError, match=r"'sometimes'.*AckPolicy.*'none', 'all', 'explicit'"):
        calls[how]()


DURATIONS = [
    ("StreamConfig", "max_age", "max_age"),
    ("StreamConfig", "duplicate_window", "duplicate_window"),
    ("StreamConfig", "subject_delete_marker_ttl", "subject_delete_marker_ttl"),
    ("StreamConsumerLimits", "inactive_threshold", "inactive_threshold"),
    ("ConsumerConfig", "ack_wait", "ack_wait"),
    ("ConsumerConfig", "idle_heartbeat", "idle_heartbeat"),
    ("ConsumerConfig", "inactive_threshold", "inactive_threshold"),
    ("ConsumerConfig", "max_request_expires", "max_expires"),
    ("ConsumerConfig", "priority_timeout", "priority_timeout"),
    ("ObjectStoreConfig", "ttl", "ttl"),
]


@pytest.mark.parametrize(("name", "field", "wire_name"), DURATIONS)
def test_durations(name, field, wire_name):
    cls = getattr(api, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value, nanoseconds in [
            (9, 9 * 10**9),
            (0.25, 250_000_000),
            (4.35, 4_350_000_000),
            (timedelta(days=400, microseconds=1), 34_560_000_000_001_000),
            (999_999_999, 999_999_999 * 10**9),
        ]:
            config = cls(**{field: value})
            assert config.as_dict()[wire_name] == nanoseconds
            assert type(config.as_dict()[wire_name]) is int
    with pytest.warns(UserWarning, match=rf"{field}=9000000000 .*nanoseconds.* 9 s.*9e\+09 s") as caught:
        config = cls(**{field: 9 * 10**9})
    assert caught[0].filename == __file__, "the warning must point at the caller"
    assert getattr(config, field) == 9
    assert config.as_dict()[wire_name] == 9 * 10**9


def test_backoff_takes_timedeltas():
    config = api.ConsumerConfig(backoff=[timedelta(milliseconds=1), 2])
    assert config.backoff == [0.001, 2]
    assert config.as_dict()["backoff"] == [10**6, 2 * 10**9]


@pytest.mark.parametrize(("value", "error"), [("1h", TypeError), (True, TypeError), (float("nan"), ValueError)])
def test_bad_durations(value, error):
    with pytest.raises(error, match="max_age"):
        api.StreamConfig(max_age=value)


def test_long_durations_from_the_server_stay():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        century = 100 * 365 * 86_400
        config = api.StreamConfig.from_response({"name": "A", "max_age": century * 10**9})
        for copied in (config, config.evolve(name="B"), pickle.loads(pickle.dumps(config))):
            assert copied.max_age == century
            assert copied.as_dict()["max_age"] == century * 10**9
        assert api.StreamConfig(max_age=timedelta(days=36_500)).as_dict()["max_age"] == century * 10**9


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2024, 5, 1, 10, 0, 0, tzinfo=UTC), "2024-05-01T10:00:00Z"),
        (datetime(2024, 5, 1, 10, 0, 0, 5, tzinfo=UTC), "2024-05-01T10:00:00.000005Z"),
        (datetime(2024, 5, 1, 10, tzinfo=timezone(timedelta(hours=-3))), "2024-05-01T13:00:00Z"),
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00Z"),
        ("2024-05-01T10:00:00.123456789Z", "2024-05-01T10:00:00.123456789Z"),
        ("2024-05-01 12:00:00.5+02:00", "2024-05-01T10:00:00.5Z"),
    ],
)
def test_start_time(value, text):
    config = api.ConsumerConfig(deliver_policy="by_start_time", opt_start_time=value)
    assert config.as_dict()["opt_start_time"] == text
    assert isinstance(config.opt_start_time, datetime)
    assert config.evolve(name="x").as_dict()["opt_start_time"] == text


def test_naive_time_is_local_time(monkeypatch):
    naive = datetime(2024, 7, 1, 12, 30)
    wanted = naive.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert api.ConsumerConfig(opt_start_time=naive).as_dict()["opt_start_time"] == wanted
    assert api.ConsumerConfig(opt_start_time="2024-07-01T12:30:00").as_dict()["opt_start_time"] == wanted
    config = api.ConsumerConfig(pause_until=naive)
    assert config.pause_until == wanted


def test_bad_times():
    with pytest.raises(ValueError, match="yesterday"):
        api.ConsumerConfig(opt_start_time="yesterday")
    with pytest.raises(TypeError, match="opt_start_time"):
        api.ConsumerConfig(opt_start_time=5)


def test_changed_time_replaces_the_kept_text():
    config = api.ConsumerConfig(opt_start_time="2024-05-01T10:00:00.123456789Z")
    config.opt_start_time = datetime(2025, 1, 1, tzinfo=UTC)
    assert config.as_dict()["opt_start_time"] == "2025-01-01T00:00:00Z"
    info = api.StreamInfo.from_response({"config": {}, "state": STATE, "created": "2024-05-01T10:00:00.5Z"})
    info.created = datetime(2025, 1, 1, tzinfo=UTC)
    assert info.created_raw == "2025-01-01T00:00:00Z"


STATE = {"messages": 0, "bytes": 0, "first_seq": 1, "last_seq": 0, "consumer_count": 0}


def test_unknown_fields_and_choices_survive():
    answer = {
        "name": "A",
        "retention": "for_ever_and_a_day",
        "tomorrow": {"x": [1]},
        "placement": {"cluster": "c", "planet": "Mars"},
        "max_age": 0,
    }
    before = copy.deepcopy(answer)
    config = api.StreamConfig.from_response(answer)
    assert answer == before, "the answer must not be changed"
    assert config.retention == "for_ever_and_a_day"
    for copied in (config, config.evolve(name="B"), pickle.loads(pickle.dumps(config)), copy.copy(config)):
        wire = copied.as_dict()
        assert wire["retention"] == "for_ever_and_a_day"
        assert wire["tomorrow"] == {"x": [1]}
        assert wire["placement"] == {"cluster": "c", "planet": "Mars"}
    assert "tomorrow" not in api.StreamConfig("A").as_dict()


def test_created_has_all_digits():
    info = api.StreamInfo.from_response(
        {"config": {"name": "A"}, "state": STATE, "created": "2026-11-21T13:12:02.902920604Z"}
    )
    assert info.created == datetime(2026, 11, 21, 13, 12, 2, 902920, tzinfo=UTC)
    assert info.created_raw == "2026-11-21T13:12:02.902920604Z"
    assert info.created_ns == 1795266722_902920604
    assert info.as_dict()["created"] == info.created_raw
    assert api.StreamInfo(config=info.config, state=info.state).created_ns is None


def test_evolve_leaves_the_original():
    config = api.StreamConfig("A", subjects=["a"])
    other = config.evolve(subjects=["b"], max_age=timedelta(minutes=1))
    assert (config.subjects, config.max_age) == (["a"], None)
    assert (other.name, other.subjects, other.max_age) == ("A", ["b"], 60)
    assert config == api.StreamConfig("A", subjects=["a"])
    assert config != other


def test_pub_ack():
    ack = api.PubAck.from_response({"stream": "A", "seq": 3, "batch": "x", "count": 2, "val": "7"})
    assert (ack.stream, ack.seq, ack.batch_id, ack.batch_size, ack.val) == ("A", 3, "x", 2, "7")
    with pytest.raises(TypeError):
        api.PubAck.from_response({"seq": 3})


def test_raw_message():
    msg = api.RawStreamMsg.from_response({"subject": "a", "seq": 2, "time": "2024-05-01T10:00:00.000000001Z"})
    assert (msg.sequence, msg.header, msg.time_ns) == (2, None, 1714557600_000000001)
    assert api.RawStreamMsg(seq=1).time_ns is None


def test_account_tiers():
    limits = dict.fromkeys((f.name for f in dataclasses.fields(api.AccountLimits)), -1)
    used = {"memory": 0, "storage": 1, "streams": 2, "consumers": 3, "limits": limits}
    info = api.AccountInfo.from_response({**used, "api": {"total": 4, "errors": 0}, "tiers": {"R1": used}})
    assert isinstance(info.tiers["R1"], api.Tier)
    assert info.tiers["R1"].limits == info.limits
    assert info.as_dict()["tiers"]["R1"]["streams"] == 2


def test_advisory():
    body = {
        "type": "io.nats.jetstream.advisory.v1.max_deliver",
        "id": "i",
        "timestamp": "2024-05-01T10:00:00.5Z",
        "stream": "A",
        "consumer": "c",
        "deliveries": 5,
    }
    event = api.Advisory.from_response(body)
    assert event.kind is api.AdvisoryKind.MAX_DELIVER is api.AdvisoryKind.DELIVERY_EXCEEDED
    assert (event.stream, event.consumer, event.data["deliveries"]) == ("A", "c", 5)
    assert event.timestamp == datetime(2024, 5, 1, 10, 0, 0, 500_000, tzinfo=UTC)
    assert api.Advisory.from_response({"type": "io.nats.jetstream.advisory.v9.brand_new"}).kind == "brand_new"
    assert api.AdvisoryKind("$JS.EVENT.ADVISORY.STREAM.ACTION") is api.AdvisoryKind.STREAM_ACTION
    assert api.AdvisoryKind("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED") is api.AdvisoryKind.TERMINATED
    assert api.AckKind("nak") is api.AckKind.NAK
