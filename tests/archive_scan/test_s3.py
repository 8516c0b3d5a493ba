"""Archives in an object store, and their streams, as one table."""

from __future__ import annotations

import asyncio
from typing import Any

import jetarrow.polars
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkError

from ..sinks.test_s3 import bucket, endpoint, uri
from ..sinks.tools import SCHEMA, fill

__all__ = ["bucket", "endpoint"]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
async def test_archive_and_stream_as_one_table(
    js: JetStreamContext, nats_url: str, stream: str, bucket: str, endpoint: str, kind: str
) -> None:
    options = {"AWS_ENDPOINT_URL": f"http://{endpoint}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    path = uri(bucket, endpoint) if kind == "parquet" else f"s3://{bucket}/delta"
    more: dict[str, Any] = {} if kind == "parquet" else {"storage_options": options}
    await fill(js, stream, 21)
    to = js.to_parquet if kind == "parquet" else js.to_delta
    await to(stream, path, schema=SCHEMA, rows=8, partition_by="region", **more).run()
    await fill(js, stream, 31, start=21)
    lazy = jetarrow.polars.scan(nats_url, stream, archive=path, **more)

    async def ids() -> list[int]:
        return sorted((await asyncio.to_thread(lazy.select("id").collect))["id"])

    assert await ids() == list(range(1, 31))
    async with to(stream, path, schema=SCHEMA, partition_by="region", **more) as sink:
        await sink.run()
        await fill(js, stream, 33, start=31)
    async with to(stream, path, schema=SCHEMA, rows=1, partition_by="region", **more) as sink:
        await sink.step()
    async with to(stream, path, schema=SCHEMA, rows=1000, partition_by="region", **more) as sink:
        assert await sink.compact() > 0
    assert await ids() == list(range(1, 33))
    with pytest.raises(SinkError) as refused:
        jetarrow.polars.scan(nats_url, stream, archive=f"{path.replace(bucket, bucket + 'x')}", **more)
    assert "s3cret" not in str(refused.value)
