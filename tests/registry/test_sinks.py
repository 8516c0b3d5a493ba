"""Archives of streams whose payloads name their schema in a registry."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import duckdb
import jetarrow
import jetarrow.duckdb
import jetarrow.polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SchemaRegistryError

from .server import Answer, RegistryServer

OLD: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "note", "type": "string"}]}


async def publish(js: JetStreamContext, stream: str, registry: RegistryServer, schema: Any, *ids: int) -> None:
    table = pa.table({"id": ids, **({} if schema is OLD else {"note": ["x"] * len(ids)})})
    result = await js.publish_table(table, f"{stream}.a", format="avro", schema=schema, registry=registry.url)
    result.raise_for_errors()


def to_parquet(js: JetStreamContext, stream: str, folder: Path, registry: RegistryServer, **options: Any) -> Any:
    return js.to_parquet(stream, folder, format="avro", registry=registry.url, **options)


async def test_the_schema_of_the_first_start_stays(
    js: JetStreamContext, stream: str, registry: RegistryServer, tmp_path: Path
) -> None:
    await publish(js, stream, registry, OLD, 1, 2)
    assert (await to_parquet(js, stream, tmp_path, registry).run()).rows == 2
    # The stream begins with another schema now; the archive keeps its own.
    await js.purge_stream(stream)
    await publish(js, stream, registry, NEW, 3)
    assert (await to_parquet(js, stream, tmp_path, registry, on_data_loss="warn").run()).rows == 1
    table = pq.read_table(tmp_path)
    assert (sorted(table["id"].to_pylist()), "note" in table.column_names) == ([1, 2, 3], False)


async def test_protobuf_is_kept_too(
    js: JetStreamContext, stream: str, registry: RegistryServer, tmp_path: Path
) -> None:
    from google.protobuf.timestamp_pb2 import Timestamp

    schema = jetarrow.ProtobufSchema.of(Timestamp)
    table = pa.table({"seconds": [1, 2], "nanos": pa.array([3, 4], pa.int32())})
    for count in (2, 4):
        result = await js.publish_table(table, f"{stream}.a", format="protobuf", schema=schema, registry=registry.url)
        result.raise_for_errors()
        await js.to_parquet(stream, tmp_path, format="protobuf", registry=registry.url).run()
        assert pq.read_table(tmp_path)["seconds"].to_pylist() == [1, 2] * (count // 2)


@pytest.mark.parametrize("durable", [None, "archive"])
async def test_delta(
    js: JetStreamContext, stream: str, registry: RegistryServer, tmp_path: Path, durable: str | None
) -> None:
    await publish(js, stream, registry, OLD, 1)
    await publish(js, stream, registry, NEW, 2)
    await js.publish(f"{stream}.a", b"no frame")
    options: dict[str, Any] = {"format": "avro", "schema": OLD, "registry": registry.url, "durable": durable}
    result = await js.to_delta(stream, tmp_path / "orders", **options).run()
    assert (result.rows, result.corrupt) == (2, 1)
    assert sorted(DeltaTable(tmp_path / "orders").to_pyarrow_table()["id"].to_pylist()) == [1, 2]


async def test_a_registry_that_refuses_commits_nothing(
    js: JetStreamContext, stream: str, registry: RegistryServer, tmp_path: Path
) -> None:
    await publish(js, stream, registry, OLD, 1)
    registry.prepared["/schemas/ids/1"] = [Answer(403)]
    place = jetarrow.SchemaRegistry(registry.url)
    sink = js.to_parquet(stream, tmp_path, format="avro", schema=OLD, registry=place)
    with pytest.raises(SchemaRegistryError, match="status 403"):
        await sink.run()
    assert (await js.to_parquet(stream, tmp_path, format="avro", schema=OLD, registry=place).run()).rows == 1


@pytest.mark.parametrize("schema", [None, OLD])
async def test_archive_and_stream_as_one_table(
    js: JetStreamContext, stream: str, registry: RegistryServer, tmp_path: Path, nats_url: str, schema: Any
) -> None:
    await publish(js, stream, registry, OLD, 1, 2)
    await to_parquet(js, stream, tmp_path, registry).run()
    await publish(js, stream, registry, NEW, 3)
    options: dict[str, Any] = {"format": "avro", "registry": registry.url, "schema": schema}
    frame = jetarrow.polars.scan(nats_url, stream, archive=tmp_path, **options)
    assert (await asyncio.to_thread(frame.collect))["id"].to_list() == [1, 2, 3]
    alone = jetarrow.polars.scan(nats_url, stream, **options)
    assert (await asyncio.to_thread(alone.select("id", "seq").collect)).rows() == [(1, 1), (2, 2), (3, 3)]
    con = duckdb.connect()
    await asyncio.to_thread(lambda: jetarrow.duckdb.register(con, "a", nats_url, stream=stream, **options))
    await asyncio.to_thread(
        lambda: jetarrow.duckdb.register(con, "b", nats_url, stream=stream, archive=tmp_path, **options)
    )
    for table in ("a", "b"):
        found = await asyncio.to_thread(lambda table=table: con.sql(f"select id from {table} order by id").fetchall())
        assert found == [(1,), (2,), (3,)]
