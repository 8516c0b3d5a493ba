"""Past one machine: a standalone Spark with two workers, a stream in eight shards over three nats-servers.

A worker is killed, and the server that leads the first shard.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import jetarrow.sync
import pyarrow.parquet as pq
import pyspark
import pytest
from jetarrow.server import NatsServer

from .tools import free_ports, wait_until

CHUNK = 200
KEYS, SHARDS = 50, 8
# Publishers use events.KEY and need not know the shards.
MAPPING = f'mappings {{ "events.*": "shard.{{{{partition({SHARDS},1)}}}}.events.{{{{wildcard(1)}}}}" }}\n'
PATIENCE = 120.0

DRIVER = """
import sys
from pyspark.sql import SparkSession

master, servers, out, checkpoint = sys.argv[1:]
spark = (
    SparkSession.builder.master(master).appName("cluster")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false").config("spark.cores.max", "2").config("spark.executor.cores", "1")
    .config("spark.executor.memory", "512m").config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
rows = (
    spark.readStream.format("jetstream").option("servers", servers).option("streamPattern", "EVENTS_.")
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 20000).option("reconnectTimeout", "2m")
    .load().coalesce(4)
)
query = (
    rows.select("stream", "seq", "subject", "data").writeStream.format("parquet").option("path", out)
    .option("checkpointLocation", checkpoint).start()
)
for line in sys.stdin:
    progress = query.lastProgress
    print(f"{query.isActive} {progress.batchId if progress else -1}", flush=True)
    if line == "end\\n":
        query.processAllAvailable()
        query.stop()
        print("done", flush=True)
        break
spark.stop()
"""


@pytest.fixture
def nats_cluster() -> Iterator[dict[str, NatsServer]]:
    """Three servers, by name."""
    routes = free_ports(3)
    listed = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
    with contextlib.ExitStack() as stack:
        servers = {}
        for number, port in enumerate(routes):
            config = (
                f"{MAPPING}server_name: n{number}\n"
                f"cluster {{ name: C, listen: 127.0.0.1:{port}, routes: [{listed}], no_advertise: true }}\n"
            )
            servers[f"n{number}"] = stack.enter_context(NatsServer(config=config))
        yield servers


def spawn(name: str, *arguments: str, log: Path, folder: Path) -> subprocess.Popen[bytes]:
    """One of Spark's own daemons, from pyspark's scripts."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)


def wait_for_line(text: str, log: Path) -> None:
    def logged() -> str:
        return log.read_text(errors="replace") if log.exists() else ""

    try:
        wait_until(lambda: text in logged(), patience=PATIENCE)
    except AssertionError:
        raise AssertionError(f"no {text!r} in:\n{logged()[-3000:]}") from None


def kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture
def spark_cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    [port] = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    started = []
    try:
        log = tmp_path / "master.log"
        options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        started.append(spawn("master.Master", *options, log=log, folder=tmp_path))
        wait_for_line("I have been elected leader", log)
        for number in range(2):
            log = tmp_path / f"worker{number}.log"
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            options += ["--work-dir", str(tmp_path / f"work{number}"), master]
            started.append(spawn("worker.Worker", *options, log=log, folder=tmp_path))
            wait_for_line("Successfully registered with master", log)
        yield master, started[1:]
    finally:
        for process in started:
            kill(process)


