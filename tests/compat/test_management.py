"""Streams, consumers and stored messages: the same with both clients."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ..tools import until
from .face import Face, make_stream, spread, subject

FAR = "2100-01-01T00:00:00Z"


def told(error: Any) -> tuple[int, int, bool]:
    return error.code, error.err_code, bool(error.description)


async def test_account_info(face: Face, js: Any) -> None:
    # jetarrow also counts the messages of all streams, with additional requests.
    options = {} if face.name == "nats" else {"totals": False}
    before = await js.account_info(**options)
    stream = await make_stream(js)
    await js.add_consumer(stream, durable_name="work")
    await face.raised(js.stream_info("NONE"))
    info = await js.account_info(**options)
    assert info.streams == before.streams + 1
    assert info.consumers > 0
    assert info.limits.max_streams == -1
    # jetarrow also requests stream names, to suggest a similar one.
    requests = 4 if face.name == "nats" else 5
    assert (info.api.total - before.api.total, info.api.errors - before.api.errors) == (requests, 1)


async def test_a_new_stream(face: Face, js: Any) -> None:
    name = subject()
    config = face.api.StreamConfig(name=name, subjects=[f"{name}.>"], max_msgs=10)
    info = await js.add_stream(config, max_age=60, storage=face.api.StorageType.MEMORY)
    found = info.config
    assert (found.name, found.subjects, found.max_msgs, found.max_age) == (name, [f"{name}.>"], 10, 60)
    assert (found.storage, found.retention, found.discard) == ("memory", "limits", "old")
    assert (found.num_replicas, found.duplicate_window, found.max_bytes, found.sealed) == (1, 60, -1, False)
    state = (info.state.messages, info.state.bytes, info.state.first_seq, info.state.last_seq)
    assert (state, info.state.consumer_count) == ((0, 0, 0, 0), 0)
    assert (config.max_age, config.storage) == (None, None)


async def test_the_same_stream_again(face: Face, js: Any) -> None:
    name = subject()
    for _ in range(2):
        info = await js.add_stream(name=name, subjects=[name])
    assert info.config.name == name
    error = await face.raised(js.add_stream(name=name, subjects=[name, f"{name}.more"]))
    assert (face.kind(error), told(error)) == ("js.errors.BadRequestError", (400, 10058, True))


async def test_subjects_that_overlap(face: Face, js: Any, stream: str) -> None:
    error = await face.raised(js.add_stream(name=subject(), subjects=[f"{stream}.a"]))
    assert (face.kind(error), told(error)) == ("js.errors.BadRequestError", (400, 10065, True))


@pytest.mark.parametrize("name", ["a.b", "a b", "a*", ">", "a/b", "a\\b", "", "a\tb", "a\r\n"])
async def test_invalid_names_raise_value_error(face: Face, js: Any, stream: str, name: str) -> None:
    calls = [
        js.add_stream(name=name, subjects=["x"]),
        js.update_stream(name=name, subjects=["x"]),
        js.stream_info(name),
        js.delete_stream(name),
        js.purge_stream(name),
        js.consumer_info(stream, name),
        js.consumer_info(name, "work"),
        js.delete_consumer(stream, name),
        js.consumers_info(name),
        js.get_msg(name, 1),
        js.delete_msg(name, 1),
    ]
    assert [await face.failure(call) for call in calls] == ["ValueError"] * len(calls)


async def test_streams_need_a_name(face: Face, js: Any) -> None:
    calls = [js.add_stream(), js.add_stream(subjects=["x"]), js.update_stream()]
    assert [await face.failure(call) for call in calls] == ["ValueError"] * 3


async def test_no_such_stream(face: Face, js: Any) -> None:
    calls = [
        js.stream_info("NONE"),
        js.delete_stream("NONE"),
        js.purge_stream("NONE"),
        js.update_stream(name="NONE", subjects=["none"]),
        js.consumers_info("NONE"),
        js.add_consumer("NONE", durable_name="work"),
        js.get_msg("NONE", 1),
        js.delete_msg("NONE", 1),
    ]
    errors = [await face.raised(call) for call in calls]
    assert {(face.kind(error), told(error)) for error in errors} == {("js.errors.NotFoundError", (404, 10059, True))}


async def test_update_stream(js: Any, stream: str) -> None:
    config = (await js.stream_info(stream)).config
    config.max_msgs = 5
    updated = await js.update_stream(config, description="now with words")
    found = (await js.stream_info(stream)).config
    told = [(one.max_msgs, one.description) for one in (updated.config, found)]
    assert told == [(5, "now with words")] * 2


async def test_delete_stream(face: Face, js: Any) -> None:
    stream = await make_stream(js)
    assert await js.delete_stream(stream) is True
    assert await face.failure(js.stream_info(stream)) == "js.errors.NotFoundError"


async def test_stream_info(js: Any, stream: str) -> None:
    await spread(js, stream, 5)
    await js.delete_msg(stream, 2)
    state = (await js.stream_info(stream)).state
    assert (state.messages, state.first_seq, state.last_seq, state.num_deleted) == (4, 1, 5, 1)
    state = (await js.stream_info(stream, subjects_filter=f"{stream}.>")).state
    assert state.subjects == {f"{stream}.0": 2, f"{stream}.1": 1, f"{stream}.2": 1}


@pytest.mark.parametrize(
    ("options", "left"),
    [({}, []), ({"seq": 4}, [4, 5, 6]), ({"keep": 2}, [5, 6]), ({"subject": "0"}, [2, 3, 5, 6])],
)
async def test_purge(js: Any, stream: str, options: dict[str, Any], left: list[int]) -> None:
    await spread(js, stream, 6)
    if "subject" in options:
        options = {"subject": f"{stream}.{options['subject']}"}
    assert await js.purge_stream(stream, **options) == True  # noqa: E712  # jetarrow also reports the count
    state = (await js.stream_info(stream)).state
    assert (state.messages, state.last_seq) == (len(left), 6)
    assert state.first_seq == (left or [7])[0]


async def test_find_a_stream(face: Face, js: Any, stream: str) -> None:
    assert await js.find_stream_name_by_subject(f"{stream}.a.b") == stream
    assert await face.failure(js.find_stream_name_by_subject(subject())) == "js.errors.NotFoundError"


async def test_lists(js: Any, stream: str) -> None:
    for name in ("one", "two"):
        await js.add_consumer(stream, durable_name=name)
    streams = await js.streams_info()
    iterated = await js.streams_info_iterator()
    assert stream in [info.config.name for info in streams]
    assert [info.config.name for info in iterated] == [info.config.name for info in streams]
    assert sorted(info.name for info in await js.consumers_info(stream)) == ["one", "two"]
    assert len(await js.consumers_info(stream, offset=1)) == 1


async def test_a_new_consumer(face: Face, js: Any, stream: str) -> None:
    await spread(js, stream, 3)
    config = face.api.ConsumerConfig(durable_name="work", ack_policy=face.api.AckPolicy.EXPLICIT, ack_wait=12)
    info = await js.add_consumer(stream, config, max_deliver=4, filter_subject=f"{stream}.1")
    assert (info.name, info.stream_name, info.num_pending, info.num_ack_pending) == ("work", stream, 1, 0)
    found = info.config
    assert (found.durable_name, found.ack_wait, found.max_deliver, found.filter_subject) == (
        "work",
        12,
        4,
        f"{stream}.1",
    )
    assert (found.ack_policy, found.deliver_policy, found.replay_policy) == ("explicit", "all", "instant")
    assert config.max_deliver is None
    same = await js.consumer_info(stream, "work")
    assert (same.name, same.config.ack_wait, same.delivered.stream_seq) == ("work", 12, 0)


async def test_a_consumer_by_name(js: Any, stream: str) -> None:
    info = await js.add_consumer(stream, name="named", filter_subject=f"{stream}.>", inactive_threshold=30)
    assert (info.name, info.config.name, info.config.durable_name) == ("named", "named", None)
    assert info.config.inactive_threshold == 30


async def test_invalid_and_missing_consumers_raise(face: Face, js: Any, stream: str) -> None:
    kinds = [
        await face.failure(js.add_consumer(stream, durable_name="a.b")),
        await face.failure(js.add_consumer(stream, name="a b")),
        await face.failure(js.consumer_info(stream, "none")),
        await face.failure(js.delete_consumer(stream, "none")),
        await face.failure(js.add_consumer(stream, durable_name="a", max_deliver=1, backoff=[1, 2])),
    ]
    assert kinds == ["ValueError"] * 2 + ["js.errors.NotFoundError"] * 2 + ["js.errors.BadRequestError"]


async def test_delete_consumer(face: Face, js: Any, stream: str) -> None:
    await js.add_consumer(stream, durable_name="work")
    assert await js.delete_consumer(stream, "work") is True
    error = await face.raised(js.consumer_info(stream, "work"))
    assert (face.kind(error), told(error)) == ("js.errors.NotFoundError", (404, 10014, True))


async def test_pause_and_resume(js: Any, stream: str) -> None:
    await js.add_consumer(stream, durable_name="work")
    paused = await js.pause_consumer(stream, "work", FAR)
    during = (await js.consumer_info(stream, "work")).paused
    resumed = await js.resume_consumer(stream, "work")
    assert (paused.paused, during, resumed.paused) == (True, True, False)
    assert paused.pause_remaining > 1e9


async def test_reset_consumer(face: Face, js: Any, stream: str) -> None:
    await spread(js, stream, 5)
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    for msg in await sub.fetch(5):
        await msg.ack_sync(timeout=20)
    reset = await js.reset_consumer(stream, "work", seq=3)
    assert reset.reset_seq == 3
    assert [msg.metadata.sequence.stream for msg in await sub.fetch(5)] == [3, 4, 5]
    await js.add_consumer(stream, durable_name="late", deliver_policy="by_start_sequence", opt_start_seq=4)
    failure = await face.failure(js.reset_consumer(stream, "late", seq=2))
    assert failure == "js.errors.ConsumerInvalidResetError"


@pytest.mark.parametrize("direct", [False, True], ids=["by the leader", "direct"])
async def test_get_a_message(face: Face, js: Any, direct: bool) -> None:
    stream = await make_stream(js, allow_direct=True)
    await spread(js, stream, 5)
    await js.publish(f"{stream}.9", b"", headers={"Name": "value"})
    found = [
        await js.get_msg(stream, 2, direct=direct),
        await js.get_msg(stream, subject=f"{stream}.1", direct=direct),
        await js.get_last_msg(stream, f"{stream}.0", direct=direct),
        await js.get_msg(stream, 2, subject=f"{stream}.0", next=True, direct=direct),
    ]
    assert [(msg.seq, msg.subject, msg.data) for msg in found] == [
        (2, f"{stream}.1", b"1"),
        (5, f"{stream}.1", b"4"),
        (4, f"{stream}.0", b"3"),
        (4, f"{stream}.0", b"3"),
    ]
    age = datetime.datetime.now(datetime.UTC) - found[0].time
    assert abs(age.total_seconds()) < 60
    last = await js.get_last_msg(stream, f"{stream}.9", direct=direct)
    assert (last.headers or {}).get("Name") == "value"
    kinds = [
        await face.failure(js.get_msg(stream, 99, direct=direct)),
        await face.failure(js.get_last_msg(stream, f"{stream}.none", direct=direct)),
    ]
    assert kinds == ["js.errors.NotFoundError"] * 2


async def test_delete_a_message(face: Face, js: Any, stream: str) -> None:
    await spread(js, stream, 3)
    assert await js.delete_msg(stream, 2) is True
    error = await face.raised(js.get_msg(stream, 2))
    assert (face.kind(error), told(error)) == ("js.errors.NotFoundError", (404, 10037, True))
    assert await face.failure(js.delete_msg(stream, 2)) == "js.errors.BadRequestError"


async def test_jsm(nc: Any, stream: str) -> None:
    manager = nc.jsm()
    assert (await manager.stream_info(stream)).config.name == stream


async def test_missing_api_raises_service_unavailable(face: Face, nc: Any) -> None:
    kinds = [
        await face.failure(nc.jetstream(prefix="$NOBODY").account_info()),
        await face.failure(nc.jetstream(domain="NOBODY").stream_info("S")),
        await face.failure(nc.jsm(prefix="$NOBODY").account_info()),
    ]
    assert kinds == ["js.errors.ServiceUnavailableError"] * 3


async def test_api_without_response_raises_timeout(face: Face, nc: Any) -> None:
    await nc.subscribe("$SILENT.>")
    js = nc.jetstream(prefix="$SILENT", timeout=0.05)
    kinds = [await face.failure(call) for call in (js.account_info(), js.stream_info("S"))]
    assert kinds == ["errors.TimeoutError"] * 2


async def test_mirror_and_sources(face: Face, js: Any, stream: str) -> None:
    await spread(js, stream, 3)
    names = [subject(), subject()]
    await js.add_stream(name=names[0], mirror=face.api.StreamSource(name=stream))
    await js.add_stream(name=names[1], sources=[face.api.StreamSource(name=stream, filter_subject=f"{stream}.1")])

    async def copied() -> bool:
        infos = [await js.stream_info(name) for name in names]
        return [info.state.messages for info in infos] == [3, 1]

    await until(copied)
    mirror, sourced = [(await js.stream_info(name)) for name in names]
    assert (mirror.config.mirror.name, mirror.mirror.name) == (stream, stream)
    assert [(one.name, one.filter_subject) for one in sourced.config.sources] == [(stream, f"{stream}.1")]
    assert [one.name for one in sourced.sources] == [stream]


async def test_durations_are_seconds(face: Face, js: Any) -> None:
    stream = await make_stream(js, max_age=90.5, duplicate_window=30)
    config = (await js.stream_info(stream)).config
    info = await js.add_consumer(
        stream, durable_name="work", ack_policy="explicit", backoff=[1, 2.5], ack_wait=1, max_deliver=5
    )
    assert (config.max_age, config.duplicate_window) == (90.5, 30)
    assert info.config.backoff == [1, 2.5]
    parts = face.api.ConsumerConfig(ack_wait=1.5, idle_heartbeat=2).as_dict()
    assert (parts["ack_wait"], parts["idle_heartbeat"]) == (1_500_000_000, 2_000_000_000)
