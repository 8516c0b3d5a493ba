"""One connection per process and server set, its name, and contexts of the nats tool."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from jetarrow.server import NatsServer
from jetarrow.spark import connection
from jetarrow.spark.options.connection import CONNECT_OPTIONS, ConnectOptions, connect_options
from jetarrow.spark.options.option_texts import OptionTexts


class FakeClient:
    is_closed = False

    def close(self) -> None:
        pass


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


@pytest.fixture
def within(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`within(**properties)`: from now on this is a task with these local properties."""

    def within(**properties: str) -> None:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        monkeypatch.setattr(connection.TaskContext, "get", lambda: SimpleNamespace(getLocalProperty=given.get))

    return within


def query(name: str) -> dict[str, str]:
    """Local properties that Spark sets for a task of a streaming query."""
    about = f"{name}\nid = {name}-id\nrunId = r\nbatch = 7" if name else "\nid = -id\nrunId = r\nbatch = 7"
    return {"spark_app_name": "shop", "spark_job_description": about, "sql_streaming_queryId": f"{name}-id"}


def test_connection_name_contains_application_and_query(
    opened: list[ConnectOptions], within: Callable[..., None]
) -> None:
    options = ConnectOptions(("nats://a",))
    connection.shared_client(options)
    within(spark_app_name="shop")
    first = connection.shared_client(options)
    within(**query("orders \u00e0 la carte"))
    assert connection.shared_client(options) is not first
    within(**query(""))
    connection.shared_client(options)
    within(spark_app_name="shop")
    assert connection.shared_client(options) is first
    connection.shared_client(ConnectOptions(("nats://a",), name="mine"))
    names = [None, "jetarrow-spark shop", "jetarrow-spark shop orders _ la carte", "jetarrow-spark shop -id", "mine"]
    assert [one.name for one in opened] == names


def test_few_queries_have_connections_of_their_own(
    opened: list[ConnectOptions], within: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[FakeClient] = []
    monkeypatch.setattr(FakeClient, "close", lambda self: closed.append(self))
    other = connection.shared_client(ConnectOptions(("nats://b",)))
    made = []
    for number in range(6):
        within(**query(f"q{number}"))
        made.append(connection.shared_client(ConnectOptions(("nats://a",))))
    assert closed == made[:2]
    assert connection.shared_client(ConnectOptions(("nats://a",))) is made[5]
    assert other not in closed


def test_a_context_of_the_nats_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def given(**options: str) -> ConnectOptions:
        return connect_options(OptionTexts(options, CONNECT_OPTIONS))

    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with NatsServer(config='authorization { user: "u", password: "p" }\n') as server:
        (folder / "prod.json").write_text(f'{{"url": "{server.url}", "user": "u", "password": "p"}}')
        with pytest.raises(ValueError, match="JETARROW_SECRET_CONTEXTS is not set; the operator can set"):
            connection.connect(given(context="prod"))
        monkeypatch.setenv("JETARROW_SECRET_CONTEXTS", "pro*")
        with connection.connect(given(context="prod")) as client:
            assert client.is_connected
        with pytest.raises(
            ValueError, match=r"option 'context': context 'provisional' does not exist in .*: the contexts are prod"
        ):
            connection.connect(given(context="provisional"))
        with pytest.raises(ValueError, match=r"context 'dev' is not allowed here: .* allows pro"):
            connection.connect(given(context="dev"))
    # Otherwise a user could send the credentials of a context to another server.
    for name in ("servers", "user", "credsFile"):
        with pytest.raises(ValueError, match=f"'{name}': excludes 'context', which has servers and credentials"):
            given(context="prod", **{name: "x"})
