"""`sink.lag()`: the messages that a table does not have, counted by the server."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.sinks.folder import Folder
from jetarrow.js.errors import StreamRecreatedError

from ..tools import fill_sync, no_consumer_stays


async def test_lag_counts_the_messages_that_are_not_committed(
    js: JetStreamContext, stream: str, tmp_path: Path
) -> None:
    await js.publish_batch(f"{stream}.a", [b"x"] * 30)
    await js.publish_batch(f"{stream}.b", [b"x"] * 5)
    every = js.to_parquet(stream, tmp_path / "all", rows=10)
    some = js.to_parquet(stream, tmp_path / "some", subjects=f"{stream}.b")
    late = js.to_parquet(stream, tmp_path / "late", start_seq=31)
    assert [await sink.lag() for sink in (every, some, late)] == [35, 5, 5]
    assert os.listdir(tmp_path) == [], "it creates no folder"
    await every.step()
    # Another sink reads the position while this one has locked the folder.
    other = js.to_parquet(stream, tmp_path / "all")
    assert (await every.lag(), await other.lag()) == (25, 25)
    # Deleted messages are not missing.
    await js.delete_msg(stream, 20)
    assert await every.lag() == 24
    for sink in (every, some, late):
        await sink.run()
        assert await sink.lag() == 0
    await js.publish(f"{stream}.a", b"x")
    assert [await sink.lag() for sink in (every, some, late)] == [1, 0, 1]
    await no_consumer_stays(js, stream)


def test_lag_while_another_sink_joins_the_records(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_sync(sync_js, stream, 30)
    assert sync_js.to_parquet(stream, tmp_path, rows=10).run().rows == 30
    writer = sync_js.to_parquet(stream, tmp_path, rows=100)
    read = Folder.read
    joined: list[int] = []

    def read_late(self: Folder, path: str) -> bytes:
        if not joined:
            joined.append(0)
            joined[0] = writer.compact()
        return read(self, path)

    monkeypatch.setattr(Folder, "read", read_late)
    assert sync_js.to_parquet(stream, tmp_path).lag() == 0
    assert joined == [2]
    writer.close()


@pytest.mark.parametrize("kind", ["parquet", "delta"])
async def test_lag_of_a_durable_sink_is_that_of_its_consumer(
    kind: str, js: JetStreamContext, stream: str, tmp_path: Path
) -> None:
    if kind == "delta":
        pytest.importorskip("deltalake")
    await js.publish_batch(f"{stream}.a", [b"x"] * 30)
    make = js.to_parquet if kind == "parquet" else js.to_delta
    sink = make(stream, tmp_path / "table", durable="archive", rows=10)
    assert await sink.lag() == 30
    await sink.step()
    assert await sink.lag() == 20
    await sink.close()
    # The consumer names its owner.
    info = await js.consumer_info(stream, "archive")
    assert info.config.metadata is not None
    assert info.config.metadata["jetarrow.sink"] == str(tmp_path / "table")
    assert await make(stream, tmp_path / "table", durable="archive").lag() == 20


async def test_lag_of_a_stream_that_was_created_again_is_an_error(
    js: JetStreamContext, stream: str, tmp_path: Path
) -> None:
    await js.publish(f"{stream}.a", b"x")
    await js.to_parquet(stream, tmp_path / "table").run()
    config = (await js.stream_info(stream)).config
    await js.delete_stream(stream)
    await js.add_stream(config)
    with pytest.raises(StreamRecreatedError):
        await js.to_parquet(stream, tmp_path / "table").lag()


def test_an_interrupted_run_has_the_totals_of_its_commits(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path
) -> None:
    sync_js.publish_batch(f"{stream}.a", [b"x"] * 30)
    rows = []

    def interrupt(done: int, _total: int | None) -> None:
        rows.append(done)
        if done > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        sync_js.to_parquet(stream, tmp_path / "table", rows=10, progress=interrupt).run()
    partial = stopped.value.partial  # type: ignore[attr-defined]
    assert (partial.rows, partial.last_seq) == (20, 20)
    assert sync_js.to_parquet(stream, tmp_path / "table").lag() == 10
    assert rows[-1] > 20


async def test_a_cancelled_run_has_the_totals_of_its_commits(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await js.publish_batch(f"{stream}.a", [b"x"] * 20)
    committed = asyncio.Event()
    sink = js.to_parquet(
        stream, tmp_path / "table", rows=10, follow=True, progress=lambda done, _: done == 20 and committed.set()
    )
    running = asyncio.create_task(sink.run())
    await committed.wait()
    # The position of this sink: its table has the second commit before.
    while await sink.lag():
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError) as stopped:
        await running
    assert stopped.value.partial.rows == 20  # type: ignore[attr-defined]


async def test_a_record_names_filters_and_consumer(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await js.publish(f"{stream}.a", b"x")
    await js.to_parquet(stream, tmp_path / "table", subjects=f"{stream}.a", durable="archive").run()
    (record,) = (tmp_path / "table" / "_jetarrow").glob("[0-9]*.json")
    found = json.loads(record.read_text("utf-8"))
    assert (found["subjects"], found["durable"]) == ([f"{stream}.a"], "archive")
