"""Tasks that are retried after the stream's duplicate window has passed: each row is stored once, or the task fails."""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.spark.options.write import write_options
from jetarrow.spark.sink import rows as write_rows
from jetarrow.spark.sink import stored_ids
from jetarrow.spark.sink.group_writer import GroupWriter
from jetarrow.spark.sink.partition_writer import PartitionWriter
from jetarrow.spark.sink.positions import Position, positions_of
from jetarrow.spark.sink.target import prepare
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from .tools import wait_until

if TYPE_CHECKING:
    from .tools import Stored, Streams

    Read = Callable[..., list[Stored]]

# The server's minimum is 100 ms. The unit of the API is nanoseconds.
WINDOW = 0.3
CONFIG = {"duplicate_window": int(WINDOW * 1e9), "allow_batched": True, "allow_atomic": True}
ROWS = [b"%d" % (number % 900) for number in range(1_000)]


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """For windows this short a task waits a second for an answer, which may take longer on a busy machine."""
    monkeypatch.setattr("jetarrow.spark.sink.task_writer._MIN_TIMEOUT", 20.0)


class Crash(RuntimeError):
    pass


class Task:
    """A task whose first attempt fails after some rows, and whose retry begins after the window."""

    def __init__(self, streams: Streams, *names: str, **given: str) -> None:
        self.streams, self.names = streams, names or (streams.new(**CONFIG),)
        self.name = self.names[0]
        where = {"stream": ",".join(self.names)} | ({} if len(self.names) > 1 else {"subject": f"{self.name}.a"})
        self.options = write_options({"servers": streams.url, "recoveryWindow": "100ms", **where, **given})
        with jetarrow.sync.connect(streams.url) as client:
            self.planned = positions_of(client.jetstream(), self.names)

    def write(self, batches: Iterator[pa.RecordBatch], planned: Mapping[str, Position] | None = None) -> int:
        made = PartitionWriter if self.options.atomic_by is None else GroupWriter
        routes = [(f"{name}.>", name) for name in self.names] if len(self.names) > 1 else []
        task = made(self.options, window=WINDOW, scope="q:0:0", partition=0, routes=routes, planned=planned)
        task.write(batches)
        return task.duplicates

    def retry(self, rows: list[pa.RecordBatch], *, crash: int, planned: Mapping[str, Position] | None = None) -> int:
        """Write batches until a crash, and all of them in another order later; returns the number of duplicates."""

        def until_crash() -> Iterator[pa.RecordBatch]:
            yield from rows[:crash]
            raise Crash

        with pytest.raises(Crash):
            self.write(until_crash())
        self.pass_window()
        return self.write(iter(rows[::-1]), self.planned if planned is None else planned)

    def pass_window(self) -> None:
        """Wait until the streams do not recognise an id that is stored now."""
        with jetarrow.sync.connect(self.streams.url) as client:
            js = client.jetstream()
            first = {name: js.publish(f"{name}.probe", b"", msg_id="probe").seq for name in self.names}
            for name, seq in first.items():
                wait_until(functools.partial(is_forgotten, js, name, seq))


def is_forgotten(js: jetarrow.sync.JetStream, name: str, seq: int) -> bool:
    """Whether the stream stores the probe again, which it had as `seq`."""
    return bool(js.publish(f"{name}.probe", b"", msg_id="probe").seq > seq)


def batches(rows: list[bytes], **columns: list[Any]) -> list[pa.RecordBatch]:
    table = pa.table({"data": rows, **columns})
    return [table.slice(start, 100).combine_chunks().to_batches()[0] for start in range(0, len(rows), 100)]


def data(found: list[dict[str, Any]]) -> Counter[bytes]:
    return Counter(row["data"] for row in found if not row["subject"].endswith(".probe"))


def read(streams: Streams, name: str) -> list[dict[str, Any]]:
    with jetarrow.sync.connect(streams.url) as client:
        found: list[dict[str, Any]] = client.jetstream().read(name).read_all().to_pylist()
    return found


@pytest.fixture(autouse=True)
def small_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 100)


@pytest.mark.parametrize("mode", ["async", "fast", "atomic"])
@pytest.mark.parametrize("ids", ["content", "own", "some"])
def test_retry_after_the_window_stores_each_row_once(streams: Streams, mode: str, ids: str) -> None:
    task = Task(streams, publishMode=mode)
    own = {
        "content": {},
        "own": {"msg_id": [f"id {number}" for number in range(1_000)]},
        "some": {"msg_id": [f"id {number}" if number % 2 else None for number in range(1_000)]},
    }[ids]
    rows = batches(ROWS, **own)
    assert task.retry(rows, crash=7) == 700
    assert data(read(streams, task.name)) == Counter(ROWS)


def test_rows_without_ids_are_written_at_least_once(streams: Streams) -> None:
    task = Task(streams, dedup="none")
    assert task.retry(batches(ROWS), crash=3) == 0
    assert data(read(streams, task.name)).total() == 1_300