def publish(servers: str, enough: threading.Event) -> int:
    """Publishes until `enough` is set, each message exactly once whatever happens to the servers; returns how many."""
    number = 0
    with jetarrow.sync.connect(servers.split(","), max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        while not enough.wait(0.2):
            numbers = range(number, number + CHUNK)
            subjects = [f"events.k{number % KEYS}" for number in numbers]
            payloads = [json.dumps({"number": number}) for number in numbers]
            # Again with the same ids while a stream has no leader.
            while not js.publish_batch(subjects, payloads, msg_ids=[str(number) for number in numbers], timeout=5).ok:
                time.sleep(0.1)
            number += CHUNK
    return number


def make_streams(servers: str) -> None:
    """Makes the shards as soon as the three have elected a leader among themselves."""
    until = time.monotonic() + PATIENCE
    with jetarrow.sync.connect(servers.split(",")) as nc:
        for shard in range(SHARDS):
            while True:
                try:
                    subjects = [f"shard.{shard}.events.*"]
                    nc.jetstream().add_stream(
                        name=f"EVENTS_{shard}", subjects=subjects, storage="memory", num_replicas=3
                    )
                    break
                except jetarrow.errors.Error:
                    assert time.monotonic() < until
                    time.sleep(0.1)


def leader_of(js: jetarrow.sync.JetStream) -> str:
    """The server that leads the stream; waits until one does."""
    until = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(jetarrow.errors.Error):  # no leader answers in the middle of an election
            cluster = js.stream_info("EVENTS_0").cluster
            if cluster is not None and cluster.leader:
                return cluster.leader
        assert time.monotonic() < until
        time.sleep(0.05)


def kill_leader(cluster: dict[str, NatsServer]) -> None:
    """Kills the server that leads the first shard, and sees another one elected for it."""
    until = time.monotonic() + PATIENCE
    while True:
        with jetarrow.sync.connect([server.url for server in cluster.values()]) as nc:
            leader = leader_of(nc.jetstream())
        others = {name: server for name, server in cluster.items() if name != leader}
        with jetarrow.sync.connect([server.url for server in others.values()]) as nc:
            elections = nc.subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED.EVENTS_0")
            nc.flush()
            # On a busy machine it may have moved by itself.
            if leader_of(nc.jetstream()) == leader:
                killed_at = datetime.now(UTC)
                cluster[leader].kill()
                while True:
                    elected = json.loads(elections.next_msg(timeout=PATIENCE).data)
                    if datetime.fromisoformat(elected["timestamp"]) >= killed_at and elected["leader"] in others:
                        return
        assert time.monotonic() < until


class Driver:
    """The process of a streaming query, which reports its progress."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def reach_batch(self, number: int) -> int:
        """Waits until the query has done this batch, or a later one; returns which."""
        until = time.monotonic() + PATIENCE
        while True:
            active, batch = self.ask("how far\n").split()
            assert active == "True", self.log.read_text(errors="replace")[-4000:]
            if int(batch) >= number:
                return int(batch)
            assert time.monotonic() < until
            time.sleep(0.05)


@contextlib.contextmanager
def running_query(master: str, servers: str, folder: Path) -> Iterator[Driver]:
    arguments = [master, servers, (folder / "out").as_uri(), (folder / "checkpoint").as_uri()]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    log = folder / "driver.log"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", DRIVER, *arguments]
    with log.open("wb") as out, subprocess.Popen(command, stderr=out, text=True, env=environment, **pipes) as process:
        try:
            yield Driver(process, log)
        finally:
            process.kill()


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_every_message_once(
    tmp_path: Path, nats_cluster: dict[str, NatsServer], spark_cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    servers = ",".join(server.url for server in nats_cluster.values())
    master, workers = spark_cluster
    make_streams(servers)
    enough = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool, running_query(master, servers, tmp_path) as driver:
        # Publishing while the JVM starts would only slow it down.
        driver.ask("how far\n")
        publishing = pool.submit(publish, servers, enough)
        try:
            seen = driver.reach_batch(1)
            kill(workers[0])
            seen = driver.reach_batch(seen + 1)
            kill_leader(nats_cluster)
            driver.reach_batch(seen + 3)
        finally:
            enough.set()
        count = publishing.result(PATIENCE)
        assert driver.ask("end\n").split()[0] == "True"
        assert driver.answer() == "done\n"
    rows = pq.read_table(tmp_path / "out")
    assert sorted(json.loads(data)["number"] for data in rows["data"].to_pylist()) == list(range(count))
    shards: dict[str, list[tuple[int, int, str]]] = {}
    for row in rows.to_pylist():
        number, key = json.loads(row["data"])["number"], row["subject"].rpartition(".")[2]
        shards.setdefault(row["stream"], []).append((row["seq"], number, key))
    assert len(shards) == SHARDS
    for found in shards.values():
        found.sort()
        assert [seq for seq, *_ in found] == list(range(1, len(found) + 1))
    # Every key is in one shard.
    assert sum(len({key for *_, key in found}) for found in shards.values()) == KEYS
