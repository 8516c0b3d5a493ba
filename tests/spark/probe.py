"""A program that observes which features of the source one version of Spark has. test_older.py runs it with each.

python probe.py SERVER FOLDER   prints a JSON object, feature to observation; FOLDER is for checkpoints
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jetarrow.spark
import pyspark
from pyspark.sql import DataFrame, SparkSession

ROWS = 100


class Probe:
    """One session of Spark, and the streams SOURCE (with `ROWS` messages) and TARGET of a server."""

    def __init__(self, server: str, folder: Path) -> None:
        self.server = server
        self.folder = folder
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.sql.shuffle.partitions", "2")
        self.spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")

    def options(self, stream: str, **more: object) -> dict[str, str]:
        return {"servers": self.server, "stream": stream} | {name: str(value) for name, value in more.items()}

    def batch(self, **more: object) -> DataFrame:
        return self.spark.read.format("jetstream").options(**self.options("SOURCE", **more)).load()

    def stream(self, stream: str = "SOURCE", **more: object) -> DataFrame:
        given = self.options(stream, startingOffsets="earliest", **more)
        return self.spark.readStream.format("jetstream").options(**given).load()

    def run(self, frame: DataFrame, format: str, name: str, **options: str) -> Any:
        """Run a streaming query to its end; returns its progress of every batch."""
        writer = frame.writeStream.format(format).options(**options).option("checkpointLocation", self.folder / name)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(100)
        return query.recentProgress

    def write(self, count: int) -> None:
        rows = self.spark.range(count).selectExpr("cast(id as string) as data", "uuid() as msg_id")
        options = self.options("SOURCE", subject="source.a")
        rows.write.format("jetstream").options(**options).mode("append").save()

    def features(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Return each feature with the function that observes it."""
        yield "batch read and write", self.reads_and_writes
        yield "streaming read", self.reads_a_stream
        yield '`writeStream.format("jetstream")`', self.writes_a_stream
        yield "`maxOffsetsPerTrigger`, `maxBytesPerTrigger`, `minOffsetsPerTrigger`", self.limits
        yield "`lag` in the progress", self.lag
        yield "all queries of a DataFrame read the same range", self.range
        yield "a checkpoint of other streams is refused", self.refuses_a_checkpoint
        yield "options of a catalog table", self.catalog
        yield "`pushdown=true`", self.pushdown
        yield "[declarative pipelines](spark-environments.md#declarative-pipelines)", self.pipelines

    def reads_and_writes(self) -> str:
        before = self.batch().count()
        self.write(10)
        return "yes" if (before, self.batch().count()) == (ROWS, ROWS + 10) else "wrong"

    def reads_a_stream(self) -> str:
        self.run(self.stream(), "parquet", "read", path=str(self.folder / "rows"))
        return "yes" if self.spark.read.parquet(str(self.folder / "rows")).count() == ROWS + 10 else "wrong"

    def writes_a_stream(self) -> str:
        rows = self.stream().selectExpr("data", "concat(stream, ':', seq) as msg_id")
        try:
            self.run(rows, "jetstream", "write", **self.options("TARGET", subject="target.a"))
        except Exception as error:
            return "refused: use `foreachBatch`" if "write each batch in foreachBatch" in str(error) else str(error)
        return "yes"

    def limits(self) -> str:
        found = self.run(self.stream(maxOffsetsPerTrigger=50), "noop", "limits")
        sizes = [progress["numInputRows"] for progress in found]
        return {(50, 50, 10): "yes", (110,): "ignored: one batch has all"}.get(tuple(sizes), str(sizes))

    def lag(self) -> str:
        found = self.run(self.stream(maxOffsetsPerTrigger=50), "noop", "lag")
        lags = [one.lag for progress in found for one in jetarrow.spark.progress(progress)]
        return {(60, 10, 0): "yes", (0,): "0: a batch has all"}.get(tuple(lags), str(lags))

    def range(self) -> str:
        frame = self.batch()
        before = frame.count()
        self.write(10)
        return "yes" if frame.count() == before else "no: each query has its own range"

    def refuses_a_checkpoint(self) -> str:
        self.run(self.stream(), "noop", "other")
        try:
            self.run(self.stream("TARGET"), "noop", "other")
        except Exception as error:
            if "this checkpoint is of a query that reads 'SOURCE', not 'TARGET'" in str(error):
                return "after its batch is stored" if "has stored this batch" in str(error) else "yes"
            return str(error)
        return "no"

    def catalog(self) -> str:
        given = ", ".join(f"{name} '{value}'" for name, value in self.options("SOURCE").items())
        self.spark.sql(f"CREATE TABLE source USING jetstream OPTIONS ({given})")
        try:
            return "kept" if self.spark.table("source").count() else "wrong"
        except Exception as error:
            return "dropped by Spark" if "is required" in str(error) else str(error)

    def pushdown(self) -> str:
        try:
            self.batch(pushdown="true").count()
        except Exception as error:
            return "refused" if "'pushdown'" in str(error) else str(error)
        return "yes"

    def pipelines(self) -> str:
        return "yes" if importlib.util.find_spec("pyspark.pipelines") else "no"


def main() -> None:
    """Print the observations."""
    probe = Probe(sys.argv[1], Path(sys.argv[2]))
    found = {feature: observe() for feature, observe in probe.features()}
    print(json.dumps({"version": pyspark.__version__, "features": found}))
    probe.spark.stop()


if __name__ == "__main__":
    main()
