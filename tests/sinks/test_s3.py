"""Sinks in an object store: an S3-compatible server on loopback."""

from __future__ import annotations

import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from urllib.parse import urlencode

import boto3
import deltalake
import pyarrow.dataset as ds
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkError, SinkLockedError
from pyarrow.fs import FileSystem, FileType

from ..tools import free_port, wait_until
from .tools import SCHEMA, fill


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
