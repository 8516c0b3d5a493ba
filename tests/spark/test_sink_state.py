"""exactlyOnce=state: rows written again after any pause are stored once. Without Spark's JVM.

The duplicate window of the targets is so short that the server recognises nothing.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.core.errors import Error
from jetarrow.spark.options.write import WriteOptions, write_options
from jetarrow.spark.sink import rows as write_rows
from jetarrow.spark.sink import state
from jetarrow.spark.sink.batch_records import BatchName
from jetarrow.spark.sink.partition_writer import PartitionWriter
from jetarrow.spark.sink.target import prepare
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from .tools import wait_until

if TYPE_CHECKING:
    from .tools import Stored, Streams

    Read = Callable[..., list[Stored]]

WINDOW = 100_000_000  # nanoseconds; the least that a server takes
ROWS = [b"%d" % (i % 800) for i in range(1_000)]


class Crash(Exception):
    """The worker is gone."""


class Target:
    """A stream, and tasks that write to it."""

    def __init__(self, streams: Streams, **config: Any) -> None:
        self.streams = streams
        self.name = streams.new(duplicate_window=WINDOW, **config)
        self.given = {
            "servers": streams.url,
            "stream": self.name,
            "subject": f"{self.name}.a",
            "exactlyOnce": "state",
            "sinkState": f"STATE_{self.name}",
        }
        schema = StructType([StructField("data", StringType())])
        prepare(schema, self.options(), overwrite=False, streaming=True)

    def options(self, **more: str) -> WriteOptions:
        return write_options({**self.given, **more})

    def task(self, batch: int = 7, partition: int = 0, **more: str) -> PartitionWriter:
        name = BatchName("8d4e", batch, partition)
        scope = f"8d4e:{batch}"
        return PartitionWriter(self.options(**more), window=0.1, scope=scope, partition=partition, name=name)

    def write(self, rows: list[bytes], *, ids: list[str | None] | None = None, crash: int = 0, **more: Any) -> int:
        """Writes rows in batches of 100, and raises after `crash` batches; returns the number of duplicates."""

        def batches() -> Iterator[pa.RecordBatch]:
            for i in range(0, len(rows), 100):
                if crash and i == crash * 100:
                    raise Crash
                more = {} if ids is None else {"msg_id": pa.array(ids[i : i + 100], pa.string())}
                yield pa.RecordBatch.from_pydict({"data": pa.array(rows[i : i + 100], pa.binary()), **more})

        task = self.task(**more)
        # Longer than the window: from here on the server recognises nothing.
        time.sleep(0.2)
        assert task.write(batches()) == len(rows)
        return task.duplicates


@pytest.fixture
def target(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 100)
    return Target(streams)


def data(found: list[Stored]) -> Counter[bytes]:
    return Counter(message.data for message in found)


@pytest.mark.parametrize("mode", ["async", "fast", "atomic"])
def test_a_replay_stores_what_is_missing(streams: Streams, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """In another order, and after the window: without the state the rows before the crash would be stored twice."""
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 100)
    target = Target(streams, allow_batched=True, allow_atomic=True)
    streams.publish(target.name, [b"of others"] * 5)
    for crash in (3, 7):
        with pytest.raises(Crash):
            target.write(ROWS, crash=crash, publishMode=mode)
    streams.publish(target.name, [b"of others"] * 5)
    again = ROWS[:]
    random.Random(1).shuffle(again)
    assert target.write(again, publishMode=mode) >= 600
    with jetarrow.sync.connect(streams.url) as client:
        found = Counter(client.jetstream().read(target.name).read_all()["data"].to_pylist())
    assert found == Counter(ROWS) + Counter({b"of others": 10})
    # All is stored now: nothing is looked up, and nothing published.
    assert target.write(again, publishMode=mode) == 1_000
    assert streams.messages(target.name) == 1_010


def test_a_replay_into_a_target_that_transforms_subjects(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subject of the rows is not that of the stored messages."""
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 100)
    target = Target(streams, subject_transform={"src": ">", "dest": "stored.>"})
    with pytest.raises(Crash):
        target.write(ROWS, crash=3)
    assert target.write(ROWS) == 300
    assert streams.messages(target.name) == 1_000


def test_rows_with_ids_of_their_own(target: Target, stored: Read) -> None:
    ids = [f"k{i}" if i % 3 else None for i in range(1_000)]
    with pytest.raises(Crash):
        target.write(ROWS, ids=ids, crash=5)
    assert target.write(ROWS, ids=ids) == 500
    found = stored(target.name)
    assert data(found) == Counter(ROWS)
    assert sum(1 for message in found if (message.id or "").startswith("k")) == 666


def test_an_empty_id_is_refused(target: Target) -> None:
    with pytest.raises(ValueError, match="a row with an empty msg_id: exactlyOnce=state needs unique ids; use null"):
        target.write(ROWS[:2], ids=["a", ""])


def test_row_stored_twice_is_not_reported_as_a_changed_batch(target: Target) -> None:
    """As from a task that was suspended while it sent, and continued after the window."""
    with pytest.raises(Crash):
        target.write(ROWS, crash=1)
    with jetarrow.sync.connect(target.streams.url) as client:
        js = client.jetstream()
        row = js.read(target.name).read_all().to_pylist()[0]
        # Until the server has forgotten the id.
        wait_until(lambda: not js.publish(row["subject"], row["data"], headers=dict(row["headers"])).duplicate)
    assert target.streams.messages(target.name) == 101
    assert target.write(ROWS) == 100


