"""`publish_table(resume=)` on a server: interruptions, refusals, places of the position."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jetarrow
import jetarrow.publish
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.errors import Error
from jetarrow.jetstream.publish_result import PartialPublish
from jetarrow.jetstream.resume import load as load_module
from jetarrow.jetstream.resume.position import Position
from jetarrow.jetstream.resume.stores import BUCKET
from jetarrow.js.api import SubjectTransform
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import ResumeError
from jetarrow.server import NatsServer

from tests.conftest import EAGER
from tests.crash_points import Point, at_each_request
from tests.tools import wait_until

ROWS = 30
TABLE = pa.table({"id": range(ROWS), "region": ["eu", "us"] * (ROWS // 2)})


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "STEP", 8)
    monkeypatch.setattr(load_module, "RECOVERY_STEP", 3)


def ids(js: jetarrow.sync.JetStream, stream: str) -> list[int]:
    return js.read(stream, schema="id BIGINT", flatten=True).read_all().column("id").to_pylist()


async def read_ids(js: JetStreamContext, stream: str) -> list[int]:
    found: list[int] = (await js.read(stream, schema="id BIGINT", flatten=True).read_all()).column("id").to_pylist()
    return found


@pytest.mark.parametrize("transform", [None, SubjectTransform(src="s.>", dest="t.>")], ids=["plain", "transform"])
@pytest.mark.usefixtures("small_steps")
async def test_load_that_fails_at_any_request_stores_each_row_once(
    own: JetStreamContext, own_server: NatsServer, transform: SubjectTransform | None
) -> None:
    number = 0

    async def prepare() -> None:
        nonlocal number
        number += 1
        await own.add_stream(name="S", subjects=["s.>"], duplicate_window=0.1, subject_transform=transform)

    async def load(js: JetStreamContext) -> None:
        result = await js.publish_table(TABLE, "s.{region}", resume=f"load{number}")
        result.raise_for_errors()

    async def check(point: Point, error: BaseException | None) -> None:
        # The window is over: no id of the first run is remembered.
        for _ in range(2):
            while (await own.publish("s.probe", b'{"id": -1}', msg_id="probe")).duplicate:
                await asyncio.sleep(0.02)
        await load(own)
        found = [row for row in await read_ids(own, "S") if row >= 0]
        assert sorted(found) == list(range(ROWS)), f"{point}: {error}"
        await own.delete_stream("S")

    async with await jetarrow.connect(own_server.url) as nc:
        own, quick = nc.jetstream(), nc.jetstream(timeout=2)
        assert await at_each_request(nc, lambda: load(quick), prepare=prepare, check=check) > 15


async def test_resume_skips_rows_of_earlier_runs(js: JetStreamContext, stream: str) -> None:
    first = await js.publish_table(TABLE, f"{stream}.{{region}}", resume=stream)
    assert (first.count, first.stored, first.skipped, first.stream) == (ROWS, ROWS, 0, stream)
    again = await js.publish_table(TABLE, f"{stream}.{{region}}", resume=stream)
    assert (again.count, again.stored, again.skipped, again.ok) == (0, 0, ROWS, True)
    # More rows at the end of the table are published.
    more = pa.concat_tables([TABLE, pa.table({"id": [ROWS], "region": ["eu"]})])
    result = await js.publish_table(more, f"{stream}.{{region}}", resume=stream)
    assert (result.stored, result.skipped) == (1, ROWS)
    rows = pa.record_batch(result).to_pylist()
    assert rows == [{"row": ROWS, "seq": ROWS + 1, "status": "stored", "error": None}]
    assert pa.array(result.seqs).to_pylist() == [ROWS + 1]
    assert await read_ids(js, stream) == list(range(ROWS + 1))


@pytest.mark.parametrize("options", [{"msg_id": "id"}, {"msg_id": "content"}, {"format": "arrow", "msg_id": "content"}])
@pytest.mark.usefixtures("small_steps")
def test_resume_supports_ids_and_formats(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path, options: dict[str, str]
) -> None:
    place = tmp_path / "position"
    result = sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=place, **options)  # type: ignore[arg-type]
    result.raise_for_errors()
    table = sync_js.read(stream, format=options.get("format", "json"), schema="id BIGINT", flatten=True).read_all()  # type: ignore[arg-type]
    assert sorted(table.column("id").to_pylist()) == list(range(ROWS))
    again = sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=place, **options)  # type: ignore[arg-type]
    assert (again.count, again.skipped) == (0, result.count)


@pytest.mark.usefixtures("small_steps")
def test_rejected_rows_do_not_stop_the_load(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    table = pa.table({"id": range(20), "region": ["eu"] * 9 + [None] + ["us"] * 10})
    result = sync_js.publish_table(table, f"{stream}.{{region}}", resume=stream)
    assert (result.stored, [error.row for error in result.errors]) == (19, [9])
    assert 'column "region"' in str(result.errors[0].error)
    assert sync_js.publish_table(table, f"{stream}.{{region}}", resume=stream).skipped == 20


@pytest.mark.usefixtures("small_steps")
def test_a_row_that_the_stream_refuses_stops_the_load_until_it_can_be_stored(
    sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    sync_js.update_stream(stream, max_msgs=12, discard="new")
    result = sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=stream)
    assert result.stored == 12
    assert {error.row for error in result.errors} == {12, 13, 14, 15}
    sync_js.update_stream(stream, max_msgs=-1)
    result = sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=stream)
    assert (result.stored, result.skipped, result.ok) == (ROWS - 12, 12, True)
    assert ids(sync_js, stream) == list(range(ROWS))


def refused(js: jetarrow.sync.JetStream, stream: str, table: pa.Table = TABLE, **options: object) -> str:
    with pytest.raises(ResumeError) as caught:
        js.publish_table(table, f"{stream}.{{region}}", resume=stream, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_other_rows_or_options_are_refused(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=stream)
    assert "not those of the first run" in refused(sync_js, stream, TABLE.slice(1))
    assert "not those of the first run" in refused(sync_js, stream, columns=["id"])
    assert "'column id'" in refused(sync_js, stream, msg_id="id")
    long = pa.table({"id": range(2000), "region": ["eu"] * 2000})
    sync_js.publish_table(long, f"{stream}.{{region}}", resume=f"{stream}-long")
    with pytest.raises(ResumeError, match="the table has only 1,500"):
        sync_js.publish_table(long.slice(0, 1500), f"{stream}.{{region}}", resume=f"{stream}-long")
    assert sync_js.stream_info(stream).state.messages == ROWS + 2000


def test_rows_without_ids_are_refused(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    table = pa.table({"id": [1, None, 3], "region": ["eu"] * 3})
    assert "row 1" in refused(sync_js, stream, table, msg_id="id")
    with pytest.raises(ValueError, match="mode 'window'"):
        sync_js.publish_table(TABLE, f"{stream}.a", resume="x", mode="atomic")
    with pytest.raises(TypeError, match="a name or a path"):
        sync_js.publish_table(TABLE, f"{stream}.a", resume=3)  # type: ignore[arg-type]


def test_a_recreated_stream_is_refused(own_sync: jetarrow.sync.JetStream) -> None:
    own_sync.add_stream(name="S", subjects=["S.>"])
    own_sync.publish_table(TABLE, "S.{region}", resume="S")
    own_sync.delete_stream("S")
    own_sync.add_stream(name="S", subjects=["S.>"])
    assert "created again" in refused(own_sync, "S")


def test_subjects_of_several_streams_are_refused(own_sync: jetarrow.sync.JetStream) -> None:
    own_sync.add_stream(name="A", subjects=["s.eu"])
    own_sync.add_stream(name="B", subjects=["s.us"])
    assert "A, B; give expected_stream" in refused(own_sync, "s")


def interrupted_step(js: jetarrow.sync.JetStream, stream: str, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Makes a first run that stores some rows of its first step and ends before it stores the position."""
    with monkeypatch.context() as patch:

        async def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(load_module.Load, "_publish", killed)
        with pytest.raises(KeyboardInterrupt):
            js.publish_table(TABLE, f"{stream}.{{region}}", resume=stream)
    token = js.key_value(BUCKET).get(stream).value
    assert token is not None
    prefix = token.split(b'"token":"')[1][:16].decode()
    for row in range(rows):
        region = ["eu", "us"][row % 2]
        js.publish(f"{stream}.{region}", f'{{"id":{row},"region":"{region}"}}', msg_id=f"{prefix}.{row}")


