"""A source and a target."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from jetarrow.jetstream.context import JetStreamContext


@pytest.fixture
async def target(js: JetStreamContext, stream: str) -> AsyncIterator[str]:
    """A stream that takes atomic batches; `stream` is the source."""
    name = f"{stream}_OUT"
    await js.add_stream(name=name, subjects=[f"{name}.>"], allow_atomic=True)
    yield name
    await js.delete_stream(name)
