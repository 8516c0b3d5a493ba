"""`jetarrow bench`: the link, the CPU of the server, and the process that answers requests."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
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
from jetarrow.server import NatsServer

from tests.cli.tools import SYSTEM_ACCOUNT, Command, command
from tests.slow_link import slow_link
from tests.survive.proxy import Proxy


@pytest.fixture
def url(own_server: NatsServer, away: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The server of the command, which no other test uses."""
    monkeypatch.setenv("NATS_URL", own_server.url)
    return own_server.url


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
    rate = 600_000
    async with slow_link(url, 0.001, rate) as link:
        found = await bench_over(
            link.url, "--msgs", "4000", "--size", "1000", "--only", "publish_batch", "--only", "read"
        )
    # A busy machine makes the proxy slower, and nothing makes it faster.
    assert rate * 0.4 < found["link"]["up_bytes_per_second"] < rate * 1.2
    assert rate * 0.4 < found["link"]["down_bytes_per_second"] < rate * 1.2
    for name in ("publish_batch", "read"):
        row = found[name]
        assert 0.5 < row["bandwidth"] < 1.6, row
        # A busy machine cannot fill the link, or measured it too low.
        if 0.85 <= row["bandwidth"] <= 1.15:
            assert "link" in row["limit"], row
            assert "send fewer bytes" in row["advice"]
        else:
            assert row["limit"] in ("unknown", "client CPU"), row


@pytest.mark.slow
async def test_round_trips_of_a_long_link_are_the_limit_of_messages_one_after_another(url: str) -> None:
    async with slow_link(url, 0.03) as link:
        found = await bench_over(link.url, "--msgs", "10", "--only", "publish", "--only", "request", "--only", "kv_get")
    assert found["link"]["round_trip_ms"] >= 60
    for name in ("publish", "kv_get"):
        # Threads of a busy machine wait for processors, which is a part of the client.
        assert found[name]["limit"].startswith("link"), found[name]
        assert found[name]["round_trips"] > 0.4
        assert found[name]["median_ms"] >= 60
        assert "many tasks" in found[name]["advice"]
    # The process that answers requests is at the end of the same link.
    assert found["request"]["limit"].startswith("link"), found["request"]
    assert found["request"]["median_ms"] >= 120


async def test_a_row_may_be_shorter_than_a_round_trip(url: str) -> None:
    rows = ("request", "fetch", "fetch_batch")
    async with slow_link(url, 0.06) as link:
        found = await bench_over(link.url, "--msgs", "1", "--seconds", "1ms", *(f"--only={name}" for name in rows))
    for name in rows:
        assert found[name]["messages"] == 1


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
    done = cli("bench", "--msgs", "300", "--only", "publish", "--system-context", "plain")
    assert done.code == 1
    assert "connect with a user of the system account" in done.err
    with jetarrow.sync.connect(system_url) as nc:
        assert nc.jetstream().streams_info() == []


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
