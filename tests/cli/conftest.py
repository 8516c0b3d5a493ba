"""Fixtures that run the command in this process, connected to the worker's server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jetarrow.cli import main

from tests.cli.tools import Command, Ran


@pytest.fixture
def away(nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Changes to an empty folder without contexts; the only setting is the server's address."""
    for name in [name for name in os.environ if name.startswith("NATS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NATS_URL", nats_url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def cli(away: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Returns a function that runs the command as the entry point's `main` does."""

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        code = main(arguments)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run
