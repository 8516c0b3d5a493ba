"""Archives after a rollback: the sink skips no row silently, and acknowledges none before it is written."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import jetarrow
import pyarrow.dataset as ds
import pytest
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import StreamRolledBackError
from jetarrow.jetstream.sinks.parquet import ParquetTable
from jetarrow.server import NatsServer

from ..sinks.iceberg_tools import NAME, sql_catalog
from ..tools import until
from .tools import COUNT, SINCE, STREAM, Copy, publish, with_other_client

KINDS = ["parquet", "delta", "iceberg"]


def sink_of(js: Any, kind: str, folder: Path, **options: Any) -> Any:
    if kind == "iceberg":
        return js.to_iceberg(STREAM, NAME, catalog=sql_catalog(folder), **options)
    return (js.to_parquet if kind == "parquet" else js.to_delta)(STREAM, folder, **options)


def rows(kind: str, folder: Path) -> list[tuple[int, str]]:
    """Returns sequence and word of each archived row, unordered."""
    if kind == "parquet":
        table = ds.dataset(folder, format="parquet", exclude_invalid_files=True).to_table()
    elif kind == "iceberg":
        table = sql_catalog(folder).load_table(NAME).scan().to_arrow()
    else:
        import deltalake

        table = deltalake.DeltaTable(folder).to_pyarrow_table()
    words = [data.decode() for data in table.column("data").to_pylist()]
    return sorted(zip(table.column("seq").to_pylist(), words, strict=True))


def records(folder: Path) -> list[dict[str, Any]]:
    """Returns the commit records of a folder of Parquet files, in order."""
    found = [json.loads(path.read_text()) for path in (folder / "_jetarrow").glob("[0-9]*.json")]
    return sorted(found, key=lambda record: record["number"])


@asynccontextmanager
async def restored(server: NatsServer, place: Path, since: str) -> AsyncIterator[None]:
    """Restores COUNT of 2 * COUNT messages after the body of the block."""
    copy = Copy(server, place / "copy")
    await with_other_client(server, lambda other: publish(other, COUNT))
    await asyncio.to_thread(copy.take)
    await with_other_client(server, lambda other: publish(other, COUNT))
    yield
    await asyncio.to_thread(copy.put_back)
    await with_other_client(server, SINCE[since])


@pytest.mark.parametrize("since", SINCE)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_sink_does_not_start_behind_a_rollback(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, kind: str, since: str
) -> None:
    folder = tmp_path / "archive"
    async with restored(own_server, tmp_path, since):
        assert (await sink_of(js, kind, folder, rows=30).run()).rows == 2 * COUNT
    with pytest.raises(StreamRolledBackError) as info:
        await sink_of(js, kind, folder).run()
    assert info.value.stream == STREAM
    if since in ("trimmed", "expired", "emptied"):
        # The messages that both histories share were removed.
        assert info.value.last_good is None
    else:
        # Marks of earlier commits show the sequence up to which the histories are equal.
        assert info.value.last_good is not None
        assert info.value.last_good[0] in (30, 60, 90)
    assert len(rows(kind, folder)) == 2 * COUNT


@pytest.mark.parametrize("since", ["behind", "past", "nothing"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_sink_continues_in_a_new_epoch(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, kind: str, since: str
) -> None:
    folder = tmp_path / "archive"
    async with restored(own_server, tmp_path, since):
        await sink_of(js, kind, folder, rows=30).run()
    with pytest.warns(UserWarning, match="was rolled back"):
        result = await sink_of(js, kind, folder, on_rollback="continue").run()
    new = {"behind": 10, "past": 2 * COUNT, "nothing": 0}[since]
    # The sink continues at the mark at 90 and writes each new row once.
    assert result.rows == 10 + new
    found = rows(kind, folder)
    assert [word for _, word in found if word.startswith("new")] == [f"new {number}" for number in range(new)]
    assert len(found) == 2 * COUNT + 10 + new
    # The next start issues no warning.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (await sink_of(js, kind, folder).run()).rows == 0
    # The next start removes no rows: commits of both epochs have the same last sequences.
    assert len(rows(kind, folder)) == 2 * COUNT + 10 + new
    if kind == "parquet":
        epochs = [record["epoch"] for record in records(folder)]
        assert epochs == sorted(epochs)
        assert epochs[0] == 0
        assert epochs[-1] == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_sink_archives_once_more(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "archive"
    async with restored(own_server, tmp_path, "behind"):
        await sink_of(js, kind, folder).run()
    with pytest.warns(UserWarning, match="was rolled back"):
        result = await sink_of(js, kind, folder, on_rollback="earliest").run()
    assert result.rows == COUNT + 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (await sink_of(js, kind, folder).run()).rows == 0


@pytest.mark.parametrize("on_rollback", ["fail", "continue"])
@pytest.mark.parametrize("since", ["behind", "past"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_sink_that_follows_notices_it(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, kind: str, since: str, on_rollback: Any
) -> None:
    folder = tmp_path / "archive"
    done = asyncio.Event()
    steps: list[int] = []
    sink = sink_of(js, kind, folder, follow=True, seconds=0.3, on_rollback=on_rollback)

    async def run() -> None:
        while not done.is_set():
            steps.append((await sink.step()).rows)

    async def wait_for(count: int) -> None:
        async with asyncio.timeout(60):
            while sum(steps) < count and not running.done():
                await asyncio.sleep(0.01)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with restored(own_server, tmp_path, since):
            running = asyncio.ensure_future(run())
            await wait_for(2 * COUNT)
        if on_rollback == "fail":
            with pytest.raises(StreamRolledBackError):
                await asyncio.wait_for(running, 60)
            await sink.close()
            assert len(rows(kind, folder)) == 2 * COUNT
            return
        new = {"behind": 10, "past": 2 * COUNT}[since]
        last = f"new {new - 1}"
        async with asyncio.timeout(60):
            while not any(word == last for _, word in rows(kind, folder)):
                assert not running.done(), running
                await asyncio.sleep(0.05)
        done.set()
        await running
        await sink.close()
    found = [word for _, word in rows(kind, folder) if word.startswith("new")]
    assert found == [f"new {number}" for number in range(new)]


@pytest.mark.parametrize("kind", KINDS)
async def test_rows_that_the_filter_leaves_out_are_part_of_the_position(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, kind: str
) -> None:
    """The stream is restored to a sequence between the last row and the position."""
    folder = tmp_path / "archive"
    copy = Copy(own_server, tmp_path / "copy")

    async def some(other: JetStreamContext) -> None:
        (await other.publish_batch([f"{STREAM}.a"] * 10 + [f"{STREAM}.b"] * 20, ["old"] * 30)).raise_for_errors()

    async def others(other: JetStreamContext) -> None:
        (await other.publish_batch(f"{STREAM}.b", ["old"] * 100)).raise_for_errors()

    async def wanted(other: JetStreamContext) -> None:
        (await other.publish_batch(f"{STREAM}.a", ["new"] * 200)).raise_for_errors()

    await with_other_client(own_server, some)
    await asyncio.to_thread(copy.take)
    await with_other_client(own_server, others)
    assert (await sink_of(js, kind, folder, subjects=f"{STREAM}.a").run()).rows == 10
    await asyncio.to_thread(copy.put_back)
    await with_other_client(own_server, wanted)
    with pytest.raises(StreamRolledBackError):
        await sink_of(js, kind, folder, subjects=f"{STREAM}.a").run()
    with pytest.warns(UserWarning, match="was rolled back"):
        await sink_of(js, kind, folder, subjects=f"{STREAM}.a", on_rollback="continue").run()
    assert sum(word == "new" for _, word in rows(kind, folder)) == 200


async def test_an_archive_of_an_earlier_version_goes_on(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path
) -> None:
    """Records of an earlier version have no times, so only a lower last sequence is detected."""
    folder = tmp_path / "archive"

    def as_before() -> None:
        for path in (folder / "_jetarrow").glob("[0-9]*.json"):
            record = {
                key: value for key, value in json.loads(path.read_text()).items() if key not in ("marks", "epoch")
            }
            path.write_text(json.dumps(record))

    async with restored(own_server, tmp_path, "behind"):
        async with js.to_parquet(STREAM, folder, rows=150) as sink:
            await sink.step()
        as_before()
        assert (await js.to_parquet(STREAM, folder).run()).rows == 50
        as_before()
    with pytest.raises(StreamRolledBackError, match="ends at 110"):
        await js.to_parquet(STREAM, folder).run()
    with pytest.warns(UserWarning, match="was rolled back"):
        result = await js.to_parquet(STREAM, folder, on_rollback="continue").run()
    assert result.rows == COUNT + 10


@pytest.fixture
async def queue(own_server: NatsServer) -> AsyncIterator[JetStreamContext]:
    """A work queue with one message."""
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        await js.add_stream(name=STREAM, subjects=[f"{STREAM}.>"], retention="workqueue")
        await publish(js, 1, "first")
        yield js


async def archive_until(sink: Any, kind: str, folder: Path, wanted: set[str]) -> None:
    """Runs steps until the wanted rows are written."""
    async with asyncio.timeout(90):
        while not wanted <= {word for _, word in rows(kind, folder)}:
            with suppress(jetarrow.errors.Error):
                await sink.step()


@pytest.mark.parametrize("since", ["behind", "past"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_work_queue_goes_back_while_rows_are_fetched(
    own_server: NatsServer, queue: JetStreamContext, tmp_path: Path, kind: str, since: str
) -> None:
    """The sink acknowledges no new message before it is written."""
    folder = tmp_path / "archive"
    options: dict[str, Any] = {"durable": "archive", "follow": True, "on_rollback": "continue"}
    async with sink_of(queue, kind, folder, rows=1, **options) as sink:
        # Creates the consumer, which the copy contains.
        assert (await sink.step()).rows == 1
    options["rows"] = 10 * COUNT
    new = {"behind": 10, "past": 2 * COUNT}[since]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with sink_of(queue, kind, folder, seconds=10, **options) as sink:
            async with restored(own_server, tmp_path, since):
                stepping = asyncio.ensure_future(sink.step())
                # The messages are fetched and not acknowledged.
                await until(lambda: _is_held(queue), 30)
            await asyncio.gather(stepping, return_exceptions=True)
            await archive_until(sink, kind, folder, {f"new {number}" for number in range(new)})
    found = [word for _, word in rows(kind, folder) if word.startswith("new")]
    assert sorted(found) == sorted(f"new {number}" for number in range(new))


async def _is_held(js: JetStreamContext) -> bool:
    return (await js.consumer_info(STREAM, "archive")).num_ack_pending == 2 * COUNT


@pytest.mark.parametrize("since", ["behind", "past"])
async def test_a_work_queue_goes_back_between_commit_and_acknowledgement(
    own_server: NatsServer, queue: JetStreamContext, tmp_path: Path, since: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "archive"
    options: dict[str, Any] = {"durable": "archive", "follow": True, "on_rollback": "continue"}
    async with sink_of(queue, "parquet", folder, rows=1, **options) as sink:
        assert (await sink.step()).rows == 1
    options["rows"] = 10 * COUNT
    copy = Copy(own_server, tmp_path / "copy")
    await with_other_client(own_server, lambda other: publish(other, COUNT))
    await asyncio.to_thread(copy.take)
    await with_other_client(own_server, lambda other: publish(other, COUNT))
    written = ParquetTable.write_record
    back: list[bool] = []

    def write_record(self: Any, *arguments: Any, **more: Any) -> Any:
        record = written(self, *arguments, **more)
        if not back:
            back.append(True)
            copy.put_back()
            asyncio.run(with_other_client(own_server, SINCE[since]))
        return record

    monkeypatch.setattr(ParquetTable, "write_record", write_record)
    new = {"behind": 10, "past": 2 * COUNT}[since]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with sink_of(queue, "parquet", folder, seconds=0.5, **options) as sink:
            await archive_until(sink, "parquet", folder, {f"new {number}" for number in range(new)})
    assert back
    found = [word for _, word in rows("parquet", folder) if word.startswith("new")]
    assert sorted(found) == sorted(f"new {number}" for number in range(new))


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
async def test_a_sink_with_keys_replaces_the_rows_of_the_lost_history(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, kind: str
) -> None:
    """Rows of the lost history have higher sequences than those that replace them."""
    folder = tmp_path / "table"
    options: dict[str, Any] = {"merge": "upsert", "key": ["data"], "on_rollback": "earliest"}
    async with restored(own_server, tmp_path, "past"):
        await sink_of(js, kind, folder, **options).run()
        # The words of the second half are those of the first.
        assert [seq for seq, _ in rows(kind, folder)] == list(range(COUNT + 1, 2 * COUNT + 1))
    with pytest.raises(StreamRolledBackError):
        await sink_of(js, kind, folder, merge="upsert", key=["data"]).run()
    sink = sink_of(js, kind, folder, rows=40, **options)
    with pytest.warns(UserWarning, match="was rolled back"):
        await sink.step()
    # The first commit removes all rows of the former history.
    assert [seq for seq, _ in rows(kind, folder)] == list(range(1, 41))
    await sink.run()
    messages = (await js.read(STREAM).read_all()).select(["seq", "data"]).to_pylist()
    last = {message["data"].decode(): message["seq"] for message in messages}
    assert rows(kind, folder) == sorted((seq, word) for word, seq in last.items())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (await sink_of(js, kind, folder, **options).run()).rows == 0


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
async def test_a_new_epoch_without_rows_with_evolve(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "archive"
    async with restored(own_server, tmp_path, "emptied"):
        await sink_of(js, kind, folder, rows=30).run()
    with pytest.warns(UserWarning, match="was rolled back"):
        assert (await sink_of(js, kind, folder, evolve="add", on_rollback="continue").run()).rows == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (await sink_of(js, kind, folder, evolve="add").run()).rows == 0
    assert len(rows(kind, folder)) == 2 * COUNT
