"""Spark Connect: batch and streaming, progress and lag, a client without jetarrow, secrets in the event log."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jetarrow.spark
import pyspark
import pytest
from jetarrow.server import NatsServer

from .tools import free_ports, release, wait_until

if TYPE_CHECKING:
    from .tools import Streams

pytest.importorskip("grpc_status", reason="needs pyspark[connect]")
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

# A process of its own: one that has a classic session cannot have one of Connect.
LOCAL = """
import json, sys, time
import jetarrow.spark
from pyspark.sql import SparkSession

options, settings = json.loads(sys.argv[1])
builder = SparkSession.builder.remote("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
frame = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) as data")
frame.write.format("jetstream").options(**options, subject=options["stream"] + ".x").mode("append").save()
back = spark.read.format("jetstream").options(**options, minPartitions="3").load()
total = back.selectExpr("count(*)", "sum(cast(cast(data as string) as int))").first()
try:
    spark.read.format("jetstream").options(**{**options, "stream": "NOWHERE"}).load().count()
    said = ""
except Exception as error:
    said = str(error)
heard = []
listener = jetarrow.spark.listener(lambda name, found: heard.append([name, found[0].offset, found[0].lag]))
spark.streams.addListener(listener)
rows = spark.readStream.format("jetstream").options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="600")
query = rows.load().writeStream.format("noop").queryName("q").option("checkpointLocation", settings["checkpoint"])
query = query.trigger(availableNow=True).start()
query.awaitTermination(60)
(last,) = jetarrow.spark.progress(query)
until = time.monotonic() + 60
while not (heard and heard[-1][1] == last.offset) and time.monotonic() < until:
    time.sleep(0.05)
print(json.dumps([type(spark).__module__, *total, said, heard, [last.stream, last.offset, last.lag]]), flush=True)
# Its thread would keep the process.
spark.streams.removeListener(listener)
spark.stop()
"""
# A client that has only the packages of pyspark-client. It runs with `python -S`.
THIN = """
import importlib.util, json, sys
from pyspark.sql import SparkSession
from pyspark.util import is_remote_only

assert is_remote_only()
assert not any(importlib.util.find_spec(name) for name in ("jetarrow", "pyspark_jetarrow", "py4j"))
remote, folder, source, target = json.loads(sys.argv[1])
spark = SparkSession.builder.remote(remote).getOrCreate()
rows = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) as data")
rows.write.format("jetstream").options(**source, subject=source["stream"] + ".x").mode("append").save()
count = spark.read.format("jetstream").options(**source).load().count()
copied = spark.readStream.format("jetstream").options(**source, startingOffsets="earliest").load()
query = (
    copied.selectExpr("data", "concat(stream, ':', seq) as msg_id").writeStream.format("jetstream")
    .options(**target, subject=target["stream"] + ".x").option("checkpointLocation", folder)
    .trigger(availableNow=True).start()
)
query.awaitTermination(60)
print(json.dumps([count, query.lastProgress], default=str))
"""


@pytest.mark.slow
def test_connect(streams: Streams, password: str, tmp_path: Path) -> None:
    users = f"authorization {{ users: [{{user: joe, password: '{password}'}}] }}\n"
    log = tmp_path / "log"
    log.mkdir()
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": log.as_uri(),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    with NatsServer(config=users) as server:
        streams.url = server.url.replace("//", f"//joe:{password}@")
        name = streams.new()
        options = {"servers": server.url, "stream": name, "user": "joe", "password": "env:JETARROW_TEST_PASSWORD"}
        environment = {
            **os.environ,
            "JETARROW_TEST_PASSWORD": password,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        }
        # Both mean another kind of session, where a test before has set them.
        for variable in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
            environment.pop(variable, None)
        done = subprocess.run(
            [sys.executable, "-c", LOCAL, json.dumps([options, settings])],
            capture_output=True,
            text=True,
            timeout=250,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        module, count, total, said, heard, last = json.loads(done.stdout.splitlines()[-1])
        assert module.startswith("pyspark.sql.connect")
        assert (count, total) == (1000, 499_500)
        assert f"there is no stream 'NOWHERE' at {server.url}" in said
        assert streams.messages(name) == 1000
        if release(pyspark.__version__) >= (4, 2):
            assert (heard, last) == ([["q", 601, 400], ["q", 1001, 0]], [name, 1001, 0])
        else:
            assert (heard, last) == ([["q", 1001, 0]], [name, 1001, 0])
    events = "\n".join(file.read_text("utf-8") for file in log.glob("eventlog_v2_*/events_*"))
    assert "env:JETARROW_TEST_PASSWORD" in events, "or it does not show what Connect shows of options"
    for text in (events, done.stdout, done.stderr):
        assert password not in text


@pytest.fixture
def thin_path(tmp_path: Path) -> Path:
    """A path of packages without jetarrow, py4j and the parts of pyspark that pyspark-client omits."""
    thin = tmp_path / "thin"
    (thin / "pyspark").mkdir(parents=True)
    home = Path(pyspark.__file__).parent
    left_out = {"core", "jars", "bin", "sbin", "python", "examples", "__pycache__"}
    for entry in home.iterdir():
        if entry.name not in left_out:
            (thin / "pyspark" / entry.name).symlink_to(entry)
    for folder in (home.parent, Path(pytest.__file__).parents[1]):
        for entry in folder.iterdir():
            ours = entry.name.startswith(("jetarrow", "pyspark_jetarrow", "py4j")) or entry.suffix == ".pth"
            if not ours and not (thin / entry.name).exists():
                (thin / entry.name).symlink_to(entry)
    return thin


@pytest.fixture
def connect_server(tmp_path: Path) -> Iterator[str]:
    """A server of Spark Connect in its own process; returns the address for clients."""
    home = Path(pyspark.__file__).parent
    [port] = free_ports(1)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    environment["SPARK_LOCAL_DIRS"] = str(tmp_path / "local")
    for variable in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        environment.pop(variable, None)
    command = [str(home / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[2]", *(part for item in settings.items() for part in ("--conf", "=".join(item)))]
    log = tmp_path / "server.log"

    def is_listening() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "spark-internal"], stdout=out, stderr=out, env=environment, cwd=tmp_path, start_new_session=True
        )
    try:
        wait_until(is_listening)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
@pytest.mark.slow
def test_client_without_jetarrow_reads_writes_and_streams(
    streams: Streams, connect_server: str, thin_path: Path, tmp_path: Path
) -> None:
    source, target = streams.new(), streams.new()
    options = [{"servers": streams.url, "stream": name} for name in (source, target)]
    arguments = json.dumps([connect_server, str(tmp_path / "checkpoint"), *options])
    done = subprocess.run(
        [sys.executable, "-S", "-c", THIN, arguments],
        capture_output=True,
        text=True,
        timeout=200,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(thin_path)},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    count, last = json.loads(done.stdout.splitlines()[-1])
    assert (count, streams.messages(target)) == (1000, 1000)
    # The client has no jetarrow; its progress as JSON is read elsewhere.
    (found,) = jetarrow.spark.progress(last)
    assert (found.stream, found.offset, found.lag) == (source, 1001, 0)