def test_retry_after_the_window_finds_rows_in_several_streams(streams: Streams) -> None:
    names = [streams.new(**CONFIG) for _ in range(3)]
    task = Task(streams, *names)
    subjects = [f"{names[number % 2]}.a" for number in range(1_000)]
    assert task.retry(batches(ROWS, subject=subjects), crash=5) == 500
    found = [data(read(streams, name)) for name in names]
    assert found == [Counter(ROWS[0::2]), Counter(ROWS[1::2]), Counter()]


@pytest.mark.parametrize("own", [False, True])
def test_retry_after_the_window_stores_each_group_once(streams: Streams, own: bool) -> None:
    task = Task(streams, atomicBy="order")
    columns = {"order": [number // 20 for number in range(1_000)]}
    if own:
        columns["msg_id"] = [f"id {number}" for number in range(1_000)]  # type: ignore[misc]
    # The last group before the crash was not complete.
    assert task.retry(batches(ROWS, **columns), crash=5) == 480
    assert data(read(streams, task.name)) == Counter(ROWS)


@pytest.mark.parametrize("cause", ["removed", "created", "many"])
def test_retry_fails_if_the_stored_rows_are_unknown(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    task = Task(streams)
    rows = batches(ROWS)
    said = {"removed": "2 of its messages from", "created": "it was created after", "many": "more than 50 messages"}

    def break_it() -> None:
        if cause == "removed":
            streams.delete_messages(task.name, [3, 4])
        elif cause == "created":
            streams.delete(task.name)
            streams.create(task.name, **CONFIG)
        else:
            monkeypatch.setattr(stored_ids, "_MAX_IDS", 50)

    with pytest.raises(Crash):
        task.write(itertools.chain(rows[:3], failing()))
    task.pass_window()
    break_it()
    before = streams.messages(task.name)
    with pytest.raises(
        ValueError, match=f"of a retried task: .* {said[cause]}.*; increase the stream's duplicate_wind"
    ):
        task.write(iter(rows), task.planned)
    assert streams.messages(task.name) == before


def failing() -> Iterator[pa.RecordBatch]:
    raise Crash
    yield


def test_ids_of_equal_rows_do_not_depend_on_time(streams: Streams) -> None:
    """A retry has the same ids, though it is faster than the first attempt, which took longer than the window."""
    task = Task(streams)
    rows = batches([b"x"] * 300)

    def slowly() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield batch
            task.pass_window()

    assert task.write(slowly()) == 0
    assert task.write(iter(rows), task.planned) == 300
    assert data(read(streams, task.name)) == {b"x": 300}


def test_positions_of_a_running_query_are_renewed(streams: Streams) -> None:
    name = streams.new(**CONFIG)
    options = write_options({"servers": streams.url, "stream": name, "subject": f"{name}.a", "recoveryWindow": "100ms"})
    schema = StructType([StructField("data", StringType())])

    def planned() -> int:
        return prepare(schema, options, overwrite=False, streaming=True).planned[name].seq

    assert planned() == 0
    streams.publish(name, [b"x"] * 3)
    wait_until(lambda: planned() == 3)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_job_that_retries_a_task_after_the_window_stores_each_row_once(
    spark: SparkSession, streams: Streams, write: Callable[..., None], stored: Read, tmp_path: Path
) -> None:
    """A stage before the write fails at the end of its rows, when the stream has forgotten the first of them."""
    name = streams.new(duplicate_window=int(6e9))
    url, file = streams.url, str(tmp_path / "attempts")

    def fail_once(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        with open(file, "a") as attempts:
            attempts.write(f"{context.attemptNumber()}\n")
        yield from parts
        if context.attemptNumber():
            return
        with jetarrow.sync.connect(url) as client:
            js = client.jetstream()
            until = time.monotonic() + 60
            # Rows in Spark's buffers are not stored yet.
            while js.stream_info(name).state.messages < 2_000 and time.monotonic() < until:
                time.sleep(0.05)
            first = js.publish(f"{name}.probe", b"", msg_id="probe").seq
            while js.publish(f"{name}.probe", b"", msg_id="probe").seq == first and time.monotonic() < until:
                time.sleep(0.05)
        raise RuntimeError("the executor is lost")

    frame = spark.range(0, 6_000, 1, 1).selectExpr("lpad(id, 300, '0') as data")
    rows_of_batch = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(rows_of_batch)
    spark.conf.set(rows_of_batch, "200")
    try:
        write(frame.mapInArrow(fail_once, frame.schema), name, subject=f"{name}.a", recoveryWindow="6s")
    finally:
        spark.conf.set(rows_of_batch, before)
    with open(file) as attempts:
        assert attempts.read().split() == ["0", "1"]
    found = Counter(row["data"] for row in read(streams, name) if not row["subject"].endswith(".probe"))
    assert found == {b"%0300d" % number: 1 for number in range(6_000)}
