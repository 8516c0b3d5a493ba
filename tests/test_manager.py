"""Management: every verb of the manager against a real server, compared with nats-py."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta

import jetarrow
import nats
import nats.js.manager
import pytest
from jetarrow.js import api
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    APIError,
    BadRequestError,
    ConsumerInvalidResetError,
    NotFoundError,
    ServerError,
    ServiceUnavailableError,
)
from jetarrow.js.manager import JetStreamManager
from jetarrow.server import NatsServer

from .tools import fill_subjects

# More than two pages of a list (256), and two of names (1024).
MANY = 1030


def test_manager_has_names_and_defaults_of_nats_py() -> None:
    theirs = {name: f for name, f in inspect.getmembers(nats.js.manager.JetStreamManager) if not name.startswith("_")}
    assert len(theirs) == 19
    for name, function in theirs.items():
        ours = inspect.signature(getattr(JetStreamManager, name)).parameters
        wanted = inspect.signature(function).parameters
        positional = [p.name for p in ours.values() if p.kind is not p.KEYWORD_ONLY]
        assert positional[: len(wanted)] == list(wanted), name
        assert [ours[p].default for p in wanted] == [p.default for p in wanted.values()], name


async def test_account_info_returns_usage(own: JetStreamContext) -> None:
    before = await own.account_info()
    assert (before.streams, before.consumers, before.limits.max_streams) == (0, 0, -1)
    await own.add_stream(name="A", subjects=["a"], max_bytes=1000)
    after = await own.account_info()
    assert (after.streams, after.reserved_storage) == (1, 1000)
    assert after.api.total > before.api.total


async def test_stream_is_created_updated_and_deleted(js: JetStreamContext, stream: str) -> None:
    name = f"{stream}L"
    made = await js.add_stream(api.StreamConfig(name=name, max_msgs=5), subjects=[name], storage="memory")
    assert (made.config.name, made.config.max_msgs, made.config.storage) == (name, 5, api.StorageType.MEMORY)
    assert (await js.add_stream(made.config)).created == made.created
    with pytest.raises(BadRequestError) as refused:
        await js.add_stream(name=name, subjects=[name])
    assert (refused.value.code, refused.value.err_code) == (400, 10058)

    changed = await js.update_stream(made.config, max_age=timedelta(hours=1), description="new")
    assert (changed.config.max_age, changed.config.max_msgs, changed.config.description) == (3600, 5, "new")
    # As a whole: other fields are reset to their defaults.
    changed = await js.update_stream(name=name, subjects=[name], storage="memory")
    assert (changed.config.max_age, changed.config.max_msgs, changed.config.description) == (0, -1, None)

    assert (await js.stream_info(name)).config == changed.config
    assert await js.delete_stream(name) is True
    for call in (js.stream_info(name), js.delete_stream(name), js.update_stream(name=name), js.purge_stream(name)):
        with pytest.raises(NotFoundError) as gone:
            await call
        assert (gone.value.code, gone.value.err_code, gone.value.description) == (404, 10059, "stream not found")
        assert name in str(gone.value)


@pytest.mark.newest_server
async def test_unknown_config_fields_are_sent_back(js: JetStreamContext, stream: str) -> None:
    config = (await js.stream_info(stream)).config
    assert "_nats.ver" in (config.metadata or {})
    changed = (await js.update_stream(config, description="d")).config
    assert (changed.metadata, changed.subjects) == (config.metadata, config.subjects)
    # The server rejects unknown fields, so its error shows what was sent.
    newer = api.StreamConfig.from_response({**config.as_dict(), "brand_new": 1})
    with pytest.raises(BadRequestError, match="brand_new"):
        await js.update_stream(newer, description="d")
    made = (await js.add_consumer(stream, durable_name="c")).config
    with pytest.raises(BadRequestError, match="brand_new"):
        await js.update_consumer(stream, api.ConsumerConfig.from_response({**made.as_dict(), "brand_new": 1}))


async def test_durations_and_enums_accept_several_forms(js: JetStreamContext, stream: str) -> None:
    config = (await js.stream_info(stream)).config.evolve(duplicate_window=timedelta(seconds=5))
    assert (await js.update_stream(config, max_age=90)).config.max_age == 90
    with pytest.warns(UserWarning, match="nanoseconds"):
        assert (await js.update_stream(config, max_age=9 * 10**9)).config.max_age == 9
    with pytest.raises(ValueError, match="'old', 'new'"):
        await js.update_stream(config, discard="newest")
    info = await js.add_consumer(stream, name="c", ack_wait=timedelta(minutes=1), deliver_policy="new")
    assert (info.config.ack_wait, info.config.deliver_policy) == (60, api.DeliverPolicy.NEW)


async def test_stream_info_returns_subjects_and_deleted(js: JetStreamContext, stream: str) -> None:
    await fill_subjects(js, stream, ["a", "b", "a"])
    await js.delete_msg(stream, 2)
    plain = await js.stream_info(stream)
    assert (plain.state.subjects, plain.state.deleted, plain.state.num_deleted) == (None, None, 1)
    info = await js.stream_info(stream, f"{stream}.*", deleted_details=True)
    assert (info.state.subjects, info.state.deleted) == ({f"{stream}.a": 2}, [2])
    assert (await js.stream_info(stream, "other")).state.subjects is None


async def test_stream_info_returns_all_pages_of_subjects(js: JetStreamContext, stream: str) -> None:
    count = 100_001  # The server lists 100,000 subjects per response.
    result = await js.publish_batch([f"{stream}.{number}" for number in range(count)], [b""] * count)
    assert result.stored == count
    subjects = (await js.stream_info(stream, f"{stream}.>")).state.subjects
    assert subjects is not None
    assert len(subjects) == count


async def test_lists_return_all_pages(own: JetStreamContext) -> None:
    assert [name async for name in own.stream_names()] == []
    assert [info async for info in own.streams()] == []
    assert await own.streams_info() == []
    assert list(await own.streams_info_iterator()) == []

    wanted = [f"S{number:04}" for number in range(MANY)]
    adds = (own.add_stream(name=name, subjects=[f"{name}.>"], storage="memory") for name in wanted)
    await asyncio.gather(*adds)
    assert [name async for name in own.stream_names()] == wanted
    assert [info.config.name async for info in own.streams()] == wanted
    assert [name async for name in own.stream_names("S0007.x")] == ["S0007"]
    assert [info.config.name async for info in own.streams("S0008.>")] == ["S0008"]
    assert [name async for name in own.stream_names("other")] == []

    # nats-py's verbs return one page.
    assert [info.config.name for info in await own.streams_info()] == wanted[:256]
    assert [info.config.name for info in await own.streams_info(offset=1000)] == wanted[1000:]
    page = await own.streams_info_iterator(512)
    assert isinstance(page, api.StreamsListIterator)
    assert (page.offset, page.total) == (512, MANY)
    assert [info.config.name for info in page] == wanted[512:768]


async def test_find_stream_name_by_subject_returns_name(js: JetStreamContext, stream: str) -> None:
    assert await js.find_stream_name_by_subject(f"{stream}.a.b") == stream
    with pytest.raises(NotFoundError, match="'nothing'"):
        await js.find_stream_name_by_subject("nothing")


async def test_purge_removes_selected_messages(js: JetStreamContext, stream: str) -> None:
    async def left() -> int:
        return (await js.stream_info(stream)).state.messages

    await fill_subjects(js, stream, ["a", "b", "a", "b", "a", "b"])
    with pytest.raises(ValueError, match="empty"):
        await js.purge_stream(stream, subject="")
    assert await left() == 6
    assert (await js.purge_stream(stream, subject=f"{stream}.b")).success is True
    assert await left() == 3
    assert await js.purge_stream(stream, 4)
    assert await left() == 1
    await fill_subjects(js, stream, ["c", "c"])
    assert await js.purge_stream(stream, keep=2)
    assert await left() == 2
    with pytest.raises(BadRequestError):
        await js.purge_stream(stream, seq=3, keep=1)
    assert await js.purge_stream(stream)
    assert await left() == 0


async def test_purge_and_delete_of_protected_stream_raise_error(js: JetStreamContext, stream: str) -> None:
    name = f"{stream}D"
    await js.add_stream(name=name, subjects=[name], deny_delete=True, deny_purge=True, storage="memory")
    await js.publish(name, b"")
    for call in (js.purge_stream(name), js.delete_msg(name, 1)):
        with pytest.raises(ServerError) as refused:
            await call
        assert refused.value.code == 500
    await js.delete_stream(name)


async def test_consumer_is_created_and_deleted(js: JetStreamContext, stream: str) -> None:
    await fill_subjects(js, stream, ["a", "b", "a"])
    made = await js.add_consumer(
        stream, api.ConsumerConfig(durable_name="worker"), filter_subject=f"{stream}.a", timeout=5
    )
    assert (made.name, made.stream_name, made.num_pending) == ("worker", stream, 2)
    again = await js.add_consumer(stream, durable_name="worker", filter_subject=f"{stream}.>", max_deliver=3)
    assert (again.created, again.config.max_deliver, again.num_pending) == (made.created, 3, 3)
    assert (await js.consumer_info(stream, "worker", timeout=5)).config == again.config
    nameless = await js.add_consumer(stream)
    assert nameless.config.durable_name is None
    assert (nameless.config.inactive_threshold, nameless.num_pending) == (5, 3)
    assert (await js.add_consumer(stream, name="all", filter_subject=">")).num_pending == 3

    assert await js.delete_consumer(stream, "worker") is True
    for call in (js.consumer_info(stream, "worker"), js.delete_consumer(stream, "worker")):
        with pytest.raises(NotFoundError) as gone:
            await call
        assert (gone.value.err_code, gone.value.description) == (10014, "consumer not found")
    with pytest.raises(NotFoundError) as gone:
        await js.add_consumer(f"{stream}X", name="c")
    assert gone.value.err_code == 10059
    with pytest.raises(BadRequestError):
        await js.add_consumer(stream, name="c", filter_subject="other.subject", filter_subjects=["a", "b"])


async def test_update_consumer_changes_given_fields(js: JetStreamContext, stream: str) -> None:
    await js.add_consumer(
        stream, name="c", durable_name="c", filter_subject=f"{stream}.a", ack_wait=7, deliver_policy="new"
    )
    info = await js.update_consumer(stream, name="c", max_deliver=4)
    assert (info.config.max_deliver, info.config.ack_wait, info.config.filter_subject) == (4, 7, f"{stream}.a")
    info = await js.update_consumer(stream, durable_name="c", filter_subjects=[f"{stream}.a", f"{stream}.b"])
    assert (info.config.filter_subject, info.config.filter_subjects) == (None, [f"{stream}.a", f"{stream}.b"])
    info = await js.update_consumer(stream, durable_name="c", filter_subject=f"{stream}.c")
    assert (info.config.filter_subject, info.config.filter_subjects) == (f"{stream}.c", None)

    whole = api.ConsumerConfig(durable_name="c", deliver_policy="new")
    info = await js.update_consumer(stream, whole, description="d")
    assert (info.config.max_deliver, info.config.ack_wait, info.config.description) == (-1, 30, "d")
    with pytest.raises(APIError, match="deliver policy"):
        await js.update_consumer(stream, name="c", deliver_policy="all")
    with pytest.raises(BadRequestError) as absent:
        await js.update_consumer(stream, api.ConsumerConfig(name="other"))
    assert absent.value.err_code == 10149
    with pytest.raises(NotFoundError):
        await js.update_consumer(stream, name="other", max_deliver=4)
    for nameless in (js.update_consumer(stream, max_deliver=4), js.update_consumer(stream, api.ConsumerConfig())):
        with pytest.raises(ValueError, match="name"):
            await nameless


async def test_consumers_info_returns_one_page(js: JetStreamContext, stream: str) -> None:
    assert await js.consumers_info(stream) == []
    wanted = [f"c{number:03}" for number in range(300)]
    await asyncio.gather(*(js.add_consumer(stream, durable_name=name, mem_storage=True) for name in wanted))
    assert [info.name for info in await js.consumers_info(stream)] == wanted[:256]
    assert [info.name for info in await js.consumers_info(stream, offset=256)] == wanted[256:]


async def test_consumer_is_paused_and_resumed(js: JetStreamContext, stream: str) -> None:
    await js.add_consumer(stream, durable_name="c")
    until = datetime.now(UTC) + timedelta(hours=1)
    paused = await js.pause_consumer(stream, "c", until.isoformat())
    assert paused.paused
    assert paused.pause_remaining is not None
    assert 3_500 * 10**9 < paused.pause_remaining <= 3_600 * 10**9
    assert (await js.consumer_info(stream, "c")).paused
    resumed = await js.resume_consumer(stream, "c")
    assert (resumed.paused, (await js.consumer_info(stream, "c")).paused) == (False, None)
    # A datetime without a zone is local time.
    assert (await js.pause_consumer(stream, "c", datetime.now() + timedelta(hours=1), timeout=5)).paused
    with pytest.raises(BadRequestError, match="tomorrow"):
        await js.pause_consumer(stream, "c", "tomorrow")
    with pytest.raises(NotFoundError):
        await js.pause_consumer(stream, "other", until)


async def test_reset_consumer_redelivers_messages(js: JetStreamContext, stream: str) -> None:
    await fill_subjects(js, stream, ["a"] * 6)
    await js.add_consumer(stream, durable_name="c", opt_start_seq=3, deliver_policy="by_start_sequence")
    sub = await js.pull_subscribe("", durable="c", stream=stream)
    first = await sub.fetch(4)
    assert [msg.seq for msg in first] == [3, 4, 5, 6]
    await first[0].ack_sync(timeout=20)
    reset = await js.reset_consumer(stream, "c")
    assert (reset.reset_seq, reset.info.num_ack_pending, reset.info.name) == (4, 0, "c")
    assert [msg.seq for msg in await sub.fetch(3)] == [4, 5, 6]
    assert (await js.reset_consumer(stream, "c", seq=5, timeout=5)).reset_seq == 5
    assert [msg.seq for msg in await sub.fetch(2)] == [5, 6]
    with pytest.raises(ConsumerInvalidResetError) as refused:
        await js.reset_consumer(stream, "c", 2)
    assert refused.value.err_code == 10204


async def test_connection_creates_managers_with_options(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        manager = nc.jsm(timeout=2)
        assert type(manager) is JetStreamManager
        assert (await manager.account_info()).streams == 0
        js = await nc.jetstream_manager()
        assert (await js.get_or_create_stream(name="A")).name == "A"
        with pytest.raises(ServiceUnavailableError, match="domain"):
            await nc.jetstream_manager(domain="nowhere")
        away = await nc.jetstream_manager(check_api=False, domain="nowhere")
        with pytest.raises(ServiceUnavailableError):
            await away.stream_info("A")
