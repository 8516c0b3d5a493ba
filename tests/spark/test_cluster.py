"""Past one machine: a standalone Spark with two workers, a stream in eight shards over three nats-servers.

A worker is killed, and the server that leads the first shard.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import jetarrow.sync
import pyarrow.parquet as pq
import pytest
from jetarrow.server import NatsServer

from .standalone import PATIENCE, Process, kill, spark_environment, standalone
from .tools import free_ports

CHUNK = 200
KEYS, SHARDS = 50, 8
# Publishers use events.KEY and need not know the shards.
MAPPING = f'mappings {{ "events.*": "shard.{{{{partition({SHARDS},1)}}}}.events.{{{{wildcard(1)}}}}" }}\n'

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


@pytest.fixture
def spark_cluster(tmp_path: Path) -> Iterator[tuple[str, list[Process]]]:
    with standalone(tmp_path, python=sys.executable) as cluster:
        yield cluster


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
    environment = spark_environment(folder, sys.executable)
    log = folder / "driver.log"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", DRIVER, *arguments]
    with log.open("wb") as out, subprocess.Popen(command, stderr=out, text=True, env=environment, **pipes) as process:
        try:
            yield Driver(process, log)
        finally:
            process.kill()


@pytest.mark.xdist_group("spark_processes")
@pytest.mark.timeout(300)
@pytest.mark.slow
def test_every_message_once(
    tmp_path: Path, nats_cluster: dict[str, NatsServer], spark_cluster: tuple[str, list[Process]]
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