def test_other_batches_and_partitions_are_other_rows(target: Target, stored: Read) -> None:
    assert [target.write(ROWS[:100], batch=b, partition=p) for b, p in ((7, 0), (7, 1), (8, 0), (8, 1))] == [0] * 4
    assert len(stored(target.name)) == 400
    # One record for the query and one for each partition, for any number of batches.
    assert target.streams.messages(f"KV_STATE_{target.name}") == 3
    with pytest.raises(Error, match="stopped this attempt of batch 7, partition 1: batch 8 has begun"):
        target.write(ROWS, partition=1)
    assert len(stored(target.name)) == 400


def test_contents_that_changed_are_found(target: Target, stored: Read) -> None:
    with pytest.raises(Crash):
        target.write(ROWS, crash=2)
    changed = [b"now " + row for row in ROWS]
    with pytest.raises(Error, match=r"batch 7, partition 0 of this query has changed .*: 200 rows are stored that it"):
        target.write(changed)
    target.write(ROWS[:300], batch=8)
    for rows in (ROWS[:299], [*ROWS[:299], b"other"]):
        with pytest.raises(Error, match=f"its 300 rows were stored; it has {len(rows)} now, or others"):
            target.write(rows, batch=8)
    # The error advises to delete the record.
    target.streams.run(lambda js: delete(js, target))
    assert target.write(ROWS[:300], batch=8) == 0


async def delete(js: Any, target: Target) -> None:
    bucket = await js.key_value(f"STATE_{target.name}")
    for key in ("8d4e.batch", "8d4e.0"):
        await bucket.delete(key)


def test_a_task_that_was_taken_for_dead_stops(target: Target, stored: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "_CHECK_INTERVAL", 0.0)

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"data": pa.array(ROWS[:100], pa.binary())})
        assert target.write(ROWS) == 100
        yield pa.RecordBatch.from_pydict({"data": pa.array(ROWS[100:], pa.binary())})

    with pytest.raises(Error, match="stopped this attempt of batch 7, partition 0: another attempt has begun"):
        target.task().write(rows())
    assert data(stored(target.name)) == Counter(ROWS)


def test_a_target_that_was_made_again_gets_everything(target: Target, stored: Read) -> None:
    target.write(ROWS)
    target.streams.delete(target.name)
    target.streams.create(target.name, duplicate_window=WINDOW)
    assert target.write(ROWS) == 0
    assert data(stored(target.name)) == Counter(ROWS)


def test_a_target_that_has_lost_rows_is_an_error(target: Target) -> None:
    target.streams.publish(target.name, [b"before"] * 5)
    with pytest.raises(Crash):
        target.write(ROWS, crash=2)
    target.streams.purge(target.name, before=6)
    with pytest.raises(Crash):
        target.write(ROWS, crash=2)
    target.streams.purge(target.name, before=8)
    with pytest.raises(
        Error, match=r"could not replay batch 7: stream .* has lost messages from 6 on .* rows are unknown"
    ):
        target.write(ROWS)


def test_state_rejects_unsuitable_streams_and_options(streams: Streams) -> None:
    for config in ({"retention": "workqueue"}, {"max_msgs_per_subject": 1}):
        with pytest.raises(ValueError, match=r"'exactlyOnce': stream .* removes stored messages"):
            Target(streams, **config)
    good = {"servers": streams.url, "stream": "S"}
    for given, said in (
        ({"exactlyOnce": "state"}, "'sinkState': and exactlyOnce=state do not go together; valid: the name of a key-v"),
        ({"sinkState": "B"}, "'sinkState': and exactlyOnce=window do not go together"),
        ({"exactlyOnce": "state", "sinkState": "a.b"}, "'sinkState': 'a.b' cannot be a bucket"),
        ({"exactlyOnce": "state", "sinkState": "B", "dedup": "none"}, "'exactlyOnce': state does not go with dedup=no"),
    ):
        with pytest.raises(ValueError, match=said):
            write_options({**good, **given})
    options = write_options({**good, "subject": "a", "exactlyOnce": "state", "sinkState": "B"})
    schema = StructType([StructField("data", StringType())])
    with pytest.raises(ValueError, match="'exactlyOnce': state is for streaming queries"):
        prepare(schema, options, overwrite=False, streaming=False)


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    ("options", "stored"), [pytest.param({}, 200, marks=pytest.mark.slow), ({"exactlyOnce": "state"}, 100)]
)
def test_a_query_whose_last_commit_is_missing(
    spark: SparkSession, streams: Streams, tmp_path: Path, options: dict[str, str], stored: int
) -> None:
    """The driver died after the batch was written, and was away for longer than the window."""
    source, target = streams.new(), streams.new(duplicate_window=WINDOW)
    streams.publish(source, [b"%d" % i for i in range(100)])
    given = {"servers": streams.url, "stream": target, "subject": f"{target}.a", "checkpointLocation": str(tmp_path)}
    if options:
        given |= {**options, "sinkState": f"STATE_{target}"}
    for _ in range(2):
        rows = spark.readStream.format("jetstream").option("servers", streams.url).option("stream", source)
        data = rows.option("startingOffsets", "earliest").load().select("data")
        query = data.writeStream.format("jetstream").options(**given).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        for file in (tmp_path / "commits").glob("*0*"):
            file.unlink()
        for file in (tmp_path / "commits").glob(".*0*"):
            file.unlink()
    assert streams.messages(target) == stored
