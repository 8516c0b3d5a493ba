"""Fixtures that run the command in this process, connected to the worker's server, and the handlers of signals."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jetarrow.cli import main

from tests.cli.tools import Command, Ran


@pytest.fixture
def heard() -> Iterator[None]:
    """Sets the default handlers of SIGHUP and SIGINT, which nohup or a shell's background job would ignore."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGHUP, signal.SIGINT)]
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before:
        signal.signal(number, handler)


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


@pytest.fixture
def iceberg_catalog(away: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Configures a catalog `test` with a namespace `db` in the environment; pyiceberg has read it at its import."""
    from pyiceberg import catalog
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__TEST__URI", f"sqlite:///{away}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__TEST__WAREHOUSE", f"file://{away}/warehouse")
    monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())
    loaded = catalog.load_catalog("test")
    loaded.create_namespace("db")
    return loaded
