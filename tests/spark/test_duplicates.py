"""Rows with equal ids: rejected within a task, counted and reported across tasks."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from jetarrow.spark.options.write import write_options
from jetarrow.spark.sink import rows as write_rows
from jetarrow.spark.sink import writer
from jetarrow.spark.sink.partition_writer import PartitionWriter
from jetarrow.spark.sink.target import Target, prepare
from jetarrow.spark.sink.writer import JetStreamWriter, Written
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

if TYPE_CHECKING:
    from jetarrow.spark.sink.stream_writer import JetStreamStreamWriter

    from .tools import Stored, Streams

    Read = Callable[..., list[Stored]]


def rows(ids: list[str | None]) -> pa.RecordBatch:
    data = [b"%d" % i for i in range(len(ids))]
    return pa.RecordBatch.from_pydict({"data": pa.array(data), "msg_id": pa.array(ids, pa.string())})


@pytest.mark.parametrize("dedup", ["content", "none"])
@pytest.mark.parametrize("mode", ["async", "fast", "atomic"])
def test_equal_ids_in_a_task_are_refused(
    streams: Streams, stored: Read, monkeypatch: pytest.MonkeyPatch, dedup: str, mode: str
) -> None:
    """Also if they are in two batches and two calls. Ten rows with two ids: 2 were stored, 10 reported."""
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 3)
    name = streams.new(allow_batched=True, allow_atomic=True)
    given = {"servers": streams.url, "stream": name, "subject": f"{name}.a", "dedup": dedup, "publishMode": mode}
    task = PartitionWriter(write_options(given), window=120, scope="q", partition=4)
    batches = [rows(["a", None, "b", "", ""]), rows([None, "c", "b", "a"])]
    with pytest.raises(
        ValueError, match=r"^jetstream: could not publish row 7 of partition 4: it has the msg_id 'b' of another row"
    ):
        task.write(iter(batches))
    assert {message.data for message in stored(name)} <= {b"0", b"1", b"2", b"3", b"4"}


def writers(stream: str, **given: str) -> tuple[JetStreamWriter, JetStreamStreamWriter]:
    from jetarrow.spark.sink.stream_writer import JetStreamStreamWriter

    options = write_options({"servers": "a:1", "stream": stream, **given})
    return JetStreamWriter(options, Target(120.0)), JetStreamStreamWriter(options, Target(120.0), ["data"])


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
def test_commit_logs_expected_duplicates_and_warns_of_others(caplog: pytest.LogCaptureFixture) -> None:
    batch, stream = writers("S")
    caplog.set_level(logging.INFO, "jetarrow.spark")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch.commit([Written(10, 0, expected=False), None])
        assert not caplog.messages
        batch.commit([Written(10, 7, expected=True), Written(5, 0, expected=False)])
    assert caplog.messages == ["jetstream: stream 'S' already had 7 of 15 rows, because tasks were retried"]
    messages = [Written(10, 7, expected=True), Written(5, 3, expected=False)]
    with pytest.warns(
        UserWarning, match=r"^jetstream: stream 'S': 3 of 15 rows were not stored, .* Either the same rows"
    ):
        batch.commit(messages)
    with pytest.warns(UserWarning, match=r"stream 'S', batch 8: 3 of 15 .* This is expected if a restart has replayed"):
        stream.commit(messages, 8)
    with pytest.warns(
        UserWarning, match=r"stream 'S', copies 7: 3 of 15 .* This is expected if a restart has replayed"
    ):
        writers("S", dedupScope="copies 7")[0].commit(messages)


RUN = "1d0ba0ae-7b3c-4bb1-9a1f-2a0c7f6b8f10"


@pytest.mark.parametrize("group", [RUN, "nightly", "../nightly", None])
def test_only_the_run_of_a_query_names_a_write_in_a_batch(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    """A job group of the user is the same in the next run, in which the batch may be a replay."""
    found = dict(zip(writer._EXECUTION, (group, "7", "12"), strict=True))
    context = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0, getLocalProperty=found.get)
    monkeypatch.setattr(writer.TaskContext, "get", lambda: context)
    name = streams.new()
    options = write_options({"servers": streams.url, "stream": name, "subject": f"{name}.a", "dedupScope": "x"})
    written = JetStreamWriter(options, Target(120.0)).write(iter([pa.RecordBatch.from_pydict({"data": [b"1"]})]))
    assert written.execution == ((RUN, "7", "12") if group == RUN else None)


def test_a_write_with_a_name_is_recognised_when_it_is_repeated(
    streams: Streams, stored: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As foreachBatch writes a batch that is replayed."""
    monkeypatch.setattr(
        writer.TaskContext,
        "get",
        lambda: SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0, getLocalProperty=lambda name: None),
    )
    name = streams.new()
    given = {"servers": streams.url, "stream": name, "subject": f"{name}.a"}

    def write(scope: str) -> int:
        options = write_options(given | ({"dedupScope": scope} if scope else {}))
        rows = pa.RecordBatch.from_pydict({"data": [b"1", b"2", b"1"]})
        return JetStreamWriter(options, Target(120.0)).write(iter([rows])).duplicates

    assert [write(scope) for scope in ("", "", "copies 7", "copies 7", "copies 8")] == [0, 0, 0, 3, 0]
    assert len(stored(name)) == 12
    with pytest.raises(ValueError, match="'dedupScope': does not go with dedup=none; valid: dedup=content with it"):
        write_options({**given, "dedup": "none", "dedupScope": "x"})
    schema = StructType([StructField("data", StringType())])
    with pytest.raises(ValueError, match="'dedupScope': a streaming query uses the numbers of its batches"):
        prepare(schema, write_options({**given, "dedupScope": "x"}), overwrite=False, streaming=True)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_equal_ids_through_spark(
    spark: SparkSession,
    streams: Streams,
    write: Callable[..., None],
    stored: Read,
) -> None:
    """In one partition an error names a row. In two, each id is stored once; the driver logs the number of the rest."""
    name = streams.new()

    def frame(partitions: int) -> DataFrame:
        ids = spark.range(0, 10, 1, partitions)
        return ids.selectExpr("cast(id as string) as data", "concat('k', id % 5) as msg_id")

    with pytest.raises(Exception, match=r"row 5 of partition 0: it has the msg_id 'k0' of another row"):
        write(frame(1), name, subject=f"{name}.a")
    other = streams.new()
    write(frame(2), other, subject=f"{other}.a")
    assert len(stored(other)) == 5


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.slow
def test_second_write_of_a_batch_with_the_same_scope_and_equal_rows_fails(
    spark: SparkSession, streams: Streams, stored: Read, tmp_path: Path
) -> None:
    source, target = streams.new(), streams.new()
    streams.publish(source, [b"%d" % i for i in range(20)])
    scopes = ["orders", "orders"]

    def write_twice(frame: DataFrame, batch: int) -> None:
        for scope in scopes:
            given = {"servers": streams.url, "stream": target, "subject": f"{target}.a"}
            named = frame.select("data").write.format("jetstream").option("dedupScope", f"{scope} {batch}")
            named.options(**given).mode("append").save()

    def run() -> None:
        given = {"servers": streams.url, "stream": source, "startingOffsets": "earliest"}
        written = spark.readStream.format("jetstream").options(**given).load().writeStream.foreachBatch(write_twice)
        written = written.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert written.trigger(availableNow=True).start().awaitTermination(60)

    with pytest.raises(
        StreamingQueryException, match=r"20 of 20 rows were not stored in stream .* write of batch 0 has"
    ):
        run()
    assert len(stored(target)) == 20
    # The replay of the first write is recognised; the second one has a name of its own now.
    scopes[1] = "orders again"
    run()
    assert len(stored(target)) == 40
