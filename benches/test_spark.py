"""Spark: reading to nowhere, JSON, writing with content ids, the cost of a micro-batch, a worker's memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sparks
import wire
from harness import Group, Run
from test_read import fill_with_json, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SPARK, NATIVE = "pyspark", "jetarrow._jetarrow"
READ = Group("Spark: batch read, 128 B", "read", "raw socket", "jetarrow read, sync", count=1_000_000)
JSON = Group(
    "Spark: read JSON", "read", peer="Spark, from_json", size=len(reading(0)), count=500_000, fill=fill_with_json
)
WRITE = Group(
    "Spark: batch write with ids, 128 B", "publish", "raw socket with ids", "jetarrow publish_batch", count=500_000
)
MICRO = Group("Spark: micro-batches of 100 rows", "read", peer="Spark, Python rate source", count=3_000)
MEMORY = Group("Spark: memory of a worker, 1 KiB", "read", size=1024, count=1_000_000, rounds=1)
MEMORY_WRITE = Group("Spark: memory of a writing worker, 1 KiB", "publish", size=1024, count=300_000, rounds=1)
FIELDS = "id bigint, device string, ok boolean, temperature double, count int, site string, at timestamp"


def load(run: Run, columns: str | None = None, **options: object) -> DataFrame:
    given = {"servers": run.url, "stream": run.stream, **{name: str(value) for name, value in options.items()}}
    reader = sparks.session().read.format("jetstream").options(**given)
    return (reader if columns is None else reader.schema(columns)).load()


@READ.row("raw socket")
def raw_socket(run: Run) -> int:
    wire.pull(run.url, run.stream, run.count, clock=run.clock())
    return run.count  # it has checked the consumer's own count


@READ.row("jetarrow read, sync", needs=NATIVE)
def read_sync(run: Run) -> int:
    """Batch by batch, as a task does it."""
    import jetarrow.sync

    rows = 0
    with jetarrow.sync.connect(run.url) as nc, run.clock():
        for batch in nc.jetstream().read(run.stream, timestamp_unit="us"):
            rows += batch.to_pyarrow().num_rows
    return rows


@READ.row("Spark, 1 partition", needs=SPARK)
def read_one(run: Run) -> int:
    return sparks.read_to_nowhere(load(run), run)


@READ.row("Spark, 2 partitions", needs=SPARK)
def read_two(run: Run) -> int:
    return sparks.read_to_nowhere(load(run, minPartitions=2), run)


@JSON.row("Spark, from_json", needs=SPARK)
def from_json(run: Run) -> int:
    from pyspark.sql import functions

    value = functions.from_json(functions.col("data").cast("string"), FIELDS).alias("value")
    return sparks.read_to_nowhere(load(run, minPartitions=2).select(value).select("value.*"), run)


@JSON.row("Spark, payload=json", needs=SPARK)
def payload_json(run: Run) -> int:
    frame = load(run, minPartitions=2, payload="json", valueSchema=FIELDS)
    return sparks.read_to_nowhere(frame.select("value.*"), run)


@WRITE.row("raw socket with ids")
def raw_socket_ids(run: Run) -> int:
    wire.publish(run.url, run.subject, run.size, run.count, ids="row", clock=run.clock())
    return run.count


@WRITE.row("jetarrow publish_batch", needs=NATIVE)
def publish_batch(run: Run) -> int:
    import jetarrow.sync
    import pyarrow

    payloads = pyarrow.array(run.payloads, pyarrow.binary())
    # As long as the ids that Spark's rows get.
    ids = pyarrow.array([f"{i:022}" for i in range(run.count)], pyarrow.string())
    with jetarrow.sync.connect(run.url) as nc:
        js = nc.jetstream()
        with run.clock():
            result = js.publish_batch(run.subject, payloads, msg_ids=ids, expected_stream=run.stream)
    result.raise_for_errors()
    return int(result.stored)


@WRITE.row("Spark, content ids", needs=SPARK)
def write_ids(run: Run) -> int:
    return write(run)


@WRITE.row("Spark, dedup=none", needs=SPARK)
def write_without_ids(run: Run) -> int:
    return write(run, dedup="none")


def write(run: Run, partitions: int = 2, **options: str) -> int:
    """Rows that cost the JVM little; how many were stored is checked by the harness."""
    data = f"concat(lpad(id, 9, '0'), '{'x' * (run.size - 9)}') as data"
    frame = sparks.session().range(0, run.count, 1, partitions).selectExpr(data)
    given = {"servers": run.url, "stream": run.stream, "subject": run.subject, **options}
    with sparks.clock(run):
        frame.write.format("jetstream").options(**given).mode("append").save()
    return run.count


@MICRO.row("Spark, Python rate source", needs=SPARK)
def rate_source(run: Run) -> int:
    source = rate_like()
    sparks.session().dataSource.register(source)
    return micro_batches(run, source.name(), rows=str(run.count), step=str(step(run)))


@MICRO.row("Spark, jetstream", needs=SPARK)
def micro_jetstream(run: Run) -> int:
    options = {"servers": run.url, "stream": run.stream, "startingOffsets": "earliest"}
    return micro_batches(run, "jetstream", **options, maxOffsetsPerTrigger=str(step(run)))


def step(run: Run) -> int:
    return max(1, run.count // 30)


def micro_batches(run: Run, source: str, **options: str) -> int:
    """The first batch starts the query; the median of the others is what counts."""
    stream = sparks.session().readStream.format(source).options(**options).load()
    with sparks.clock(run):
        query = stream.writeStream.format("noop").start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    median = statistics.median(one["durationMs"]["triggerExecution"] for one in progress[1:])
    run.notes["ms a micro-batch"] = median
    run.seconds = median / 1000 * len(progress)
    return sum(int(one["numInputRows"]) for one in progress)


def rate_like() -> Any:
    """Return a source like Spark's `rate`, in Python and Arrow, with jetarrow's columns, to measure Spark itself."""
    from pathlib import Path

    import pyarrow
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = (
        "stream string, seq bigint, subject string, timestamp timestamp, headers map<string,array<string>>, data binary"
    )

    class Slice(InputPartition):
        def __init__(self, start: int, end: int) -> None:
            self.start, self.end = start, end

    class Reader(DataSourceStreamReader):
        def __init__(self, options: Any, schema: StructType) -> None:
            self.rows, self.step, self.schema = int(options["rows"]), int(options["step"]), schema
            # A file that contains the number of available rows.
            self.gate = options.get("gate")

        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
            there = self.rows if self.gate is None else int(Path(self.gate).read_text() or 0)
            return {"at": min(there, (start or {"at": 0})["at"] + self.step)}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [Slice(start["at"], end["at"])]

        def read(self, partition: Any) -> Iterator[Any]:
            yield rows_of(partition, self.schema)

    class Whole(DataSourceReader):
        def __init__(self, options: Any, schema: StructType) -> None:
            self.rows, self.schema = int(options["rows"]), schema

        def partitions(self) -> list[InputPartition]:
            return [Slice(0, self.rows)]

        def read(self, partition: Any) -> Iterator[Any]:
            yield rows_of(partition, self.schema)

    def rows_of(partition: Any, schema: StructType) -> Any:
        rows = range(partition.start, partition.end)
        columns = [
            ["S"] * len(rows),
            rows,
            ["s"] * len(rows),
            [0] * len(rows),
            [None] * len(rows),
            [b""] * len(rows),
        ]
        target = to_arrow_schema(schema, timezone="UTC")
        arrays = [pyarrow.array(list(c), field.type) for c, field in zip(columns, target, strict=True)]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=target)

    class RateLike(DataSource):
        @classmethod
        def name(cls) -> str:
            return "jetarrow_bench_rate"

        def schema(self) -> str:
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:
            return Whole(self.options, schema)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return Reader(self.options, schema)

    return RateLike


@MEMORY.row("Spark, 1 partition", needs=SPARK)
def read_memory(run: Run) -> int:
    frame = load(run, maxRecordsPerPartition=run.count, maxBytesPerPartition="100g")
    with sparks.peak_memory(run):
        return sparks.read_to_nowhere(frame, run)


@MEMORY_WRITE.row("Spark, 1 partition, content ids", needs=SPARK)
def write_memory(run: Run) -> int:
    with sparks.peak_memory(run):
        return write(run, partitions=1)


linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")


@pytest.mark.parametrize("name", READ.rows)
def test_spark_read(name: str, record: Callable[[Group, str], None]) -> None:
    record(READ, name)


@pytest.mark.parametrize("name", JSON.rows)
def test_spark_json(name: str, record: Callable[[Group, str], None]) -> None:
    record(JSON, name)


@pytest.mark.parametrize("name", WRITE.rows)
def test_spark_write(name: str, record: Callable[[Group, str], None]) -> None:
    record(WRITE, name)


@pytest.mark.parametrize("name", MICRO.rows)
def test_spark_micro_batches(name: str, record: Callable[[Group, str], None]) -> None:
    record(MICRO, name)


@linux
@pytest.mark.parametrize("name", MEMORY.rows)
def test_spark_memory(name: str, record: Callable[[Group, str], None]) -> None:
    record(MEMORY, name)


@linux
@pytest.mark.parametrize("name", MEMORY_WRITE.rows)
def test_spark_memory_write(name: str, record: Callable[[Group, str], None]) -> None:
    record(MEMORY_WRITE, name)
