"""`jetarrow context`: jetarrow and the nats tool read and write the same context files."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from tests.cli.tools import Command
from tests.tools import fill_sync

SECRET = "correct-horse-battery"


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """Starts a server that requires a password and returns its address."""
    config = f'authorization {{ user: "ann", password: "{SECRET}" }}'
    with NatsServer(config=config) as server:
        with jetarrow.sync.connect(server.url, user="ann", password=SECRET) as nc:
            nc.jetstream().add_stream(name="GUARDED")
        yield server.url


@pytest.fixture
def folder(away: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NATS_URL")
    return Path(os.environ["XDG_CONFIG_HOME"]) / "nats"


def test_contexts(cli: Command, guarded: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no contexts" in cli("context", "ls").err
    Path("password").write_text(SECRET + "\n", "utf-8")
    options = ["--server", guarded, "--user", "ann", "--password-file", "password", "--description", "for tests"]
    made = cli("context", "add", "prod", *options)
    assert (made.code, made.out) == (0, "created context prod\n")
    file = folder / "context" / "prod.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text("utf-8")) == {
        "description": "for tests",
        "url": guarded,
        "user": "ann",
        "password": SECRET,
    }
    assert cli("context", "add", "prod", *options).code == 1
    shown = cli("context", "show", "prod")
    assert guarded in shown.out
    assert SECRET not in shown.out + cli("context", "show", "prod", "--json").out
    assert [row["name"] for row in cli("stream", "ls", "--context", "prod", "--json").json] == ["GUARDED"]
    assert cli("context", "select", "prod").code == 0
    assert cli("context", "ls", "--json").json == [
        {"name": "prod", "selected": True, "url": guarded, "description": "for tests"}
    ]
    assert [row["name"] for row in cli("stream", "ls", "--json").json] == ["GUARDED"]
    monkeypatch.setenv("NATS_CONTEXT", "prod")
    (folder / "context.txt").write_text("other", "utf-8")
    assert [row["name"] for row in cli("stream", "ls", "--json").json] == ["GUARDED"]
    # An explicit --server gets no credentials from a selected context.
    refused = cli("stream", "ls", "--server", guarded)
    assert (refused.code, "credentials" in refused.err) == (1, True)
    monkeypatch.delenv("NATS_CONTEXT")
    cli("context", "select", "prod")
    # NATS_CONTEXT has priority over the selected context, and a command line option over the environment.
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    assert cli("stream", "ls", "--timeout", "300ms").code == 1
    monkeypatch.setenv("NATS_USER", "somebody")
    assert cli("stream", "ls", "--context", "prod").code == 0
    missing = cli("stream", "ls", "--context", "test")
    assert (missing.code, "prod" in missing.err) == (1, True)
    assert cli("context", "show", "test").code == 1
    assert cli("context", "rm", "prod", "--yes").code == 0
    assert not file.exists()
    assert not (folder / "context.txt").exists()


def test_both_tools_share_them(cli: Command, guarded: str, folder: Path, nats_tool: str) -> None:
    def tool(*arguments: str) -> str:
        done = subprocess.run([nats_tool, *arguments], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    Path("password").write_text(SECRET, "utf-8")
    cli("context", "add", "ours", "--server", guarded, "--user", "ann", "--password-file", "password", "--select")
    assert tool("stream", "ls", "--names").split() == ["GUARDED"]
    tool("context", "add", "theirs", "--server", guarded, "--user", "ann", "--password", SECRET, "--select")
    assert [row["selected"] for row in cli("context", "ls", "--json").json] == [False, True]
    assert [row["name"] for row in cli("stream", "ls", "--json").json] == ["GUARDED"]
    assert SECRET not in cli("context", "show", "theirs").out
    cli("context", "select", "ours")
    assert "ours" in tool("context", "ls", "--names")


def test_consumer_lag(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 7)
    sync_js.add_consumer(stream, durable_name="billing")
    (row,) = cli("consumer", "lag", stream, "--json").json
    assert (row["consumer"], row["num_pending"], row["behind"] > 0) == ("billing", 7, True)
    assert "billing" in cli("consumer", "lag", stream).out
    assert stream in cli("consumer", "lag").out
    assert cli("consumer", "lag", "NONE").code == 1
