"""The verbs for data that `jetarrow.nats.jetstream` adds to those of nats-jetstream."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path

import jetarrow.nats.client
import jetarrow.nats.jetstream
import pyarrow as pa
import pyarrow.parquet
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.nats.jetstream import JetStream
from jetarrow.nats.jetstream.data_verbs import DataVerbs

VERBS = sorted(name for name in vars(DataVerbs) if not name.startswith("_"))


@pytest.fixture
async def successor(nats_url: str) -> AsyncIterator[JetStream]:
    async with await jetarrow.nats.client.connect(nats_url) as client:
        yield jetarrow.nats.jetstream.new(client)


async def _table(stream: str, js: JetStream) -> pa.Table:
    table: pa.Table = await js.read(stream).read_all()
    return table


async def test_publish_batch_and_read_see_the_messages_of_the_other_face(
    successor: JetStream, js: JetStreamContext, stream: str
) -> None:
    await successor.publish(f"{stream}.a", b"first")
    result = await successor.publish_batch(f"{stream}.b", [b"x", b"y"])
    assert (result.stream, result.stored, result.ok) == (stream, 2, True)
    await js.publish(f"{stream}.c", b"last")
    assert (await _table(stream, successor))["data"].to_pylist() == [b"first", b"x", b"y", b"last"]


async def test_latest_reads_the_last_message_of_each_subject(successor: JetStream, stream: str) -> None:
    for number in range(4):
        await successor.publish(f"{stream}.{number % 2}", b"%d" % number)
    assert (await successor.latest(stream).read_all())["data"].to_pylist() == [b"2", b"3"]


async def test_publish_table_and_sink_round_trip(successor: JetStream, stream: str, tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3]})
    await successor.publish_table(table, f"{stream}.{{id}}")
    result = await successor.to_parquet(stream, tmp_path / "sink", schema=table.schema).run()
    assert result.rows == 3
    assert pyarrow.parquet.read_table(next((tmp_path / "sink").glob("*.parquet")))["id"].to_pylist() == [1, 2, 3]


async def test_publisher_and_lag(successor: JetStream, stream: str) -> None:
    async with successor.publisher(f"{stream}.a") as publisher:
        futures = [await publisher.publish(b"%d" % number) for number in range(3)]
    assert [(await future).seq for future in futures] == [1, 2, 3]
    await successor.create_consumer(stream, "c", ack_policy="explicit")
    assert pa.table(await successor.lag(stream)).to_pylist()[0]["num_pending"] == 3


async def test_fetch_batch_of_a_consumer(successor: JetStream, stream: str) -> None:
    await successor.publish_batch(f"{stream}.a", [b"x", b"y"])
    consumer = await successor.create_consumer(stream, "c", ack_policy="explicit")
    batch = await consumer.fetch_batch(2)
    assert len(batch) == 2


async def test_data_verbs_have_the_prefix_of_the_context(nats_url: str) -> None:
    async with await jetarrow.nats.client.connect(nats_url) as client:
        js = jetarrow.nats.jetstream.new(client, domain="hub")
        assert js._context is js._context
        assert js._context._api.prefix == "$JS.hub.API"


@pytest.mark.parametrize("name", VERBS)
def test_data_verb_has_signature_and_docstring_of_the_original(name: str) -> None:
    verb, original = getattr(JetStream, name), getattr(JetStreamContext, name)
    assert inspect.signature(verb) == inspect.signature(original)
    assert verb.__doc__ == original.__doc__
    assert verb.__name__ == name


def test_data_verbs_are_the_documented_ones() -> None:
    assert {"publish_batch", "publish_table", "publisher", "read", "latest", "lag", "pipe"} <= set(VERBS)
    assert {"to_parquet", "to_delta", "to_iceberg", "consumer_group", "create_consumer_group"} <= set(VERBS)
