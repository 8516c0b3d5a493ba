"""Fixtures of the tests that break things."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from jetarrow.server import NatsServer

from .tools import Restarts, Ticker

if not sys.platform.startswith("linux"):
    collect_ignore_glob = ["test_*"]  # signals and /proc


@pytest.fixture
async def ticker() -> AsyncIterator[Ticker]:
    ticker = Ticker()
    task = asyncio.ensure_future(ticker.run())
    yield ticker
    task.cancel()


@pytest.fixture
def restarts(own_server: NatsServer) -> Iterator[Restarts]:
    restarts = Restarts(own_server)
    yield restarts
    restarts.wait()
