"""A bucket that no other test uses."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.object_store import ObjectStore


@pytest.fixture
def bucket() -> str:
    return f"B{uuid.uuid4().hex[:10]}"


@pytest.fixture
async def store(js: JetStreamContext, bucket: str) -> AsyncIterator[ObjectStore]:
    yield await js.create_object_store(bucket)
    await js.delete_object_store(bucket)
