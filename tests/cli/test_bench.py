"""`jetarrow bench` against a server: its rows, its bounds, its limits over a slow link, and what it leaves."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.cli import bench_measure, bench_meters, bench_responder, bench_rows
from jetarrow.cli.bench_rows import ROWS, Row, Run
from jetarrow.errors import Error
from jetarrow.server import NatsServer

from tests.cli.tools import SYSTEM_ACCOUNT, Command, command
from tests.slow_link import slow_link
from tests.survive.proxy import Proxy
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
    assert 0 < row["messages"] < 1_000_000
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


async def bench_over(url: str, *arguments: str) -> dict[str, Any]:
    """Runs the command as a process and returns its rows by name."""
    process = await asyncio.create_subprocess_exec(
        *command("bench", "--server", url, "--json", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err
    found = json.loads(out)
    return {row["name"]: row for row in found["rows"]} | {"link": found}


async def test_a_link_of_few_bytes_per_second_is_the_limit(url: str) -> None:
    rate = 2_000_000
    async with slow_link(url, 0.001, rate) as link:
        found = await bench_over(
            link.url, "--msgs", "4000", "--size", "1000", "--only", "publish_batch", "--only", "read"
        )
    assert found["link"]["up_bytes_per_second"] == pytest.approx(rate, rel=0.25)
    assert found["link"]["down_bytes_per_second"] == pytest.approx(rate, rel=0.25)
    for name in ("publish_batch", "read"):
        assert "link" in found[name]["limit"], found[name]
        assert "send fewer bytes" in found[name]["advice"]


async def test_round_trips_of_a_long_link_are_the_limit_of_messages_one_after_another(url: str) -> None:
    async with slow_link(url, 0.02) as link:
        found = await bench_over(link.url, "--msgs", "30", "--only", "publish", "--only", "request", "--only", "kv_get")
    assert found["link"]["round_trip_ms"] >= 40
    for name in ("publish", "kv_get"):
        assert found[name]["limit"] == "link", found[name]
        assert found[name]["round_trips"] > 0.5
        assert found[name]["median_ms"] >= 40
        assert "many tasks" in found[name]["advice"]
    # The process that answers requests is at the end of the same link.
    assert found["request"]["limit"] == "link", found["request"]
    assert found["request"]["median_ms"] >= 80


class Counting(Proxy):
    """Counts the bytes of both ways."""

    up = down = 0

    def from_client(self, data: bytes) -> bytes:
        self.up += len(data)
        return data

    def from_server(self, data: bytes) -> bytes:
        self.down += len(data)
        return data


@pytest.fixture
async def counting(own_server: NatsServer) -> AsyncIterator[Counting]:
    async with Counting(int(own_server.url.rpartition(":")[2])) as proxy:
        yield proxy


@pytest.mark.parametrize("name", [row.name for row in ROWS if not row.is_serial])
async def test_bytes_of_a_row_are_those_of_a_proxy(
    name: str, counting: Counting, own_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The protocol around the payloads is computed; the proxy sees all of it."""
    [row] = [row for row in ROWS if row.name == name]
    seen: list[tuple[Run, int, int]] = []

    async def all_fit(run: Run) -> int:
        return run.most

    async def counted(run: Run) -> int:
        up, down = counting.up, counting.down
        count = await row.function(run)
        await run.nc.flush()
        seen.append((run, counting.up - up, counting.down - down))
        return count

    # Without the steps before the measured part.
    monkeypatch.setattr(bench_rows, "fitting", all_fit)
    # Its connection is not that of the row.
    direct = {"servers": own_server.url}
    monkeypatch.setattr(bench_measure, "responding", lambda _, subject: bench_responder.responding(direct, subject))
    spied = Row(row.name, counted, row.needs, row.faster)
    plan = bench_measure.Plan("JETARROW_BENCH_12345678", b"x" * 64, 3000, 30.0, "memory", 1, (spied,))
    async with await jetarrow.connect(own_server.url) as nc:
        await nc.jetstream().add_stream(name=plan.name, subjects=[plan.name], storage="memory")
    await bench_measure.measure(
        plan,
        {"servers": counting.url},
        jetstream={},
        server_cpu=None,
        reports=lambda _: lambda done: None,
        results=[],
    )
    [(run, up, down)] = seen
    # The few requests of a row that reads are not computed.
    if name not in ("fetch_batch", "fetch", "read"):
        assert run.moved["out_bytes"] + row.frames[0] * run.moved["out_msgs"] == pytest.approx(up, rel=0.05)
    assert run.moved["in_bytes"] + row.frames[1] * run.moved["in_msgs"] == pytest.approx(down, rel=0.05)


