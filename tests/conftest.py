"""Fixtures for all tests: a real server per worker (the plugin's), and names that no other test uses."""

from __future__ import annotations

import functools
import gc
import os
import re
import signal
import socket
import subprocess
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow._spawn import find_executable
from jetarrow.aio.client import Client
from jetarrow.errors import UnsupportedError
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

# A client of a server that a test kills: by default it would wait 2 s between two attempts to reconnect.
EAGER: dict[str, Any] = {"reconnect_time_wait": 0.05, "max_reconnect_attempts": -1}
# The server that development uses; `make test-servers` brings older ones.
NEWEST = (2, 15)


@functools.cache
def server_version() -> tuple[int, ...]:
    said = subprocess.run([find_executable(), "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))


# The optimizing compiler and the threads of G1 take more than they save in a JVM that lives for seconds.
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_configure() -> None:
    # A shell starts a background job with SIGINT ignored, and the programs of the tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ.setdefault(name, SHORT_LIVED_JVM)
    # The threads that NumPy starts when it is imported wait in a loop, in each program of the tests.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sends tests that share a fixture of their module to one worker: apart, each worker would start its servers."""
    for item in items:
        fixtures = item._fixtureinfo.name2fixturedefs.values()
        if not item.get_closest_marker("xdist_group") and any(one[-1].scope == "module" for one in fixtures):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """The scheduler of `--dist loadgroup`, which goes through all that a worker has ever run after each test."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class Scheduling(LoadGroupScheduling):
        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            super().mark_test_complete(node, item_index, duration)
            units = self.assigned_work[node]
            self.assigned_work[node] = {scope: unit for scope, unit in units.items() if not all(unit.values())}

    return Scheduling(config, log)


def pytest_collection_finish() -> None:
    # Thousands of items that stay: each full collection would go through them again.
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("newest_server") and server_version() < NEWEST:
        pytest.skip("only the newest server sends this response")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips a test that ends with `UnsupportedError`, if the server is older than the newest."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, UnsupportedError) and "needs nats-server" in str(error) and server_version() < NEWEST:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {error}")
    return report


@pytest.fixture
async def nc(nats_url: str) -> AsyncIterator[Client]:
    async with await jetarrow.connect(nats_url, connect_timeout=20) as nc:
        yield nc


@pytest.fixture
async def js(nc: Client) -> JetStreamContext:
    return nc.jetstream()


@pytest.fixture
def sync_js(nats_url: str) -> Iterator[jetarrow.sync.JetStream]:
    with jetarrow.sync.connect(nats_url, connect_timeout=20) as nc:
        yield nc.jetstream()


@pytest.fixture
def stream(nats_url: str) -> Iterator[str]:
    """A new stream of the subjects `<its name>.>`."""
    name = f"T{uuid.uuid4().hex[:10]}"
    with jetarrow.sync.connect(nats_url, connect_timeout=20) as nc:
        js = nc.jetstream(timeout=20)
        js.add_stream(name=name, subjects=[f"{name}.>"])
        yield name
        js.delete_stream(name)


@pytest.fixture
async def atomic(js: JetStreamContext, stream: str) -> str:
    """A stream with atomic batches."""
    config = (await js.stream_info(stream)).config.evolve(allow_atomic=True)
    await js.update_stream(config)
    return stream


@pytest.fixture
def own_server() -> Iterator[NatsServer]:
    """A server that the test may kill."""
    with NatsServer() as server:
        yield server


@pytest.fixture
async def own(own_server: NatsServer) -> AsyncIterator[JetStreamContext]:
    """A context on a server that no other test uses; it reconnects soon."""
    async with await jetarrow.connect(own_server.url, **EAGER) as nc:
        yield nc.jetstream()


@pytest.fixture
def own_sync(own_server: NatsServer) -> Iterator[jetarrow.sync.JetStream]:
    """As `own`, without a loop."""
    with jetarrow.sync.connect(own_server.url, **EAGER) as nc:
        yield nc.jetstream()


@pytest.fixture(scope="session")
def nats_tool() -> str:
    """The path of the `nats` command, the Go counterpart."""
    tool = Path(__file__).parent.parent / ".tools" / "nats"
    if not tool.exists():
        pytest.skip("the nats command is not there: make .stamps/nats, which needs Go")
    return str(tool)


@pytest.fixture(scope="session")
def pcgroups_tool() -> str:
    """The path of the program that runs the verbs of orbit.go's consumer groups."""
    tool = Path(__file__).parent.parent / ".tools" / "pcgroups"
    if not tool.exists():
        pytest.skip("the members in Go are not there: make .stamps/pcgroups, which needs Go")
    return str(tool)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses connections: bound, so that no other process gets it, but not listening."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
