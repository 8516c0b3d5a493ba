"""Fixtures of the tests of consumer groups."""

from __future__ import annotations

import pytest
from jetarrow.js.client import JetStreamContext


@pytest.fixture
async def orders(own: JetStreamContext) -> JetStreamContext:
    """A context on a server of the test's own, with the stream ORDERS."""
    await own.add_stream(name="ORDERS", subjects=["orders.>"])
    return own
