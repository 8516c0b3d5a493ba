"""`partitionBy` in a real Spark: whole keys in a partition, over restarts from a checkpoint."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id

if TYPE_CHECKING:
    from .tools import Streams

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
# Partition, subject and sequence of a row.
Row = tuple[int, str, int]


def rows_of(frame: DataFrame) -> list[Row]:
    found = frame.select(spark_partition_id().alias("at"), "subject", "seq").collect()
    return [(row.at, row.subject, row.seq) for row in found]


def check_keys(rows: list[Row]) -> None:
    """Each subject is in one partition, in order."""
    partitions, last = defaultdict[str, set[int]](set), defaultdict[int, int](int)
    for at, subject, seq in rows:
        partitions[subject].add(at)
        assert seq > last[at]
        last[at] = seq
    assert {len(found) for found in partitions.values()} == {1}
    assert len(set().union(*partitions.values())) > 1


def test_batch_has_the_rows_of_a_read_without_the_option(spark: SparkSession, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"%d" % number for number in range(300)])
    given = {"servers": streams.url, "stream": name}
    plain = rows_of(spark.read.format("jetstream").options(**given).load())
    frame = spark.read.format("jetstream").options(**given, partitionBy="2", minPartitions="4").load()
    assert frame.rdd.getNumPartitions() == 4
    found = rows_of(frame)
    check_keys(found)
    assert sorted(row[1:] for row in found) == sorted(row[1:] for row in plain)


@pytest.mark.needs_spark("4.2", "limits per micro-batch")
@pytest.mark.slow
def test_query_keeps_keys_whole_over_a_restart_in_the_middle_of_a_batch(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    """The second run has no option: the batch that it repeats has the partitions of the first."""
    name, runs = streams.new(), defaultdict[int, list[list[Row]]](list)
    streams.publish(name, [b"%d" % number for number in range(240)])
    fail_at = [1]

    def take(frame: DataFrame, batch: int) -> None:
        runs[batch].append(rows_of(frame))
        if batch in fail_at:
            raise RuntimeError("the sink fails after it has everything")

    def run(**options: str) -> bool:
        given = {"servers": streams.url, "stream": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
        rows = spark.readStream.format("jetstream").options(**given, **options).load()
        writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            return bool(query.awaitTermination(60))
        finally:
            query.stop()

    with pytest.raises(Exception, match="the sink fails"):
        run(partitionBy="2", minPartitions="3")
    logged = json.loads((tmp_path / "checkpoint" / "offsets" / "1").read_text().splitlines()[-1])
    assert (logged["by"], logged["parts"]) == ([2], {name: 3})
    fail_at.clear()
    assert run()
    first, again = runs[1]
    assert sorted(first) == sorted(again)
    for batch in (0, 1):
        check_keys(runs[batch][0])
    assert sorted(seq for found in runs.values() for _, _, seq in found[-1]) == list(range(1, 241))


def test_a_wrong_value_is_an_error_before_a_task(spark: SparkSession, streams: Streams) -> None:
    given = {"servers": streams.url, "stream": streams.new(), "partitionBy": "subject"}
    with pytest.raises(Exception, match="'partitionBy': 'subject' is not a token number; valid: a comma list"):
        spark.read.format("jetstream").options(**given).load()
