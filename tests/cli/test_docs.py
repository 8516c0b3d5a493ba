"""docs/command.md: its sessions run one after the other and print the documented output."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from jetarrow.server import NatsServer

from tests.cli.tools import Command, command

PAGE = (Path(__file__).parents[2] / "docs" / "command.md").read_text("utf-8")
SESSIONS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?")


def steps(session: str) -> list[tuple[str, list[str]]]:
    """Yields each command of a session with its expected output lines."""
    found: list[tuple[str, list[str]]] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def test_sessions(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(SESSIONS) == 13
    with NatsServer() as server:
        monkeypatch.setenv("NATS_URL", server.url)
        for typed, expected in (step for session in SESSIONS for step in steps(session)):
            if typed.startswith("jetarrow "):
                done = cli(*shlex.split(typed)[1:])
                code, said = done.code, done.err + done.out
            else:
                # The shell runs commands with pipes or redirections.
                line = typed.replace("| jetarrow", f"| {shlex.join(command())}")
                ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
                code, said = ran.returncode, ran.stderr + ran.stdout
            assert code == 0, f"{typed}: {said}"
            if expected:
                lines = [_TIME.sub("<time>", one).rstrip() for one in said.splitlines()]
                assert lines == [_TIME.sub("<time>", one) for one in expected], typed


def test_every_subcommand_is_named() -> None:
    from tests.cli.test_run import ALL

    missing = {" ".join(path) for path in ALL for word in path if word not in PAGE}
    assert missing == set()
