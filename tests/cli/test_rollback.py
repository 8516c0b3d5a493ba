"""The command's option `--on-rollback`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from jetarrow.server import NatsServer

from tests.cli.tools import Command
from tests.rollback.tools import COUNT, STREAM, Copy, publish, with_other_client


@pytest.fixture
def rolled(own_server: NatsServer, away: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Command) -> None:
    """A stream that was rolled back to before the last archived row of `archive`."""
    monkeypatch.setenv("NATS_URL", own_server.url)
    assert cli("stream", "add", STREAM, "--subjects", f"{STREAM}.>").code == 0
    copy = Copy(own_server, tmp_path / "copy")
    asyncio.run(with_other_client(own_server, lambda js: publish(js, COUNT)))
    copy.take()
    asyncio.run(with_other_client(own_server, lambda js: publish(js, COUNT)))
    assert cli("sink", "parquet", STREAM, "archive", "--json").json["rows"] == 2 * COUNT
    copy.put_back()
    asyncio.run(with_other_client(own_server, lambda js: publish(js, 10, "new")))


@pytest.mark.filterwarnings("ignore:stream 'ROLLED' was rolled back")
def test_what_a_sink_does(rolled: None, cli: Command) -> None:
    failed = cli("sink", "parquet", STREAM, "archive")
    assert failed.code == 1
    assert "was rolled back" in failed.err
    assert "--on-rollback" in failed.err
    assert failed.err.count("\n") == 1
    assert cli("sink", "parquet", STREAM, "archive", "--on-rollback", "later").code == 2
    # The only commit holds lost messages, so no archived message is known to be in the stream.
    again = cli("sink", "parquet", STREAM, "archive", "--on-rollback", "continue", "--json")
    assert again.json["rows"] == COUNT + 10
    assert cli("sink", "parquet", STREAM, "archive", "--json").json["rows"] == 0


def test_a_bounded_read_takes_it_too(rolled: None, cli: Command) -> None:
    read = cli("read", STREAM, "--schema", "none", "--columns", "seq", "--on-rollback", "earliest", "--json")
    assert len(read.lines) == COUNT + 10
