"""How far a streaming query is: jetarrow.spark.progress, and the listener."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jetarrow.spark
import pytest
from jetarrow.spark import StreamProgress
from jetarrow.spark.source.offsets import Entry, Offset
from pyspark.sql import SparkSession

from .tools import wait_until

if TYPE_CHECKING:
    from .tools import Streams


def told(start: Any, end: Any, latest: Any, milliseconds: int = 2000) -> dict[str, Any]:
    """A progress as Spark 4.3 makes it."""
    source = {"description": "x", "startOffset": start, "endOffset": end, "latestOffset": latest}
    return {"sources": [source], "durationMs": {"triggerExecution": milliseconds}}


def test_what_spark_tells() -> None:
    begin = {"B": Entry("c", 5), "A": Entry("c", 1, "earliest")}
    end = Offset({"B": Entry("c", 105), "A": Entry("c", 1)}, start=begin).json()
    latest = Offset({"B": Entry("c", 300), "A": Entry("c", 11), "new": Entry("c", 9)}).json()
    wanted = [StreamProgress("A", 1, 11, 10, 0.0), StreamProgress("B", 105, 300, 195, 50.0)]
    assert jetarrow.spark.progress(told(None, end, latest)) == wanted
    # As text, which is what Spark's own classes have.
    assert jetarrow.spark.progress(told("null", json.dumps(end), json.dumps(latest))) == wanted
    older = Offset({"B": Entry("c", 105)}, start=None).json()
    found = jetarrow.spark.progress(told(Offset(begin).json(), older, None, 0))
    assert found == [StreamProgress("B", 105, None, None, 0.0)]
    for other in (told(0, 100, None), told(None, {"v": 1}, None), told(None, None, None), {"sources": []}):
        assert jetarrow.spark.progress(other) == []


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_query(spark: SparkSession, streams: Streams, tmp_path: Path) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 25)
    heard: list[tuple[str, list[StreamProgress]]] = []
    listener = jetarrow.spark.listener(lambda query, found: heard.append((query, found)))
    spark.streams.addListener(listener)
    options = {"servers": streams.url, "stream": name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    rows = spark.readStream.format("jetstream").options(**options).load()
    query = rows.writeStream.format("noop").queryName("behind").option("checkpointLocation", str(tmp_path))
    running = query.trigger(availableNow=True).start()
    try:
        assert running.awaitTermination(60)
        wait_until(lambda: len(heard) >= 3)
        (last,) = jetarrow.spark.progress(running)
        assert (last.stream, last.offset, last.latest, last.lag) == (name, 26, 26, 0)
        assert [query for query, _ in heard[:3]] == ["behind"] * 3
        found = [one for _, (one,) in heard[:3]]
        assert [(one.offset, one.lag) for one in found] == [(11, 15), (21, 5), (26, 0)]
        assert all(one.rate > 0 for one in found)
    finally:
        running.stop()
        spark.streams.removeListener(listener)
