"""One connection per process and server set, without a server."""

from __future__ import annotations

import os

import pytest
from jetarrow.spark import connection


class FakeClient:
    is_closed = False


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The server sets connected to."""
    found: list[tuple[str, ...]] = []

    def connect(servers: tuple[str, ...]) -> FakeClient:
        found.append(servers)
        return FakeClient()

    monkeypatch.setattr(connection, "connect", connect)
    monkeypatch.setattr(connection, "_clients", {})
    return found


def test_one_per_server_set(opened: list[tuple[str, ...]]) -> None:
    first = connection.shared_client(("nats://a",))
    assert connection.shared_client(("nats://a",)) is first
    assert connection.shared_client(("nats://b",)) is not first
    assert opened == [("nats://a",), ("nats://b",)]


def test_a_forked_process_has_its_own(opened: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    first = connection.shared_client(("nats://a",))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert connection.shared_client(("nats://a",)) is not first
    assert len(opened) == 2


def test_a_closed_one_is_replaced(opened: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    first = connection.shared_client(("nats://a",))
    monkeypatch.setattr(first, "is_closed", True)
    second = connection.shared_client(("nats://a",))
    assert second is not first
    assert connection.shared_client(("nats://a",)) is second
