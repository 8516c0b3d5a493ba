"""Spark Connect: the format is found, reads and writes; a secret by reference is not in the server's event log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jetarrow.server import NatsServer

if TYPE_CHECKING:
    from .tools import Streams

pytest.importorskip("grpc_status", reason="needs pyspark[connect]")
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

# A process of its own: one that has a classic session cannot have one of Connect.
PROGRAM = """
import json, sys
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
print(json.dumps([type(spark).__module__, *total, said]))
"""


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
            [sys.executable, "-c", PROGRAM, json.dumps([options, settings])],
            capture_output=True,
            text=True,
            timeout=110,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        module, count, total, said = json.loads(done.stdout.splitlines()[-1])
        assert module.startswith("pyspark.sql.connect")
        assert (count, total) == (1000, 499_500)
        assert f"there is no stream 'NOWHERE' at {server.url}" in said
        assert streams.messages(name) == 1000
    events = "\n".join(file.read_text("utf-8") for file in log.glob("eventlog_v2_*/events_*"))
    assert "env:JETARROW_TEST_PASSWORD" in events, "or it does not show what Connect shows of options"
    for text in (events, done.stdout, done.stderr):
        assert password not in text
