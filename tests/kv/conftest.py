"""Fixtures: a separate bucket for each test, for the asyncio and the blocking API."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import jetarrow.sync
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.kv import KeyValue


@pytest.fixture
def bucket(nats_url: str) -> Iterator[str]:
    """Returns an unused bucket name; the bucket is deleted after the test."""
    name = f"B{uuid.uuid4().hex[:10]}"
    yield name
    with jetarrow.sync.connect(nats_url) as nc:
        for there in list(nc.jetstream().key_value_names()):
            if there.startswith(name):
                nc.jetstream().delete_key_value(there)


@pytest.fixture
async def kv(js: JetStreamContext, bucket: str) -> KeyValue:
    """Creates a bucket that keeps five revisions."""
    return await js.create_key_value(bucket=bucket, history=5)
