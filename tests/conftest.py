"""Fixtures for all tests: a real server per worker (the plugin's), and names that no other test uses."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer


@pytest.fixture
async def js(nats_url: str) -> AsyncIterator[JetStreamContext]:
    async with await jetarrow.connect(nats_url) as nc:
        yield nc.jetstream()


@pytest.fixture
def sync_js(nats_url: str) -> Iterator[jetarrow.sync.JetStream]:
    with jetarrow.sync.connect(nats_url) as nc:
        yield nc.jetstream()


@pytest.fixture
def stream(nats_url: str) -> Iterator[str]:
    """A new stream; it takes the subjects `<its name>.>`."""
    name = f"T{uuid.uuid4().hex[:10]}"
    with jetarrow.sync.connect(nats_url) as nc:
        js = nc.jetstream()
        js.add_stream(name=name, subjects=[f"{name}.>"])
        yield name
        js.delete_stream(name)


@pytest.fixture
def own_server() -> Iterator[NatsServer]:
    """A server that the test may kill."""
    with NatsServer() as server:
        yield server
