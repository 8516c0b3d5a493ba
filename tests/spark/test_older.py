"""Older Sparks, 4.0 and 4.1: a smoke test of each in an environment of its own, which `make test` makes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

servers, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
options = {"servers": servers, "stream": "EVENTS"}
rows = spark.read.format("jetstream").options(**options).load()
read = rows.count()
rows.select("data", lit("events.b").alias("subject")).write.format("jetstream").mode("append").options(**options).save()
stream = spark.readStream.format("jetstream").options(**options, startingOffsets="earliest").load()
query = (
    stream.writeStream.format("parquet").option("path", folder + "/out")
    .option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination(100)
copies = spark.readStream.format("jetstream").options(**options, startingOffsets="earliest").load()
try:
    query = (
        copies.selectExpr("data", "'copies.a' as subject").writeStream.format("jetstream")
        .options(**{**options, "stream": "COPIES"}).option("checkpointLocation", folder + "/copies")
        .trigger(availableNow=True).start()
    )
    query.awaitTermination(100)
    written = "written"
except Exception as error:
    written = str(error).replace("\\n", " ")
print(pyspark.__version__, read, spark.read.parquet(folder + "/out").count(), written)
spark.stop()
"""


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)  # three JVM starts on a busy machine
@pytest.mark.parametrize("version", ["4.0", "4.1"])
def test_read_write_and_stream(own_server: NatsServer, tmp_path: Path, version: str) -> None:
    name = f"spark{version.replace('.', '')}"
    python = ROOT / f".venv-{name}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no environment with Spark {version}: make .stamps/{name}")
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="EVENTS", subjects=["events.>"])
        js.add_stream(name="COPIES", subjects=["copies.>"])
        js.publish_batch("events.a", [b"%d" % number for number in range(1000)]).raise_for_errors()
    # Only our packages: the folder in which they are installed also contains another Spark.
    alone = tmp_path / "alone"
    alone.mkdir()
    for package in ("jetarrow", "pyspark_jetarrow"):
        (alone / package).symlink_to(Path(jetarrow.__file__).parents[1] / package)
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    environment |= {
        "PYTHONPATH": str(alone),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [str(python), "-c", PROGRAM, own_server.url, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found, read, streamed, written = done.stdout.split(maxsplit=3)
    assert found.startswith(f"{version}.")
    assert (int(read), int(streamed)) == (1000, 2000)
    with jetarrow.sync.connect(own_server.url) as nc:
        copies = nc.jetstream().stream_info("COPIES").state.messages
    if version == "4.0":
        assert "writeStream.format('jetstream') is not available here" in written, written
        assert f"this is Spark {found}: write each batch in foreachBatch" in written
        assert copies == 0
    else:
        assert (written.strip(), copies) == ("written", 2000)
