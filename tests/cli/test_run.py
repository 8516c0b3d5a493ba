"""Behaviour of all subcommands: help, errors, secrets, the server address."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from jetarrow.cli import main
from jetarrow.cli.app import SUBCOMMANDS, application, subcommand_of
from jetarrow.server import NatsServer

from tests.cli.tools import Command

SECRET = "correct-horse-battery"


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name), found


ALL = dict(commands(typer.main.get_command(application())))


def test_what_there_is() -> None:
    assert {path[0] for path in ALL} >= {"serve", "publish", "load", "read", "top", "bench"}
    assert {path[1] for path in ALL if path[0] == "kv"} >= set("get put create del purge ls watch history".split())  # noqa: SIM905


def test_a_call_loads_its_subcommand_only() -> None:
    program = """
import sys
from jetarrow.cli import app, main
main(["kv", "--help"])
modules = [module for modules in app.SUBCOMMANDS.values() for module in modules]
print([module for module in modules if f"jetarrow.cli.{module}" in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "['kv']"


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_a_subcommand_alone_is_the_same(name: str) -> None:
    assert subcommand_of([name, "ls", "--json"]) == name
    alone = dict(commands(typer.main.get_command(application(name))))
    assert {path[0] for path in alone} <= {name, "man"}
    expected = {path: command for path, command in ALL.items() if path[0] in {one[0] for one in alone}}
    assert list(alone) == list(expected)
    for path, command in alone.items():
        names = [parameter.opts for parameter in command.params]
        assert names
        assert names == [parameter.opts for parameter in ALL[path].params]


def test_all_subcommands_are_loaded_for_help_and_suggestions() -> None:
    assert {path[0] for path in ALL} == {*SUBCOMMANDS, "man"}
    for arguments in ([], ["--server", "stream", "kv"], ["man"], ["nonsense"], ["--help"]):
        assert subcommand_of(arguments) is None


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_has_an_example_that_can_be_parsed(path: tuple[str, ...], cli: Command) -> None:
    done = cli(*path, "--help")
    assert done.code == 0
    assert "Example" in done.out
    first, *typed = shlex.split(ALL[path].example.partition(" > ")[0])
    assert [first, *typed[: len(path)]] == ["jetarrow", *path]
    if path != ("load",) and path != ("object", "put"):  # the examples name files that do not exist here
        ALL[path].make_context("jetarrow", typed[len(path) :])


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_a_misspelt_option_is_wrong_usage_and_names_the_nearest_one(path: tuple[str, ...], cli: Command) -> None:
    done = cli(*path, "--jsn")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "--json" in done.err
    assert done.err.endswith(f"See jetarrow {' '.join(path)} --help\n")


def test_usage(cli: Command) -> None:
    assert cli("--version").out.startswith("jetarrow 0.")
    assert cli("nonsense") == (2, "", "error: No such command 'nonsense'. See jetarrow --help\n")
    for typed in ((), ("stream",)):
        done = cli(*typed)
        assert done.code == 2
        assert "Commands" in done.out + done.err


def test_options_stand_before_or_behind(cli: Command, nats_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    assert cli("--server", nats_url, "--json", "stream", "ls").code == 0
    assert cli("stream", "ls", "--server", nats_url, "--json").code == 0
    assert cli("stream", "ls", "--timeout", "300ms").code == 1


def test_no_server(cli: Command, closed_port: int) -> None:
    done = cli("stream", "ls", "--server", f"nats://127.0.0.1:{closed_port}", "--timeout", "1s")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert str(closed_port) in done.err


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "typer" else there(name, *more)
    )
    assert main(["stream", "ls"]) == 1
    assert capsys.readouterr().err == 'jetarrow: typer not installed: run pip install "jetarrow[cli]"\n'


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    config = f'authorization {{ user: "ann", password: "{SECRET}" }}'
    with NatsServer(config=config) as server:
        yield server.url


def test_passwords(cli: Command, guarded: str, away: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", guarded)
    assert cli("stream", "ls").code == 1
    file = away / "password"
    file.write_text(SECRET + "\n", "utf-8")
    assert cli("stream", "ls", "--user", "ann", "--password-file", str(file)).code == 0
    no_way = cli("stream", "ls", "--user", "ann")
    assert (no_way.code, "--password-file" in no_way.err) == (2, True)
    monkeypatch.setenv("NATS_PASSWORD", SECRET)
    assert cli("stream", "ls", "--user", "ann").code == 0
    monkeypatch.setenv("NATS_PASSWORD", SECRET + "wrong")
    refused = cli("stream", "ls", "--user", "ann")
    assert (refused.code, SECRET in refused.err) == (1, False)


def test_a_password_in_the_address(cli: Command, guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password in the environment is private; one on the command line is visible to other users."""
    monkeypatch.setenv("NATS_URL", guarded.replace("//", f"//ann:{SECRET}@"))
    assert cli("stream", "ls").code == 0
    for typed in (guarded.replace("//", f"//ann:{SECRET}@"), guarded.replace("//", f"//x,{SECRET}@")):
        refused = cli("stream", "ls", "--server", typed)
        assert refused.code == 2
        assert SECRET not in refused.err + refused.out
        assert "--password-file" in refused.err


def test_serve_on_a_store_in_use_is_refused(cli: Command, tmp_path: Path) -> None:
    with NatsServer(tmp_path / "store") as server:
        done = cli("serve", "--store-dir", str(tmp_path / "store"), "--port", "0")
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
        assert f"nats-server process {server.pid}" in done.err
