"""Past one machine: a standalone Spark with two workers over three nats-servers, of each of which one is killed."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jetarrow.sync
import pyarrow.parquet as pq
import pyspark
import pytest
from jetarrow.server import NatsServer

CHUNK = 1_000
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
    spark.readStream.format("jetstream").option("servers", servers).option("stream", "EVENTS")
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 20000).option("minPartitions", 4)
    .load()
)
query = (
    rows.select("seq", "data").writeStream.format("parquet").option("path", out)
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


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def nats_cluster() -> Iterator[list[NatsServer]]:
    routes = free_ports(3)
    listed = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
    with contextlib.ExitStack() as stack:
        servers = []
        for number, port in enumerate(routes):
            config = (
                f"server_name: n{number}\n"
                f"cluster {{ name: C, listen: 127.0.0.1:{port}, routes: [{listed}], no_advertise: true }}\n"
            )
            servers.append(stack.enter_context(NatsServer(config=config)))
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


def wait_for(text: str, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while text not in log.read_text(errors="replace"):
        assert time.monotonic() < until, f"no {text!r} in:\n{log.read_text(errors='replace')[-3000:]}"
        time.sleep(0.05)


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
        wait_for("I have been elected leader", log)
        for number in range(2):
            log = tmp_path / f"worker{number}.log"
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            options += ["--work-dir", str(tmp_path / f"work{number}"), master]
            started.append(spawn("worker.Worker", *options, log=log, folder=tmp_path))
            wait_for("Successfully registered with master", log)
        yield master, started[1:]
    finally:
        for process in started:
            kill(process)


def publish(servers: str, enough: threading.Event) -> int:
    """Publishes until told, each message exactly once whatever happens to the servers; returns how many."""
    number = 0
    with jetarrow.sync.connect(servers.split(","), max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        while not enough.wait(0.2):
            numbers = range(number, number + CHUNK)
            payloads = [json.dumps({"number": number}) for number in numbers]
            # Again with the same ids while the stream has no leader.
            while not js.publish_batch("events.a", payloads, msg_ids=[str(number) for number in numbers], timeout=5).ok:
                time.sleep(0.1)
            number += CHUNK
    return number


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_every_message_once(
    tmp_path: Path, nats_cluster: list[NatsServer], spark_cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    servers = ",".join(server.url for server in nats_cluster)
    master, workers = spark_cluster
    until = time.monotonic() + PATIENCE
    with jetarrow.sync.connect(servers.split(",")) as nc:
        js = nc.jetstream()
        while True:
            # The three need a moment to elect a leader.
            try:
                js.add_stream(name="EVENTS", subjects=["events.>"], num_replicas=3)
                break
            except jetarrow.errors.Error:
                assert time.monotonic() < until
                time.sleep(0.1)
    enough = threading.Event()
    pool = concurrent.futures.ThreadPoolExecutor(1)
    publishing = pool.submit(publish, servers, enough)
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", DRIVER, master, servers, out.as_uri(), checkpoint.as_uri()]
    log = (tmp_path / "driver.log").open("wb")
    with (
        log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as driver,
    ):
        assert driver.stdin is not None
        assert driver.stdout is not None

        def ask(line: str) -> str:
            assert driver.stdin is not None
            assert driver.stdout is not None
            driver.stdin.write(line)
            driver.stdin.flush()
            return driver.stdout.readline()

        def batch_reaches(number: int) -> int:
            until = time.monotonic() + PATIENCE
            while True:
                active, batch = ask("how far\n").split()
                assert active == "True", (tmp_path / "driver.log").read_text(errors="replace")[-4000:]
                if int(batch) >= number:
                    return int(batch)
                assert time.monotonic() < until
                time.sleep(0.05)

        try:
            seen = batch_reaches(1)
            kill(workers[0])
            seen = batch_reaches(seen + 1)
            with jetarrow.sync.connect(servers.split(",")) as nc:
                cluster = nc.jetstream().stream_info("EVENTS").cluster
            assert cluster is not None
            leader = nats_cluster[int((cluster.leader or "n0").removeprefix("n"))]
            leader.kill()
            batch_reaches(seen + 3)
            enough.set()
            count = publishing.result(PATIENCE)
            assert ask("end\n").split()[0] == "True"
            assert driver.stdout.readline() == "done\n"
        finally:
            enough.set()
            driver.kill()
            pool.shutdown()
    rows = pq.read_table(out)
    assert sorted(rows["seq"].to_pylist()) == list(range(1, count + 1))
    assert sorted(json.loads(data)["number"] for data in rows["data"].to_pylist()) == list(range(count))
