"""`jetarrow bench` against a server: its rows, their bounds, and what it leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.cli import bench_measure
from jetarrow.cli.bench_rows import ROWS, Row, Run
from jetarrow.errors import Error
from jetarrow.server import NatsServer

from tests.cli.tools import Command, command
from tests.tools import wait_until

NAMES = [row.name for row in ROWS]
TINY = ["--msgs", "300", "--size", "16", "--json"]


@pytest.fixture
def url(own_server: NatsServer, away: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The server of the command, which no other test uses."""
    monkeypatch.setenv("NATS_URL", own_server.url)
    return own_server.url


def streams_of(js: jetarrow.sync.JetStream) -> list[tuple[str | None, int]]:
    return [(info.config.name, info.state.messages) for info in js.streams_info()]


def test_all_rows_are_measured_and_other_streams_stay(
    cli: Command, url: str, own_sync: jetarrow.sync.JetStream
) -> None:
    own_sync.add_stream(name="ORDERS", subjects=["orders.>"])
    own_sync.publish("orders.eu", b"1")
    found = cli("bench", *TINY).json
    assert [row["name"] for row in found["rows"]] == NAMES
    assert {row["messages"] for row in found["rows"]} == {300}
    assert found["size"] == 16
    assert found["round_trip_ms"] > 0
    assert found["up_bytes_per_second"] > 0
    assert found["down_bytes_per_second"] > 0
    for row in found["rows"]:
        assert row["seconds"] > 0
        assert row["per_second"] == pytest.approx(300 / row["seconds"])
        assert row["bytes_per_second"] == pytest.approx(16 * row["per_second"])
        assert row["client_cpu"] > 0
        # Without a user of the system account.
        assert row["server_cpu"] is None
        assert row["limit"]
        assert row["reason"]
        assert (row["median_ms"] is None) != (row["name"] in ("publish", "request", "kv_put", "kv_get"))
    assert streams_of(own_sync) == [("ORDERS", 1)]


def test_table_has_a_line_for_the_limit_of_each_row(cli: Command, url: str) -> None:
    done = cli("bench", "--msgs", "300", "--only", "publish", "--only", "read")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    # In the order of the rows, whatever that of the options is.
    assert [line.split()[0] for line in lines if line.startswith(("read", "publish"))] == [
        "publish",
        "read",
        "publish:",
        "read:",
    ]
    assert "128 B per message, storage file, replicas 1, server 2." in done.err
    assert "to the server" in done.err


def test_one_row_is_run_alone_and_with_the_storage_of_the_option(
    cli: Command, url: str, monkeypatch: pytest.MonkeyPatch, own_sync: jetarrow.sync.JetStream
) -> None:
    seen = []

    async def spied(run: Run) -> int:
        seen.extend([(info.config.name, info.config.storage) for info in own_sync.streams_info()])
        with run.clock():
            pass
        return 1

    row = Row("spied", spied, "bucket", "nothing")
    monkeypatch.setattr("jetarrow.cli.bench.ROWS", (*ROWS, row))
    found = cli("bench", *TINY, "--only", "spied", "--storage", "memory").json
    assert [row["name"] for row in found["rows"]] == ["spied"]
    assert [str(name)[:16] for name, _ in seen] == ["JETARROW_BENCH_" + str(seen[0][0])[15], "KV_JETARROW_BENC"]
    assert {str(storage) for _, storage in seen} == {"memory"}
    assert streams_of(own_sync) == []


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (["--only", "nonsense"], "'nonsense' is no row: give one of publish_batch, publisher"),
        (["--seconds", "0s"], "longer than 0s"),
        (["--msgs", "0"], "--msgs"),
    ],
)
def test_invalid_options_are_usage_errors(typed: list[str], text: str, cli: Command, url: str) -> None:
    done = cli("bench", *typed)
    assert done.code == 2
    assert text in " ".join(done.err.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_row_ends_with_its_time(name: str, cli: Command, url: str) -> None:
    [row] = cli("bench", "--msgs", "100000000", "--size", "1", "--seconds", "50ms", "--only", name, "--json").json[
        "rows"
    ]
    # Fewer than its maximum, which no machine reaches in this time.
    [known] = [one for one in ROWS if one.name == name]
    assert 0 < row["messages"] < (known.most or 1_000_000)
    # The time of the machine, not of the row: a busy one may stop the process at any time.
    assert row["seconds"] < 20


def test_large_payloads_are_fewer_messages() -> None:
    plan = bench_measure.Plan("N", b"x" * (1 << 20), 100_000, 1.0, "file", 1, ROWS)
    assert {plan.most_of(row) for row in ROWS} == {1024}
    plan = bench_measure.Plan("N", b"", 100_000, 1.0, "file", 1, ROWS)
    assert plan.most_of(ROWS[0]) == 100_000


@pytest.mark.parametrize("needs", ["empty", "keys", "responder"])
def test_an_error_of_a_row_leaves_nothing(
    needs: Any, cli: Command, url: str, monkeypatch: pytest.MonkeyPatch, own_sync: jetarrow.sync.JetStream
) -> None:
    async def failing(run: Run) -> int:
        assert streams_of(own_sync)
        raise RuntimeError("the row failed")

    monkeypatch.setattr("jetarrow.cli.bench.ROWS", (Row("failing", failing, needs, "nothing"),))
    done = cli("bench", *TINY)
    assert done.code == 1
    assert "the row failed" in done.err
    assert streams_of(own_sync) == []


def test_rows_before_an_error_are_shown(cli: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(run: Run) -> int:
        raise RuntimeError("the row failed")

    [publish] = [row for row in ROWS if row.name == "publish"]
    monkeypatch.setattr("jetarrow.cli.bench.ROWS", (publish, Row("failing", failing, "empty", "nothing")))
    done = cli("bench", "--msgs", "300")
    assert done.code == 1
    assert "publish: " in done.out
    assert "the row failed" in done.err
    assert cli("bench", *TINY).out == ""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals for one process")
@pytest.mark.parametrize("name", ["fetch", "request", "kv_get_tasks"])
def test_ctrl_c_in_a_row_leaves_nothing(name: str, url: str, own_sync: jetarrow.sync.JetStream) -> None:
    typed = command("bench", "--msgs", "100000000", "--size", "1", "--seconds", "60s", "--only", name)
    wanted = 2 if name.startswith("kv") else 1
    with subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(own_sync.streams_info()) == wanted, 30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")
    assert streams_of(own_sync) == []


def test_a_stream_that_cannot_be_deleted_is_named(cli: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, name: str) -> None:
        raise Error("nats: refused")

    monkeypatch.setattr(jetarrow.sync.JetStream, "delete_stream", refuse)
    done = cli("bench", *TINY, "--only", "publish")
    assert done.code == 0
    [first, second] = done.err.splitlines()
    assert first.startswith("warning: could not delete stream JETARROW_BENCH_")
    assert second.partition("; ")[2].startswith("run jetarrow stream rm KV_JETARROW_BENCH_")
