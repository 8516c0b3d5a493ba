"""A stream on a server whose store can be restored from a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator

import jetarrow
import pytest
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.server import NatsServer

from .tools import STREAM


@pytest.fixture
async def js(own_server: NatsServer) -> AsyncIterator[JetStreamContext]:
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        await js.add_stream(name=STREAM, subjects=[f"{STREAM}.>"])
        yield js
