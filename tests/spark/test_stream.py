"""`spark.readStream.format("jetstream")` in a real Spark against a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from .tools import release, wait_until

if TYPE_CHECKING:
    from .tools import Streams

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


class Sink:
    """A streaming query that collects its batches in this process; it can be stopped and started again."""

    def __init__(self, spark: SparkSession, url: str, checkpoint: Path) -> None:
        self.spark = spark
        self.url = url
        self.checkpoint = checkpoint
        self.batches: dict[int, list[tuple[str, int]]] = {}
        self.fail_at: int | None = None
        self.query: StreamingQuery | None = None

    def frame(self, stream: str, **options: object) -> DataFrame:
        reader = self.spark.readStream.format("jetstream").option("servers", self.url).option("stream", stream)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    def start(self, stream: str, *, now: bool = False, **options: object) -> StreamingQuery:
        writer = self.frame(stream, **options).writeStream.foreachBatch(self.take)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self.query = (writer.trigger(availableNow=True) if now else writer).start()
        return self.query

    def take(self, frame: DataFrame, batch: int) -> None:
        found = sorted((row.stream, row.seq) for row in frame.select("stream", "seq").collect())
        # A batch that is done again has the same rows.
        assert self.batches.setdefault(batch, found) == found
        if batch == self.fail_at:
            raise RuntimeError("the sink fails after it has everything")

    @property
    def seqs(self) -> list[int]:
        return sorted(seq for batch in list(self.batches.values()) for _, seq in batch)

    def until(self, condition: Callable[[], object]) -> None:
        def holds() -> object:
            assert self.query is None or self.query.exception() is None, self.query.exception()
            return condition()

        wait_until(holds)

    def logged(self) -> list[dict[str, Any]]:
        """The offsets in the checkpoint, in their order."""
        files = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        return [json.loads(path.read_text().splitlines()[-1]) for path in files]


@pytest.fixture
def sink(spark: SparkSession, nats_url: str, tmp_path: Path) -> Iterator[Sink]:
    sink = Sink(spark, nats_url, tmp_path / "checkpoint")
    yield sink
    if sink.query is not None:
        sink.query.stop()


@pytest.mark.needs_spark("4.2", "limits per micro-batch")
def test_available_now_then_on_from_the_checkpoint(sink: Sink, streams: Streams) -> None:
    a, b = streams.new(), streams.new()
    streams.publish(a, [b"x"] * 70)
    streams.publish(b, [b"x"] * 30)
    options = {"startingOffsets": "earliest", "minPartitions": 2}
    query = sink.start(f"{a},{b}", now=True, maxOffsetsPerTrigger=50, **options)
    assert query.awaitTermination(60)
    assert [len(sink.batches[i]) for i in sorted(sink.batches)] == [50, 50]
    expected = sorted([(a, seq) for seq in range(1, 71)] + [(b, seq) for seq in range(1, 31)])
    assert sorted(row for batch in sink.batches.values() for row in batch) == expected
    source = query.recentProgress[-1]["sources"][0]
    assert json.loads(source["latestOffset"])["streams"][a]["next"] == 71
    logged = sink.logged()
    assert [offset["v"] for offset in logged] == [1, 1]
    # Marks detect a rolled-back stream; the start of a batch has none.
    plain = {
        name: {key: value for key, value in position.items() if key != "marks"}
        for name, position in logged[0]["streams"].items()
    }
    assert logged[1]["from"] == plain
    assert sorted(logged[0]) == list(logged[0]) == ["from", "parts", "streams", "v"]
    # The checkpoint contains no module names, so a later release with other names can read it.
    files = [path for path in sink.checkpoint.rglob("*") if path.is_file()]
    assert len(files) >= 5
    assert not [path for path in files if b"jetarrow" in path.read_bytes()]

    # Nothing new: no batch. Then something new, without a limit.
    assert sink.start(f"{a},{b}", now=True, **options).awaitTermination(60)
    assert len(sink.batches) == 2
    streams.publish(b, [b"x"] * 5)
    assert sink.start(f"{a},{b}", now=True, **options).awaitTermination(60)
    assert sink.batches[2] == [(b, seq) for seq in range(31, 36)]


def test_a_running_query_takes_what_comes_and_makes_no_empty_batches(sink: Sink, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"before"] * 10)
    query = sink.start(name, subjects=f"{name}.0,{name}.1")
    # Spark itself makes the first batch, regardless of the source.
    sink.until(lambda: 0 in sink.batches)
    streams.publish(name, [b"x"] * 3)
    sink.until(lambda: sink.seqs == [11, 12])
    # Foreign traffic, while Spark looks every 10 ms.
    for _ in range(30):
        streams.run(lambda js: js.publish(f"{name}.2", b"foreign"))
    streams.publish(name, [b"x"])
    sink.until(lambda: sink.seqs == [11, 12, 44])
    query.stop()
    first, *others = [len(sink.batches[batch]) for batch in sorted(sink.batches)]
    assert (first, sum(others), all(others)) == (0, 3, True)
    assert len(sink.logged()) == len(sink.batches)


def test_batch_0_is_planned_again_with_the_start_it_had(sink: Sink, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 10)
    sink.fail_at = 0
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        sink.start(name, startingOffsets="earliest").awaitTermination(60)
    assert sink.batches == {0: [(name, seq) for seq in range(1, 11)]}
    # Spark requests the start again. The options are now the latest message and another number of partitions.
    streams.publish(name, [b"later"] * 20)
    sink.fail_at = None
    options = {"startingOffsets": "latest", "minPartitions": 5}
    assert sink.start(name, now=True, **options).awaitTermination(60)
    if release(pyspark.__version__) < (4, 2):  # a run is one batch, here the repeated one
        assert sink.start(name, now=True, **options).awaitTermination(60)
    assert sink.batches[0] == [(name, seq) for seq in range(1, 11)]
    assert sink.seqs == list(range(1, 31))
    assert [offset["parts"][name] for offset in sink.logged()] == [1, 5]


@pytest.mark.needs_spark("4.2", "limits per micro-batch")
@pytest.mark.slow
def test_a_queue_is_purged_as_batches_complete(sink: Sink, streams: Streams) -> None:
    name = streams.new(retention="workqueue", allow_direct=True)
    streams.publish(name, [b"x"] * 30)
    options = {"commitMode": "purge", "maxOffsetsPerTrigger": 10}
    assert sink.start(name, now=True, **options).awaitTermination(60)
    assert sink.seqs == list(range(1, 31))
    # The last batch is committed at the next start.
    assert streams.left(name) == list(range(21, 31))
    streams.publish(name, [b"x"])
    assert sink.start(name, now=True, **options).awaitTermination(60)
    assert sink.seqs == list(range(1, 32))
    assert streams.left(name) == [31]


def test_json_in_a_stream(sink: Sink, streams: Streams, spark: SparkSession, tmp_path: Path) -> None:
    name = streams.new()
    streams.publish(name, [b'{"id": 1, "tags": ["a"]}', b"{", b'{"id": 3}'])
    frame = sink.frame(
        name, payload="json", valueSchema="id bigint, tags array<string>", startingOffsets="earliest"
    ).select("seq", "value.*", "_corrupt_record")
    query = (
        frame.writeStream.format("memory")
        .queryName(f"q{name}")
        .option("checkpointLocation", str(tmp_path / "json"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    rows = [tuple(row) for row in spark.table(f"q{name}").orderBy("seq").collect()]
    assert rows == [(1, 1, ["a"], None), (2, None, None, "{"), (3, 3, None, None)]


def failure(query: StreamingQuery) -> str:
    """Why a query ended, as its user sees it."""
    with pytest.raises(StreamingQueryException) as error:
        query.awaitTermination(60)
    text = str(error.value)
    assert "Traceback" not in text
    return text


def test_purged_and_made_again_while_it_is_stopped(sink: Sink, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 10)
    assert sink.start(name, now=True, startingOffsets="earliest").awaitTermination(60)
    streams.publish(name, [b"x"] * 10)
    streams.purge(name, before=15)
    text = failure(sink.start(name, now=True))
    assert f"DataLossError: nats: jetstream: messages 11 to 14 of stream '{name}' are gone" in text
    assert sink.start(name, now=True, failOnDataLoss=False).awaitTermination(60)
    assert sink.seqs == [*range(1, 11), *range(15, 21)]
    streams.delete(name)
    streams.create(name)
    streams.publish(name, [b"x"] * 50)
    text = failure(sink.start(name, now=True))
    assert f"StreamRecreatedError: nats: stream '{name}' of " in text
    assert "use a new checkpoint" in text


def test_a_checkpoint_of_another_stream(sink: Sink, streams: Streams) -> None:
    one, other = streams.new(), streams.new()
    for name in (one, other):
        streams.publish(name, [b"x"] * 10)
    assert sink.start(one, now=True, startingOffsets="earliest").awaitTermination(60)
    text = failure(sink.start(other, now=True))
    assert f"this checkpoint is of a query that reads '{one}', not '{other}'" in text
    assert "its own checkpointLocation" in text
    # A query with one more stream continues at the position of the first one.
    assert sink.start(f"{one},{other}", now=True).awaitTermination(60)
    assert len(sink.seqs) == 20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "jetstream option 'endingOffsets': a streaming query has no end"),
        ({"stream": "NOWHERE"}, "NotFoundError: nats: jetstream: there is no stream 'NOWHERE'"),
        ({"startingOffset": "earliest"}, "unknown options: startingoffset; did you mean startingOffsets?"),
    ],
)
def test_bad_options(sink: Sink, streams: Streams, options: dict[str, str], said: str) -> None:
    given = {"stream": streams.new(), **options}
    assert said in failure(sink.start(**given))
