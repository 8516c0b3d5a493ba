"""A cluster of three servers with a user of the system account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import jetarrow
import pytest
from jetarrow.aio.client import Client
from jetarrow.server import NatsServer

from ..tools import cluster
from .tools import ACCOUNTS, USER, ready


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, NatsServer]]:
    with cluster(more=ACCOUNTS) as servers:
        ready(servers)
        yield servers


@pytest.fixture
async def admin(servers: dict[str, NatsServer]) -> AsyncIterator[Client]:
    """A connection to n0 of a user of the system account."""
    async with await jetarrow.connect(servers["n0"].url, **USER) as nc:
        yield nc


@pytest.fixture
async def app(servers: dict[str, NatsServer]) -> AsyncIterator[Client]:
    """A connection to n0 of a user of the default account."""
    async with await jetarrow.connect(servers["n0"].url, name="app") as nc:
        yield nc
