"""Progress of a streaming query: jetarrow.spark.progress, and the listener."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jetarrow.spark
import pytest
from jetarrow.spark import StreamProgress
from jetarrow.spark.sink import progress_file
from jetarrow.spark.source.offsets import Entry, Offset
from pyspark.sql import SparkSession

from .tools import wait_until

if TYPE_CHECKING:
    from .tools import Streams


def spark_says(start: Any, end: Any, latest: Any, milliseconds: int = 2000) -> dict[str, Any]:
    """A progress as Spark 4.3 makes it."""
    source = {"description": "x", "startOffset": start, "endOffset": end, "latestOffset": latest}
    return {"sources": [source], "durationMs": {"triggerExecution": milliseconds}}


def test_progress_is_read_from_sparks_report() -> None:
    begin = {"B": Entry("c", 5), "A": Entry("c", 1, "earliest")}
    end = Offset({"B": Entry("c", 105), "A": Entry("c", 1)}, start=begin).json()
    latest = Offset({"B": Entry("c", 300), "A": Entry("c", 11), "new": Entry("c", 9)}).json()
    wanted = [StreamProgress("A", 1, 11, 10, 0.0), StreamProgress("B", 105, 300, 195, 50.0)]
    assert jetarrow.spark.progress(spark_says(None, end, latest)) == wanted
    # As text, as in Spark's own classes.
    assert jetarrow.spark.progress(spark_says("null", json.dumps(end), json.dumps(latest))) == wanted
    # As the text of a dict, as in Spark 4.0.
    assert jetarrow.spark.progress(spark_says("None", str(end), str(latest))) == wanted
    older = Offset({"B": Entry("c", 105)}, start=None).json()
    found = jetarrow.spark.progress(spark_says(Offset(begin).json(), older, None, 0))
    assert found == [StreamProgress("B", 105, None, None, 0.0)]
    for other in (
        spark_says(0, 100, None),
        spark_says(None, {"v": 1}, None),
        spark_says(None, None, None),
        spark_says("KafkaV2[1]", "not an offset", "("),
        {"sources": []},
    ):
        assert jetarrow.spark.progress(other) == []


@pytest.mark.needs_spark("4.2", "limits per micro-batch")
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_query(spark: SparkSession, streams: Streams, tmp_path: Path) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 25)
    heard: list[tuple[str, list[StreamProgress]]] = []

    def hear(query: str, found: list[StreamProgress]) -> None:
        # Events of an earlier test's query may be late.
        if query == "behind":
            heard.append((query, found))

    listener = jetarrow.spark.listener(hear)
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
        found = [one for _, (one,) in heard[:3]]
        assert [(one.offset, one.lag) for one in found] == [(11, 15), (21, 5), (26, 0)]
        assert all(one.rate > 0 for one in found)
    finally:
        running.stop()
        spark.streams.removeListener(listener)


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_progress_counts_malformed_and_duplicate_rows(spark: SparkSession, streams: Streams, tmp_path: Path) -> None:
    """Malformed rows are counted before they are filtered out; the target has one of the others already."""
    source, target = streams.new(), streams.new()
    streams.publish(source, [b'{"n": %d}' % i if i % 5 else b"broken" for i in range(20)])
    given = {"servers": streams.url, "stream": source, "startingOffsets": "earliest", "payload": "json"}
    rows = spark.readStream.format("jetstream").options(**given, valueSchema="n long", minPartitions="1").load()
    sound = jetarrow.spark.count_malformed(rows).where("_corrupt_record is null")
    streams.run(lambda js: js.publish(f"{target}.a", b"", headers={"Nats-Msg-Id": "id 7"}))
    out = sound.selectExpr("cast(value.n as string) as data", "concat('id ', value.n) as msg_id")
    options = {"servers": streams.url, "stream": target, "subject": f"{target}.a", "checkpointLocation": str(tmp_path)}
    query = out.writeStream.format("jetstream").options(**options).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    found = jetarrow.spark.progress(query)
    assert (found.malformed, found.duplicates, [one.stream for one in found]) == (4, 1, [source])
    assert streams.messages(target) == 16


def test_progress_file_has_duplicates_of_one_query_and_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress_file.tempfile, "gettempdir", lambda: str(tmp_path))
    assert progress_file.read_duplicates("a-1", 3) is None
    progress_file.write_duplicates("a-1", 3, 7)
    assert (
        progress_file.read_duplicates("a-1", 3),
        progress_file.read_duplicates("a-1", 4),
        progress_file.read_duplicates("b-2", 3),
    ) == (7, None, None)
    assert progress_file.read_duplicates("../a-1", 3) is None
    (file,) = tmp_path.rglob("a-1.json")
    file.write_text("{")
    assert progress_file.read_duplicates("a-1", 3) is None
