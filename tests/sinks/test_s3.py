"""Sinks in an object store: an S3-compatible server on loopback."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import boto3
import deltalake
import pyarrow.dataset as ds
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkError, SinkLockedError
from pyarrow.fs import FileSystem, FileType
from pyiceberg.catalog.sql import SqlCatalog

from ..tools import free_port, store, wait_until
from .iceberg_tools import NAME, seqs
from .tools import SCHEMA, fill, readings


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """In a process of its own: deltalake holds the GIL while it writes a file that is not the table's."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: listens(port), 60)
            yield f"127.0.0.1:{port}"
        finally:
            server.kill()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in (("ACCESS_KEY_ID", "KEY"), ("SECRET_ACCESS_KEY", "s3cret"), ("REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    name = f"b{uuid.uuid4().hex[:10]}"
    client = boto3.client("s3", endpoint_url=f"http://{endpoint}", region_name="us-east-1")
    client.create_bucket(Bucket=name)
    return name


def uri(bucket: str, endpoint: str) -> str:
    options = {"endpoint_override": endpoint, "scheme": "http", "region": "us-east-1"}
    return f"s3://{bucket}/archive/readings?{urlencode(options)}"


async def test_parquet(js: JetStreamContext, stream: str, bucket: str, endpoint: str) -> None:
    path = uri(bucket, endpoint)
    await fill(js, stream, 21)
    sink = js.to_parquet(stream, path, schema=SCHEMA, rows=8)
    assert repr(sink) == f"<Sink of stream {stream} to s3://{bucket}/archive/readings>"
    await sink.step()
    with pytest.raises(SinkLockedError, match="s3://"):
        await js.to_parquet(stream, path).run()
    assert (await sink.run()).rows == 12
    await fill(js, stream, 31, start=21)
    assert (await js.to_parquet(stream, path, schema=SCHEMA).run()).first_seq == 21
    files, base = FileSystem.from_uri(path)
    # The file of a killed writer.
    left = f"{base}/{31:020d}-0123abcd.parquet"
    with files.open_output_stream(left) as file:
        file.write(b"half")
    async with js.to_parquet(stream, path, schema=SCHEMA, rows=100) as again:
        assert await again.compact() == 3
    assert files.get_file_info(left).type == FileType.NotFound
    assert files.get_file_info(f"{base}/_jetarrow/lock.json").type == FileType.NotFound
    found = ds.dataset(base, filesystem=files, format="parquet", partitioning="hive").to_table()
    assert sorted(found["seq"].to_pylist()) == sorted(found["id"].to_pylist()) == list(range(1, 31))


async def test_no_bucket(js: JetStreamContext, stream: str, bucket: str, endpoint: str) -> None:
    await fill(js, stream, 3)
    with pytest.raises(SinkError, match=f"s3://{bucket}x/archive") as refused:
        await js.to_parquet(stream, uri(f"{bucket}x", endpoint)).run()
    assert "s3cret" not in str(refused.value)


async def test_delta(js: JetStreamContext, stream: str, bucket: str, endpoint: str) -> None:
    options = {"AWS_ENDPOINT_URL": f"http://{endpoint}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    await fill(js, stream, 21)
    (await js.publish_batch(f"{stream}.a", [b"no"])).raise_for_errors()
    table = f"s3://{bucket}/delta"
    for rows in (20, 0):
        result = await js.to_delta(stream, table, schema=SCHEMA, storage_options=options, rows=15).run()
        assert (result.rows, result.corrupt) == (rows, bool(rows))
    found = deltalake.DeltaTable(table, storage_options=options).to_pyarrow_table()
    assert sorted(found["seq"].to_pylist()) == list(range(1, 21))


async def test_iceberg(js: JetStreamContext, stream: str, bucket: str, endpoint: str, tmp_path: Path) -> None:
    """Rows that cannot be decoded are in the bucket too; those of an incomplete commit are removed there."""
    options = {"s3.endpoint": f"http://{endpoint}", "s3.region": "us-east-1"}
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("test", uri=uri, warehouse=f"s3://{bucket}/tables", **options)
    catalog.create_namespace("db")
    await store(js, f"{stream}.a", [*readings(1, 21), b"no"])
    assert await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA, rows=10).run() == (20, 2, 1, 20, 1)
    client = boto3.client("s3", endpoint_url=f"http://{endpoint}", region_name="us-east-1")

    def corrupt() -> list[str]:
        found = client.list_objects_v2(Bucket=bucket).get("Contents", [])
        return [item["Key"] for item in found if re.search(r"-corrupt/.*\.parquet", item["Key"])]

    (first,) = corrupt()
    left = f"{first.rpartition('/')[0]}/{4:020d}-{'0' * 32}.parquet"
    client.put_object(Bucket=bucket, Key=left, Body=b"incomplete")
    await store(js, f"{stream}.a", [b"no"])
    assert (await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()).corrupt == 1
    assert len(corrupt()) == 2
    assert left not in corrupt()
    assert seqs(catalog) == list(range(1, 21))
    broken = SqlCatalog("test", uri=uri, **{**options, "s3.endpoint": "http://127.0.0.1:1"})
    with pytest.raises(SinkError, match=r"could not open db\.rows"):
        await js.to_iceberg(stream, NAME, catalog=broken, schema=SCHEMA).run()
