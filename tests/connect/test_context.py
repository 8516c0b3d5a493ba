"""`connect(context=...)`: the context files of the `nats` tool, written by the tool itself."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.core import context_files
from jetarrow.errors import UnsupportedError
from jetarrow.server import NatsServer

CONFIG = """
jetstream { domain: hub }
accounts {
  A { jetstream: enabled, users: [{ user: ann, password: "s3cret-word" }] }
}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(config=CONFIG) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NATS_CONTEXT", raising=False)
    return tmp_path


@pytest.fixture
def tool(nats_tool: str, home: Path) -> Callable[..., str]:
    def run(*args: str) -> str:
        done = subprocess.run(
            [nats_tool, *args], capture_output=True, text=True, timeout=30, check=True, env={**os.environ}
        )
        return done.stdout

    return run


def written(home: Path, name: str, **fields: Any) -> None:
    folder = home / "nats" / "context"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(fields), "utf-8")


def save(tool: Callable[..., str], server: NatsServer, name: str, *more: str) -> None:
    tool("context", "save", name, "-s", server.url, "--user", "ann", "--password", "s3cret-word", *more)


async def test_connect_with_context_of_nats_tool(server: NatsServer, tool: Callable[..., str]) -> None:
    save(tool, server, "prod", "--js-domain", "hub", "--inbox-prefix", "_MINE", "--description", "ours")
    async with await jetarrow.connect(context="prod") as nc:
        assert nc.new_inbox().startswith("_MINE.")
        assert (await nc.jetstream().account_info()).domain == "hub"
        assert nc.jetstream().get_options()["api_prefix"] == "$JS.hub.API"
        assert nc.jsm().get_options()["api_prefix"] == "$JS.hub.API"
        assert nc.jetstream(domain="leaf").get_options()["api_prefix"] == "$JS.leaf.API"
        assert nc.jetstream(prefix="$JS.API").get_options()["api_prefix"] == "$JS.API"
    with jetarrow.sync.connect(context="prod") as there:
        assert there.jetstream().account_info().domain == "hub"


async def test_connect_with_selected_context(
    server: NatsServer, tool: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tool, server, "one")
    save(tool, server, "two")
    tool("context", "select", "one")
    assert context_files.names() == ["one", "two"]
    assert context_files.selected() == "one"
    async with await jetarrow.connect(context=True) as nc:
        assert nc.is_connected
    monkeypatch.setenv("NATS_CONTEXT", "two")
    assert context_files.load().name == "two"
    monkeypatch.setenv("NATS_CONTEXT", "three")
    with pytest.raises(FileNotFoundError, match=r"context 'three' does not exist in .*: the contexts are one, two"):
        await jetarrow.connect(context=True)


async def test_options_of_the_call_override_context(server: NatsServer, home: Path, closed_port: int) -> None:
    login = {"user": "ann", "password": "s3cret-word"}
    written(home, "away", url=f"nats://127.0.0.1:{closed_port}", **login, inbox_prefix="_MINE")
    async with await jetarrow.connect(server.url, context="away", inbox_prefix="_OTHER") as nc:
        assert nc.new_inbox().startswith("_OTHER.")
    written(home, "wrong", url=server.url, user="ann", password="not it")
    async with await jetarrow.connect(context="wrong", password="s3cret-word") as nc:
        assert nc.is_connected
    # Another kind of credentials replaces all of the context's, and so does a user in the address.
    written(home, "both", url=server.url, token="t", **login)
    assert merged(servers=server.url, token="mine") == {"servers": server.url, "token": "mine"}
    assert merged(servers="nats://bob:x@h") == {"servers": "nats://bob:x@h"}
    assert merged(servers=["nats://h"]) == {"servers": ["nats://h"], "token": "t", **login}


def merged(**given: Any) -> dict[str, Any]:
    names = {"user", "password", "token", "user_credentials", "nkeys_seed"}
    options = {**dict.fromkeys(names), **given}
    context_files.merge(options, context_files.load("both"))
    return {name: value for name, value in options.items() if value is not None}


def test_context_expands_paths(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("KEYS", "/keys")
    written(home, "files", creds="$KEYS/a.creds", ca="~/ca.pem", cert="/c.pem", key="/k.pem", tls_first=True)
    found = context_files.load("files").connect
    assert found["user_credentials"] == "/keys/a.creds"
    assert found["tls"] == jetarrow.TLS(ca="/home/ann/ca.pem", cert="/c.pem", key="/k.pem")
    assert found["tls_handshake_first"] is True


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nsc", "nsc://o/a/u"),
        ("socks_proxy", "socks://h:1"),
        ("user_jwt", "secret"),
        ("jetstream_event_prefix", "e"),
        ("windows_cert_store", "user"),
        ("what_comes_later", ["x"]),
        ("creds", "op://vault/secret/x"),
    ],
)
async def test_unsupported_context_field_raises_with_its_name(home: Path, field: str, value: object) -> None:
    written(home, "odd", url="nats://127.0.0.1:1", **{field: value})
    with pytest.raises(UnsupportedError, match=f"context 'odd'.*field '{field}'") as refused:
        await jetarrow.connect(context="odd")
    assert "secret" not in str(refused.value)


async def test_invalid_context_file_raises(home: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"context 'prod' does not exist in .*: no context exists"):
        await jetarrow.connect(context="prod")
    with pytest.raises(FileNotFoundError, match=r"no context is selected: .*NATS_CONTEXT"):
        await jetarrow.connect(context=True)
    for name in ("../x", "a/b", "..", "a\nb"):
        with pytest.raises(ValueError, match="invalid context name"):
            await jetarrow.connect(context=name)
    written(home, "numbers", user=5)
    with pytest.raises(ValueError, match="field 'user' must be a string"):
        await jetarrow.connect(context="numbers")
    written(home, "two", jetstream_domain="a", jetstream_api_prefix="b")
    with pytest.raises(ValueError, match="are both set; remove one"):
        await jetarrow.connect(context="two")
    (home / "nats" / "context" / "bad.json").write_text('{"password": "s3cret-word', "utf-8")
    with pytest.raises(ValueError, match="is not JSON") as bad:
        await jetarrow.connect(context="bad")
    assert "s3cret-word" not in "".join(map(str, (bad.value, bad.value.__cause__)))


async def test_context_errors_contain_no_secret(server: NatsServer, home: Path) -> None:
    written(home, "prod", url=server.url, user="ann", password="wr0ng-word")
    assert "wr0ng-word" not in repr(context_files.load("prod"))
    with pytest.raises(jetarrow.errors.Error) as refused:
        await jetarrow.connect(context="prod", allow_reconnect=False, error_cb=_ignore)
    assert "wr0ng-word" not in repr(refused.value)


async def _ignore(error: Exception) -> None:
    pass
