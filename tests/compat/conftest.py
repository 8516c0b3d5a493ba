"""Every scenario runs twice: with nats-py, which is the reference, and with jetarrow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from .face import Face


@pytest.fixture(params=["nats", "jetarrow"])
async def face(request: pytest.FixtureRequest, nats_url: str) -> AsyncIterator[Face]:
    face = Face(request.param, nats_url)
    yield face
    await face.close()


@pytest.fixture
async def nc(face: Face) -> Any:
    return await face.connect()


@pytest.fixture
def js(nc: Any) -> Any:
    return nc.jetstream()


@pytest.fixture
def msg_class(face: Face) -> Any:
    return face.load("aio.msg").Msg


@pytest.fixture
async def ours(nats_url: str) -> AsyncIterator[Face]:
    """jetarrow alone, for intended differences from nats-py."""
    face = Face("jetarrow", nats_url)
    yield face
    await face.close()