@pytest.mark.usefixtures("small_steps")
def test_a_removed_message_of_an_interrupted_step_is_refused(
    sync_js: jetarrow.sync.JetStream, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_step(sync_js, stream, monkeypatch, 3)
    sync_js.delete_msg(stream, 2)
    assert "1 messages after sequence 0" in refused(sync_js, stream)
    assert sync_js.stream_info(stream).state.messages == 2


@pytest.mark.usefixtures("small_steps")
def test_rows_that_replaced_each_other_are_not_sent_again(
    sync_js: jetarrow.sync.JetStream, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that keeps the last message of each subject removes messages of the load itself."""
    sync_js.update_stream(stream, max_msgs_per_subject=1)
    interrupted_step(sync_js, stream, monkeypatch, 5)
    last = sync_js.stream_info(stream).state.last_seq
    assert last == 5
    sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=stream).raise_for_errors()
    assert sync_js.stream_info(stream).state.last_seq == ROWS
    assert ids(sync_js, stream) == [ROWS - 2, ROWS - 1]


def test_a_file_has_one_run_at_a_time(sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path) -> None:
    place = tmp_path / "position"

    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0].slice(0, 10)
        with pytest.raises(ResumeError, match="another run uses file"):
            sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=place)
        yield TABLE.to_batches()[0].slice(10)

    small = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jetarrow.jetstream.resume.rows.HEAD", 10)
        sync_js.publish_table(small, f"{stream}.{{region}}", resume=place).raise_for_errors()
    assert ids(sync_js, stream) == list(range(ROWS))


@pytest.mark.usefixtures("small_steps")
def test_the_later_of_two_runs_with_one_name_continues(
    sync_js: jetarrow.sync.JetStream, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jetarrow.jetstream.resume.rows.HEAD", 10)
    results: list[jetarrow.publish.PublishResult] = []

    def publish(table: pa.Table | pa.RecordBatchReader) -> jetarrow.publish.PublishResult:
        return sync_js.publish_table(table, f"{stream}.{{region}}", resume=stream)

    def announced() -> int:
        return Position.parse(sync_js.key_value(BUCKET).get(stream).value or b"", "").row

    def batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0].slice(0, 10)
        # The outer run has stored its first step and announced the second one, whose rows it waits for.
        wait_until(lambda: announced() == load_module.STEP, 30)
        results.append(publish(TABLE))
        yield TABLE.to_batches()[0].slice(10)

    with pytest.raises(ResumeError, match="another run has written key"):
        publish(pa.RecordBatchReader.from_batches(TABLE.schema, batches()))
    # The outer run may fail at the first key of the inner one, which continues in the thread that reads the table.
    wait_until(lambda: results)
    assert results[0].ok
    assert sorted(ids(sync_js, stream)) == list(range(ROWS))


def test_an_incomplete_line_of_a_file_is_ignored(sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path) -> None:
    place = tmp_path / "position"
    sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=place)
    lines = place.read_bytes().splitlines(keepends=True)
    for data in (lines[0], b"".join(lines) + lines[0][:40], lines[0] + b"\n"[:0] + lines[1][:5]):
        place.write_bytes(data)
        result = sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=place)
        assert (result.count, result.skipped) == (0, ROWS)
    for other in (b"notes of mine\n", b"a,b\nlast line"):
        place.write_bytes(other)
        with pytest.raises(ResumeError, match="is not a position"):
            sync_js.publish_table(TABLE, f"{stream}.{{region}}", resume=place)
        assert place.read_bytes() == other


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("resume", [None, "interrupted"])
def test_keyboard_interrupt_has_the_partial_result(own_sync: jetarrow.sync.JetStream, resume: str | None) -> None:
    own_sync.add_stream(name="S", subjects=["s.>"])
    done = threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 100_000_000, 10_000):
            if done.is_set():
                return
            yield pa.record_batch({"id": range(start, start + 10_000)})

    def interrupt() -> None:
        wait_until(lambda: own_sync.stream_info("S").state.messages > 150_000, 60)
        os.kill(os.getpid(), signal.SIGINT)

    table = pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), batches())
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        own_sync.publish_table(table, "s.a", resume=resume)
    done.set()
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert isinstance(partial, PartialPublish)
    assert 0 < partial.rows <= own_sync.stream_info("S").state.messages
    assert partial.position is None if resume is None else 65_536 <= partial.position <= partial.rows


async def test_a_cancelled_publish_has_the_partial_result(own: JetStreamContext) -> None:
    await own.add_stream(name="S", subjects=["s.>"])
    seen: list[int] = []
    payloads = ["x"] * 1_000_000
    task = asyncio.ensure_future(own.publish_batch("s.a", payloads, progress=lambda done, _total: seen.append(done)))
    while not seen or not seen[-1]:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    partial = caught.value.partial  # type: ignore[attr-defined]
    assert partial.rows >= seen[-1]
    assert partial.total == len(payloads)


@pytest.mark.usefixtures("small_steps")
def test_progress_counts_the_rows_of_all_steps(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    seen: list[tuple[int, int | None]] = []
    options = {"resume": stream, "progress": lambda done, total: seen.append((done, total))}
    sync_js.publish_table(TABLE, f"{stream}.{{region}}", **options)  # type: ignore[arg-type]
    assert seen[-1] == (ROWS, ROWS)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    seen.clear()
    options["resume"] = f"{stream}-stream"
    rows = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    sync_js.publish_table(rows, f"{stream}.{{region}}", **options)  # type: ignore[arg-type]
    assert seen[-1] == (ROWS, None)


def test_a_server_that_restarts_loses_and_doubles_no_row(own_server: NatsServer) -> None:
    """With a window that is shorter than the restart, the run stops, and the next one continues."""
    rows = 250_000
    table = pa.table({"id": range(rows)})
    frozen = threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table.to_batches(max_chunksize=rows // 10):
            yield batch
            # The last ones are sent to a server that does not answer.
            assert batch["id"][0].as_py() < rows // 2 or frozen.wait(60)

    with jetarrow.sync.connect(own_server.url, **EAGER) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s.>"], duplicate_window=0.1)

        def is_waiting() -> bool:
            """Whether the third step is announced, so that all rows of the others have their answers."""
            stored = js.stream_info("S").state.messages
            return stored == 2 * load_module.STEP and js.stream_info(f"KV_{BUCKET}").state.last_seq == 3

        def restart() -> None:
            wait_until(is_waiting, 60)
            own_server.pause()
            frozen.set()
            wait_until(lambda: nc.metrics()["in_flight"] > 0, 60)
            own_server.kill()
            # The outage is longer than the window.
            time.sleep(0.5)
            own_server.restart()

        restarting = threading.Thread(target=restart)
        restarting.start()
        runs = 0
        while True:
            runs += 1
            reader = pa.RecordBatchReader.from_batches(table.schema, batches())
            with contextlib.suppress(Error):
                if js.publish_table(reader, "s.a", resume="S").ok:
                    break
        restarting.join()
        assert runs > 1
        assert sorted(ids(js, "S")) == list(range(rows))
