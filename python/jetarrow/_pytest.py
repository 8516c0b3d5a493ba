"""The pytest plugin: a real NATS server as a fixture. Every pytest run loads it, so imports are deferred."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .server import NatsServer


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    """A running `jetarrow.server.NatsServer` with JetStream, one per session (with xdist: per worker)."""
    from .server import NatsServer

    with NatsServer() as server:
        yield server


@pytest.fixture(scope="session")
def nats_url(nats_server: NatsServer) -> str:
    """The address of `nats_server`, for `jetarrow.connect`."""
    return nats_server.url
