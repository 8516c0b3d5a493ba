"""Messages that commits of a streaming query let the server remove, driven without Spark's JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import pytest
from jetarrow.js.errors import StreamRecreatedError
from jetarrow.spark.source.stream_reader import JetStreamStreamReader, ReadAllAvailable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from .tools import Here, Streams

QUEUE = {"retention": "workqueue", "allow_direct": True}
INTEREST = {"retention": "interest", "allow_direct": True}


def step(reader: JetStreamStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """The end of the next batch, through JSON as Spark keeps it."""
    return dict(json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit()))))


def ack_floor(streams: Streams, stream: str, name: str) -> int:
    async def work(js: Any) -> int:
        return int((await js.consumer_info(stream, name)).ack_floor.stream_seq)

    return streams.run(work)


def test_workqueue_keeps_all_messages_without_commit_mode(here: Here, streams: Streams) -> None:
    name = streams.new(**QUEUE)
    streams.publish(name, [b"x"] * 10)
    reader = here.stream(name, maxOffsetsPerTrigger=4)
    start = reader.initialOffset()
    end = step(reader, start)
    assert here.batch(reader, start, end)["seq"].to_pylist() == [1, 2, 3, 4]
    reader.commit(end)
    assert streams.left(name) == list(range(1, 11))


def test_purge_removes_exactly_what_was_processed(here: Here, streams: Streams) -> None:
    name = streams.new(**QUEUE)
    streams.publish(name, [b"x"] * 10)
    reader = here.stream(name, commitMode="purge", maxOffsetsPerTrigger=4)
    start = reader.initialOffset()
    first = step(reader, start)
    second = step(reader, first)
    reader.commit(first)
    assert streams.left(name) == list(range(5, 11))
    # A new process plans the second batch again, and repeats the first commit too.
    again = here.stream(name, commitMode="purge")
    again.commit(first)
    assert here.batch(again, first, second)["seq"].to_pylist() == [5, 6, 7, 8]
    again.commit(second)
    again.commit(second)
    assert streams.left(name) == [9, 10]


def test_purge_with_filters_leaves_the_rest(here: Here, streams: Streams) -> None:
    name = streams.new(**QUEUE)
    streams.publish(name, [b"x"] * 9)
    reader = here.stream(name, commitMode="purge", subjects=f"{name}.0,{name}.1")
    start = reader.initialOffset()
    end = step(reader, start)
    assert here.batch(reader, start, end)["seq"].to_pylist() == [1, 2, 4, 5, 7, 8]
    reader.commit(end)
    assert streams.left(name) == [3, 6, 9]


def test_purge_leaves_a_stream_of_another_retention_that_appears(here: Here, streams: Streams) -> None:
    queue = streams.new(**QUEUE)
    late = f"{queue}b"
    streams.publish(queue, [b"x"] * 3)
    reader = here.stream(streamPattern=f"{queue}.*", commitMode="purge")
    start = reader.initialOffset()
    first = step(reader, start)
    streams.create(late, allow_direct=True)
    streams.publish(late, [b"y"] * 3)
    with pytest.raises(ValueError, match=f"'{late}' has retention limits"):
        step(reader, first)
    # A batch that was planned without the check.
    end = step(here.stream(streamPattern=f"{queue}.*"), first)
    with pytest.raises(ValueError, match=f"'{late}' has retention limits"):
        reader.commit(end)
    assert streams.left(late) == [1, 2, 3]


def test_a_consumer_retains_the_messages_of_a_stream_that_appears(here: Here, streams: Streams) -> None:
    first = streams.new(**INTEREST)
    late = f"{first}b"
    reader = here.stream(streamPattern=f"{first}.*", commitMode="consumer", commitConsumer="q")
    start = reader.initialOffset()
    streams.create(late, **INTEREST)
    assert step(reader, start) == start
    streams.publish(late, [b"y"] * 5)
    end = step(reader, start)
    assert here.batch(reader, start, end)["seq"].to_pylist() == [1, 2, 3, 4, 5]
    reader.commit(end)
    assert streams.left(late) == []


def test_a_stream_that_was_made_again_is_not_touched(here: Here, streams: Streams) -> None:
    name = streams.new(**QUEUE)
    streams.publish(name, [b"x"] * 5)
    reader = here.stream(name, commitMode="purge")
    end = step(reader, reader.initialOffset())
    streams.delete(name)
    streams.create(name, **QUEUE)
    streams.publish(name, [b"never read"] * 5)
    with pytest.raises(StreamRecreatedError):
        reader.commit(end)
    assert streams.left(name) == [1, 2, 3, 4, 5]


def test_consumer_keeps_messages_until_they_are_committed(here: Here, streams: Streams) -> None:
    name = streams.new(**INTEREST)
    reader = here.stream(name, commitMode="consumer", commitConsumer="spark", maxOffsetsPerTrigger=1500)
    start = reader.initialOffset()
    assert start == reader.initialOffset()
    # From now on the stream keeps messages for this consumer, although it is the only one.
    streams.publish(name, [bytes(2000)] * 2600)
    first = step(reader, start)
    second = step(reader, first)
    assert here.batch(reader, start, first).num_rows == 1500
    reader.commit(first)
    assert ack_floor(streams, name, "spark") == 1500
    info = streams.run(lambda js: js.stream_info(name))
    assert (info.state.messages, info.state.first_seq) == (1100, 1501)
    # Another process, and deleted messages at the end of its batch.
    streams.delete_messages(name, [2599, 2600])
    again = here.stream(name, commitMode="consumer", commitConsumer="spark")
    assert here.batch(again, first, second).num_rows == 1098
    again.commit(second)
    again.commit(second)
    assert streams.run(lambda js: js.stream_info(name)).state.messages == 0


def test_messages_delivered_beyond_a_batch_are_acknowledged_later(here: Here, streams: Streams) -> None:
    name = streams.new(**INTEREST)
    reader = here.stream(name, commitMode="consumer", commitConsumer="spark", maxOffsetsPerTrigger=10)
    start = reader.initialOffset()
    streams.publish(name, [b"x"] * 30)
    first = step(reader, start)
    # With these gone, ten messages reach beyond the end of the batch.
    streams.delete_messages(name, [2, 3, 4])
    second = step(reader, first)
    third = step(reader, second)
    reader.commit(first)
    assert ack_floor(streams, name, "spark") == 10
    assert streams.left(name) == list(range(11, 31))
    reader.commit(second)
    reader.commit(third)
    assert streams.left(name) == []


def test_a_consumer_that_is_gone_is_made_again(here: Here, streams: Streams) -> None:
    name = streams.new(**INTEREST)
    reader = here.stream(name, commitMode="consumer", commitConsumer="spark")
    start = reader.initialOffset()
    streams.publish(name, [b"x"] * 5)
    end = step(reader, start)
    streams.run(lambda js: js.delete_consumer(name, "spark"))
    with pytest.warns(UserWarning, match="consumer 'spark' of stream .* was deleted and is created again"):
        reader.commit(end)
    streams.publish(name, [b"x"] * 5)
    assert streams.left(name) == [6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("config", "options", "said"),
    [
        ({}, {"commitMode": "purge"}, "purge is for workqueue streams, .* has retention limits; valid: none"),
        (
            INTEREST,
            {"commitMode": "purge"},
            "purge is for workqueue streams, .* has retention interest; valid: none, consumer",
        ),
        (QUEUE, {"commitMode": "consumer", "commitConsumer": "c"}, "consumer is for interest .* valid: none, purge"),
    ],
)
def test_modes_that_do_not_fit(
    here: Here, streams: Streams, config: dict[str, Any], options: dict[str, str], said: str
) -> None:
    name = streams.new(**config)
    with pytest.raises(ValueError, match=f"'commitMode': {said}"):
        here.stream(name, **options).initialOffset()


def test_somebody_elses_consumer_is_not_taken(here: Here, streams: Streams) -> None:
    name = streams.new(**INTEREST)
    with jetarrow.sync.connect(streams.url) as client:
        client.jetstream().add_consumer(name, durable_name="theirs", ack_policy="explicit")
    with pytest.raises(
        ValueError, match=r"'commitConsumer': consumer 'theirs' of stream .* exists with another configuration"
    ):
        here.stream(name, commitMode="consumer", commitConsumer="theirs").initialOffset()


def test_consumer_of_another_query_is_refused(here: Here, streams: Streams) -> None:
    name = streams.new(**INTEREST)
    options = {"commitMode": "consumer", "commitConsumer": "spark"}
    reader = here.stream(name, **options)
    start = reader.initialOffset()
    streams.publish(name, [b"x"] * 5)
    end = step(reader, start)
    refused = r"'commitConsumer': consumer 'spark' of stream .* is that of another query"
    with pytest.raises(ValueError, match=refused):
        here.stream(name, **options).initialOffset()
    # The same query in another process, which knows its name from the checkpoint.
    again = here.stream(name, **options)
    again.latestOffset(end, ReadAllAvailable())
    again.commit(end)
    assert streams.left(name) == []
    # It was deleted, and another query has created it meanwhile.
    streams.run(lambda js: js.delete_consumer(name, "spark"))
    other = here.stream(name, **options)
    start = other.initialOffset()
    streams.publish(name, [b"x"] * 5)
    last = other.latestOffset(start, ReadAllAvailable())
    with pytest.raises(ValueError, match=refused):
        again.commit({**last, "owner": end["owner"]})
    assert streams.left(name) == [6, 7, 8, 9, 10]


def test_consumer_without_a_query_is_adopted(here: Here, streams: Streams) -> None:
    """As a version without names has created it."""
    name = streams.new(**INTEREST)
    options = {"commitMode": "consumer", "commitConsumer": "spark"}
    with jetarrow.sync.connect(streams.url) as client:
        client.jetstream().add_consumer(
            name, durable_name="spark", ack_policy="all", headers_only=True, metadata={"team": "a"}
        )
    reader = here.stream(name, **options)
    start = reader.initialOffset()
    info = streams.run(lambda js: js.consumer_info(name, "spark"))
    assert info.config.metadata["team"] == "a"
    streams.publish(name, [b"x"] * 5)
    reader.commit(step(reader, start))
    assert streams.left(name) == []
    with pytest.raises(ValueError, match="is that of another query"):
        here.stream(name, **options).initialOffset()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_query_with_a_consumer_is_restarted_and_fails_on_lost_messages(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    name, found = streams.new(**INTEREST), []
    given = {"servers": streams.url, "stream": name, "commitMode": "consumer", "commitConsumer": "spark"}

    def run(checkpoint: str) -> None:
        frame = spark.readStream.format("jetstream").options(**given).load()
        written = frame.writeStream.foreachBatch(lambda rows, _: found.extend(row.seq for row in rows.collect()))
        written = written.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
        assert written.start().awaitTermination(60)

    run("one")
    for first in (1, 11):
        streams.publish(name, [b"x"] * 10)
        run("one")
        assert sorted(found) == list(range(1, first + 10))
    with pytest.raises(StreamingQueryException, match="is that of another query"):
        run("two")
    # The second batch is committed when the next one is planned.
    assert streams.left(name) == list(range(11, 21))
    streams.publish(name, [b"x"] * 10)
    streams.purge(name, before=25)
    with pytest.raises(StreamingQueryException, match=r"DataLossError: .*messages 21 to 24 of stream"):
        run("one")
