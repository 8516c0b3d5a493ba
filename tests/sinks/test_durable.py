"""Sinks of work-queue and interest streams: a durable consumer, acknowledged after the commit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.jetstream.sinks.state import State, without
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkError
from jetarrow.server import NatsServer

from ..slow_link import slow_link
from ..tools import store, until
from .tools import SCHEMA, data, fill, records, seqs, table


@pytest.fixture
async def queue(js: JetStreamContext, stream: str) -> str:
    await js.delete_stream(stream)
    await js.add_stream(name=stream, subjects=[f"{stream}.>"], retention="workqueue")
    return stream


async def count(js: JetStreamContext, stream: str) -> int:
    return (await js.stream_info(stream)).state.messages


async def test_a_work_queue(js: JetStreamContext, queue: str, tmp_path: Path) -> None:
    await fill(js, queue, 51)
    with pytest.raises(SinkError, match=r'workqueue.*give durable="archive"'):
        await js.to_parquet(queue, tmp_path).run()
    sink = js.to_parquet(queue, tmp_path, durable="archive", schema=SCHEMA, rows=20)
    assert (await sink.step()).rows == 20
    # Acknowledged once they are safe.
    assert await count(js, queue) == 30
    assert await sink.run() == (30, 2, 21, 50, 0)
    assert await count(js, queue) == 0
    assert table(tmp_path)["id"].to_pylist() == list(range(1, 51))
    assert table(tmp_path).schema.names == ["stream", "seq", "subject", "timestamp", "headers", "id", "region"]
    await fill(js, queue, 61, start=51)
    assert (await js.to_parquet(queue, tmp_path, durable="archive", schema=SCHEMA).run()).rows == 10
    assert seqs(tmp_path) == list(range(1, 61))


async def test_delta_and_corrupt_rows(js: JetStreamContext, queue: str, tmp_path: Path) -> None:
    import deltalake

    await fill(js, queue, 5)
    await store(js, f"{queue}.a", [b"no"])
    result = await js.to_delta(queue, tmp_path, durable="archive", schema=SCHEMA).run()
    assert (result.rows, result.corrupt) == (4, 1)
    assert await count(js, queue) == 0
    assert deltalake.DeltaTable(tmp_path).to_pyarrow_table()["id"].to_pylist() == [1, 2, 3, 4]


async def test_committed_but_not_acknowledged(js: JetStreamContext, queue: str, tmp_path: Path) -> None:
    """They are delivered again, known by their sequences, and acknowledged."""
    await js.add_consumer(queue, durable_name="archive", ack_policy="explicit", ack_wait=0.5)
    await fill(js, queue, 11)
    sink = js.to_parquet(queue, tmp_path, durable="archive")
    await sink.step()
    assert await count(js, queue) == 0
    # As if the acknowledgements of a writer that was killed had not come.
    await fill(js, queue, 21, start=11)
    held = await (await js.pull_subscribe_bind("archive", queue)).fetch_batch(10)
    commit = sink._target.begin()
    batch = held.to_pyarrow()
    commit.add(batch, None, batch.column("seq"))
    commit.finish(State(queue, records(tmp_path)[0]["created"], 20))
    await sink.close()
    assert (await js.to_parquet(queue, tmp_path, durable="archive").run()).rows == 0
    assert await count(js, queue) == 0
    assert seqs(tmp_path) == list(range(1, 21))


async def test_delivered_to_a_writer_that_was_killed(js: JetStreamContext, queue: str, tmp_path: Path) -> None:
    """They come after later ones, and are not taken for old ones."""
    await js.add_consumer(queue, durable_name="archive", ack_policy="explicit", ack_wait=5)
    await fill(js, queue, 6)
    lost = await (await js.pull_subscribe_bind("archive", queue)).fetch_batch(5)
    assert len(lost) == 5
    await fill(js, queue, 11, start=6)
    async with js.to_parquet(queue, tmp_path, durable="archive", rows=5, seconds=30) as sink:
        assert await sink.step() == (5, 1, 6, 10, 0)
        assert records(tmp_path)[0]["gaps"] == [[1, 5]]
    # Another writer goes on from there.
    async with js.to_parquet(queue, tmp_path, durable="archive", rows=5, seconds=30) as sink:
        assert await sink.step() == (5, 1, 1, 5, 0)
    assert [(record["last_seq"], record["gaps"]) for record in records(tmp_path)] == [(10, [[1, 5]]), (10, [])]
    assert seqs(tmp_path) == list(range(1, 11))
    assert await count(js, queue) == 0


async def test_a_commit_that_fails_gives_back(
    js: JetStreamContext, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(js, queue, 6)
    sink = js.to_parquet(queue, tmp_path, durable="archive", rows=3, seconds=30)
    target: Any = sink._target
    create = target.folder.create

    def full(path: str, content: bytes) -> bool:
        if path.endswith("1.json"):
            raise SinkError("the disk is full")
        return create(path, content)

    with monkeypatch.context() as broken:
        broken.setattr(target.folder, "create", full)
        with pytest.raises(SinkError, match="the disk is full"):
            await sink.step()
    assert data(tmp_path) == set()
    assert await sink.run() == (5, 2, 1, 5, 0)
    assert seqs(tmp_path) == [1, 2, 3, 4, 5]
    assert await count(js, queue) == 0


async def test_an_interest_stream_that_is_followed(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await js.delete_stream(stream)
    await js.add_stream(name=stream, subjects=[f"{stream}.>"], retention="interest")
    await js.add_consumer(stream, durable_name="archive", ack_policy="explicit", filter_subject=f"{stream}.a")
    sink = js.to_parquet(stream, tmp_path, durable="archive", follow=True, seconds=600)
    running = asyncio.ensure_future(sink.run())
    await fill(js, stream, 11)
    await until(lambda: sink._source is not None and len(getattr(sink._source, "_times", ())) == 10)
    assert data(tmp_path) == {name for name in data(tmp_path) if name.startswith("_jetarrow/staging")}
    await sink.close()
    assert (await running).rows == 10
    assert await count(js, stream) == 0


async def test_what_a_consumer_must_be(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await js.add_consumer(stream, durable_name="none", ack_policy="none")
    with pytest.raises(SinkError, match=r"consumer 'none'.*ack_policy explicit"):
        await js.to_parquet(stream, tmp_path, durable="none").run()
    # A limits stream may be read so too; the consumer is made as the sink begins.
    await fill(js, stream, 6)
    await js.to_parquet(stream, tmp_path, durable="made", start_seq=3, subjects=f"{stream}.a").run()
    assert seqs(tmp_path) == [3, 4, 5]
    config = (await js.consumer_info(stream, "made")).config
    assert (config.filter_subjects or [config.filter_subject]) == [f"{stream}.a"]


async def test_a_small_window(js: JetStreamContext, queue: str, tmp_path: Path) -> None:
    """The consumer gives no more before it gets its acknowledgements: a commit is made early."""
    await js.add_consumer(queue, durable_name="archive", ack_policy="explicit", max_ack_pending=4)
    await fill(js, queue, 11)
    assert await js.to_parquet(queue, tmp_path, durable="archive", seconds=600).run() == (10, 3, 1, 10, 0)


async def test_an_unanswered_request_for_the_consumer_does_not_end_a_sink_that_follows(
    nats_url: str, js: JetStreamContext, queue: str, tmp_path: Path
) -> None:
    """For example because the server is killed at that moment: the request is repeated."""
    async with slow_link(nats_url, 0.05) as link, await jetarrow.connect(link.url) as nc:
        sink = nc.jetstream(timeout=1).to_parquet(queue, tmp_path, durable="archive", follow=True, seconds=0.5)
        running = asyncio.ensure_future(sink.run())

        async def is_stored() -> bool:
            assert not running.done(), running.result()
            return await count(js, queue) == 0

        await fill(js, queue, 6)
        await until(is_stored)
        link.swallowed = b"CONSUMER.INFO"
        asked = link.asked("CONSUMER.INFO")
        await fill(js, queue, 11, start=6)
        await until(lambda: link.asked("CONSUMER.INFO") > asked + 2)
        link.swallowed = None
        await until(is_stored)
        await sink.close()
        assert (await running).rows == 10
    assert seqs(tmp_path) == list(range(1, 11))


async def test_a_server_that_does_not_answer_does_not_end_a_sink_that_follows(
    own_server: NatsServer, tmp_path: Path
) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="Q", subjects=["Q.>"], retention="workqueue")
        sink = nc.jetstream(timeout=0.5).to_parquet("Q", tmp_path, durable="archive", follow=True, rows=5)
        await fill(js, "Q", 6)
        running = asyncio.ensure_future(sink.run())

        async def is_stored() -> bool:
            assert not running.done(), running.result()
            return await count(js, "Q") == 0

        await until(is_stored)
        own_server.pause()
        await asyncio.wait([running], timeout=2)
        own_server.resume()
        await fill(js, "Q", 11, start=6)
        await until(is_stored)
        await sink.close()
        assert (await running).rows == 10
    assert seqs(tmp_path) == list(range(1, 11))


def test_without_a_loop(sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path) -> None:
    sync_js.publish_batch(f"{stream}.a", [b"x"] * 10).raise_for_errors()
    assert sync_js.to_parquet(stream, tmp_path, durable="archive", rows=6).run().rows == 10
    assert seqs(tmp_path) == list(range(1, 11))


def test_gaps() -> None:
    assert without([(1, 5), (8, 9)], [2, 5, 8, 9]) == [(1, 1), (3, 4)]
    state = State("S", "then", 10)
    # Eleven to fifteen went to another writer.
    state = state.after([16, 17], delivered=17, settled=10, clean=False)
    assert (state.last_seq, state.gaps) == (17, ((11, 15),))
    assert [seq for seq in range(9, 20) if state.is_new(seq)] == [11, 12, 13, 14, 15, 18, 19]
    state = state.after([12, 18], delivered=18, settled=10, clean=False)
    assert (state.last_seq, state.gaps) == (18, ((11, 11), (13, 15)))
    assert state.after([13], delivered=18, settled=13, clean=False).gaps == ((14, 15),)
    assert state.after([13], delivered=18, settled=13, clean=True).gaps == ()
    assert State.of(state.as_dict()) == state