@pytest.fixture
def system_url(away: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server with a user of the system account, and the context `sys` of this user."""
    with NatsServer(config=SYSTEM_ACCOUNT) as server:
        monkeypatch.setenv("NATS_URL", server.url)
        contexts = Path(os.environ["XDG_CONFIG_HOME"]) / "nats" / "context"
        contexts.mkdir(parents=True)
        for name, user in (("sys", {"user": "admin", "password": "x"}), ("plain", {})):
            (contexts / f"{name}.json").write_text(json.dumps({"url": server.url, **user}), "utf-8")
        yield server.url


def test_server_cpu_is_that_of_the_server_with_a_system_context(cli: Command, system_url: str) -> None:
    # Longer than the age of the server's own values.
    typed = ["bench", "--msgs", "100000000", "--size", "1", "--seconds", "4s", "--only", "publisher", "--json"]
    [row] = cli(*typed, "--system-context", "sys").json["rows"]
    assert 0 < row["server_cpu"] <= (os.cpu_count() or 1) * 1.1
    assert "server CPU" in row["reason"]


def test_a_system_context_of_another_account_is_an_error(cli: Command, system_url: str) -> None:
    done = cli("bench", *TINY, "--only", "publish", "--system-context", "plain")
    assert done.code == 1
    assert "connect with a user of the system account" in done.err
    with jetarrow.sync.connect(system_url) as nc:
        assert streams_of(nc.jetstream()) == []


def test_the_process_that_answers_requests_ends_with_its_parent(url: str) -> None:
    given = pickle.dumps({"options": {"servers": url}, "subject": "answered"})
    typed = [sys.executable, "-m", bench_responder.__name__]
    with (
        subprocess.Popen(typed, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
        jetarrow.sync.connect(url) as nc,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(len(given).to_bytes(8, "big") + given)
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        assert nc.request("answered", b"payload", timeout=10).data == b"payload"
        assert float(nc.request("answered.cpu", b"", timeout=10).data) > 0
        # As at the end of a parent that was killed.
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_process_that_cannot_answer_requests_names_the_rows(own_server: NatsServer) -> None:
    options = {"servers": own_server.url, "allow_reconnect": False, "connect_timeout": 2}
    own_server.stop()
    with pytest.raises(RuntimeError, match="leave out the rows `request`"), bench_responder.responding(options, "s"):
        pass


def test_a_link_without_a_permission_to_subscribe_has_no_rate(away: Path) -> None:
    config = "authorization { users: [ { user: u, password: p, permissions: { subscribe: { deny: raw } } } ] }"

    async def measured(url: str) -> bench_meters.Link:
        async def ignore(_error: Exception) -> None:
            pass

        async with await jetarrow.connect(url, user="u", password="p", error_cb=ignore) as nc:
            return await bench_meters.measure_link(nc, "raw")

    with NatsServer(config=config) as server:
        link = asyncio.run(measured(server.url))
    assert link.up is not None
    assert link.down is None


def test_reading_of_server_cpu_ends_with_its_block() -> None:
    asked = threading.Event()

    def ask(server: str) -> tuple[float, int]:
        assert server == "S"
        asked.set()
        return 0.5, 2

    cpu = bench_meters.ServerCpu(ask)
    cpu.server = "S"
    with cpu.reading():
        assert asked.wait(30)
    assert "server-cpu" not in [thread.name for thread in threading.enumerate()]
