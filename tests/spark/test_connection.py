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

from ..tools import connections, free_port
from .tools import Here, Streams, wait_until


class FakeClient:
    is_closed = False

    def close(self) -> None:
        pass


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ConnectOptions]:
    """The options of all connections that were opened."""
    found: list[ConnectOptions] = []

    def connect(options: ConnectOptions) -> FakeClient:
        found.append(options)
        return FakeClient()

    monkeypatch.setattr(connection, "connect", connect)
    monkeypatch.setattr(connection, "_clients", {})
    return found


def given(**options: str) -> ConnectOptions:
    return connect_options(OptionTexts({"servers": "a:1", **options}, CONNECT_OPTIONS))


A, B = ConnectOptions(("nats://a",)), ConnectOptions(("nats://b",))


def test_one_per_server_set(opened: list[ConnectOptions]) -> None:
    first = connection.shared_client(A)
    assert connection.shared_client(A) is first
    assert connection.shared_client(B) is not first
    assert opened == [A, B]


def test_options_of_a_task_share_a_connection(opened: list[ConnectOptions]) -> None:
    first = connection.shared_client(given(servers="a:1,b:1"))
    same: list[dict[str, str]] = [
        {"servers": "b:1,a:1"},
        {"connectTimeoutMs": "5000"},
        {"connectionName": "mine"},
        {"jsDomain": "hub"},
        {"apiPrefix": "$JS.x.API"},
    ]
    for options in same:
        assert connection.shared_client(given(**{"servers": "a:1,b:1", **options})) is first, options
    assert len(opened) == 1


def test_credentials_and_tls_have_connections_of_their_own(opened: list[ConnectOptions]) -> None:
    alone: list[dict[str, str]] = [
        {},
        {"servers": "a:1,b:1"},
        {"servers": "tls://a:1"},
        {"user": "joe", "password": "env:NATS_JOE"},
        {"user": "joe", "password": "env:NATS_ANN"},
        {"user": "ann", "password": "env:NATS_ANN"},
        {"authToken": "env:NATS_ANN"},
        {"credsFile": "/run/secrets/a"},
        {"credsFile": "/run/secrets/b"},
        {"tlsCaFile": "/run/secrets/a"},
        {"tlsHostname": "x"},
        {"tlsHandshakeFirst": "true"},
        {"inboxPrefix": "_INBOX_joe"},
    ]
    found = [connection.shared_client(given(**options)) for options in alone]
    assert len(set(map(id, found))) == len(opened) == len(alone)
    assert [connection.shared_client(given(**options)) for options in alone] == found


def test_a_forked_process_has_its_own(opened: list[ConnectOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    first = connection.shared_client(A)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert connection.shared_client(A) is not first
    assert len(opened) == 2


def test_a_closed_one_is_replaced(opened: list[ConnectOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    first = connection.shared_client(A)
    monkeypatch.setattr(first, "is_closed", True)
    second = connection.shared_client(A)
    assert second is not first
    assert connection.shared_client(A) is second


@pytest.fixture
def within(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`within(**properties)`: from now on this is a task with these local properties."""

    def within(**properties: str) -> None:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        monkeypatch.setattr(connection.TaskContext, "get", lambda: SimpleNamespace(getLocalProperty=given.get))

    return within


def query(name: str) -> dict[str, str]:
    """Local properties that Spark sets for a task of a streaming query."""
    about = f"{name}\nid = {name}-id\nrunId = r\nbatch = 7"
    return {"spark_app_name": "shop \u00e0 la carte", "spark_job_description": about, "sql_streaming_queryId": name}


def test_connection_name_contains_the_application(opened: list[ConnectOptions], within: Callable[..., None]) -> None:
    connection.shared_client(A)
    for name in ("orders", "returns"):
        within(**query(name))
        # All queries share one.
        connection.shared_client(B)
    connection.shared_client(ConnectOptions(("nats://c",), name="mine"))
    assert [one.name for one in opened] == [None, "jetarrow-spark shop _ la carte", "mine"]


def test_tasks_with_other_options_share_one_connection_at_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_clients", {})
    monitor = free_port()
    with NatsServer(config=f"http: 127.0.0.1:{monitor}\n") as server:
        streams = Streams(server.url)
        name = streams.new()
        streams.publish(name, [b"x"] * 10)
        with_all = {"connectTimeoutMs": 4000, "connectionName": "mine", "apiPrefix": "$JS.API", "fetchBytes": "1m"}
        for options in ({}, {"readMode": "latest"}, *({key: value} for key, value in with_all.items()), with_all):
            assert Here(server.url).read(name, **options).num_rows > 0
        # Those of the planner and of the test are closed.
        wait_until(lambda: [one["name"] for one in connections(monitor)] == ["jetarrow-spark"])
        assert len(connection._clients) == 1
        for client in connection._clients.values():
            client.close()


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
