"""readMode=latest: the last message of each subject, as of the batch's offsets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import jetarrow.sync
import pytest
from jetarrow.js.errors import StreamRecreatedError
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from .tools import Here, Streams

    Load = Callable[..., DataFrame]


def publish(streams: Streams, name: str, numbers: range) -> None:
    """Publishes to ten subjects in turn; the numbers rise within a subject."""
    with jetarrow.sync.connect(streams.url) as nc:
        subjects = [f"{name}.{'ab'[i % 2]}.{i % 10}" for i in numbers]
        nc.jetstream().publish_batch(subjects, [b"%d" % i for i in numbers]).raise_for_errors()


def values(found: object) -> list[int]:
    return [int(data) for data in found.column("data").to_pylist()]  # type: ignore[attr-defined]


def test_the_last_of_each_subject(here: Here, streams: Streams) -> None:
    name = streams.new()
    publish(streams, name, range(95))
    found = here.read(name, readMode="latest")
    assert values(found) == list(range(85, 95))
    assert found.column("seq").to_pylist() == list(range(86, 96))
    assert set(found.column("stream").to_pylist()) == {name}
    parts = here.plan(name, readMode="latest", subjects=f"{name}.a.*, {name}.b.3")
    assert len(parts) == 2
    assert values(here.read(name, readMode="latest", subjects=f"{name}.a.*, {name}.b.3")) == [86, 88, 90, 92, 94, 93]


def test_latest_messages_are_fixed_at_planning(here: Here, streams: Streams) -> None:
    """A plan never returns messages published after it; a new load does."""
    name = streams.new()
    publish(streams, name, range(25))
    source = here.source(name, readMode="latest")
    reader = source.reader(source.schema())  # type: ignore[arg-type]
    parts = reader.partitions()
    publish(streams, name, range(25, 38))
    for _ in range(2):
        assert values(here.table(source.schema(), reader, parts)) == list(range(15, 25))  # type: ignore[arg-type]
    assert values(here.read(name, readMode="latest")) == list(range(28, 38))
    at = {"endingOffsets": json.dumps({name: 12})}
    assert values(here.read(name, readMode="latest", **at)) == list(range(1, 11))


def test_a_stream_of_one_message_a_subject(here: Here, streams: Streams) -> None:
    """Overwritten messages are gone: their subjects have the newer message, and no subject is missing."""
    name = streams.new(max_msgs_per_subject=1)
    publish(streams, name, range(20))
    source = here.source(name, readMode="latest")
    reader = source.reader(source.schema())  # type: ignore[arg-type]
    parts = reader.partitions()
    publish(streams, name, range(20, 23))
    assert values(here.table(source.schema(), reader, parts)) == [*range(13, 20), 20, 21, 22]  # type: ignore[arg-type]
    assert here.plan(streams.new(max_msgs_per_subject=1), readMode="latest") == []


def test_a_key_value_bucket_is_a_table(here: Here, streams: Streams) -> None:
    with jetarrow.sync.connect(streams.url) as nc:
        kv = nc.jetstream().create_key_value(bucket=f"B{streams.new()}")
        for key in "abc":
            kv.put(key, f'{{"name": "{key}", "size": 1}}')
        kv.put("b", '{"name": "b", "size": 2}')
        kv.delete("a")
        stream = f"KV_{kv.status().bucket}"
    given = {"payload": "json", "valueSchema": json.dumps(SCHEMA)}
    found = here.read(stream, readMode="latest", **given).to_pylist()
    assert [(row["subject"].rpartition(".")[2], row["value"]["size"]) for row in found] == [("c", 1), ("b", 2)]


SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "name", "type": "string", "nullable": True, "metadata": {}},
        {"name": "size", "type": "long", "nullable": True, "metadata": {}},
    ],
}


def test_a_stream_that_was_made_again(here: Here, streams: Streams) -> None:
    name = streams.new()
    publish(streams, name, range(20))
    source = here.source(name, readMode="latest")
    reader = source.reader(source.schema())  # type: ignore[arg-type]
    parts = reader.partitions()
    streams.delete(name)
    streams.create(name)
    publish(streams, name, range(20))
    with pytest.raises(StreamRecreatedError):
        here.table(source.schema(), reader, parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffsets": '{"S": 5}'}, "'startingOffsets': does not go with readMode=latest"),
        ({"startingTimestamp": "0"}, "'startingTimestamp': does not go with readMode=latest"),
        ({"reader": "direct"}, "'readMode': latest has one way to read"),
        ({"readMode": "last"}, "valid: all (default), latest"),
    ],
)
def test_options_that_do_not_go_with_it(here: Here, given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # its text is compared
        here.plan("S", **{"readMode": "latest", **given})
    assert said in str(error.value)


def test_workqueue_and_streaming_query_reject_latest(here: Here, streams: Streams) -> None:
    queue = streams.new(retention="workqueue", allow_direct=True)
    with pytest.raises(ValueError, match=r"'readMode': workqueue stream '.*' keeps no state"):
        here.plan(queue, readMode="latest")
    refused = here.source(queue, readMode="latest").streamReader(here.source(queue).schema())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'readMode': a streaming query reads new messages"):
        refused.initialOffset()


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_through_spark(spark: SparkSession, load: Load, streams: Streams) -> None:
    name = streams.new()
    publish(streams, name, range(95))
    frame = load(name, readMode="latest", schema="subject string, data binary")
    found = frame.selectExpr("int(cast(data as string)) as n").orderBy("n").collect()
    assert [row.n for row in found] == list(range(85, 95))
