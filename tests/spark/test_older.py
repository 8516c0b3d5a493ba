"""The oldest Spark that is supported, 4.1: a smoke test in an environment of its own, which `make test` makes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

PYTHON = Path(__file__).parents[2] / ".venv-spark41" / "bin" / "python"

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
print(pyspark.__version__, read, spark.read.parquet(folder + "/out").count())
spark.stop()
"""


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)  # three JVM starts on a busy machine
@pytest.mark.skipif(not PYTHON.exists(), reason="no environment with Spark 4.1: make .stamps/spark41")
def test_read_write_and_stream(own_server: NatsServer, tmp_path: Path) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="EVENTS", subjects=["events.>"])
        js.publish_batch("events.a", [b"%d" % number for number in range(1000)]).raise_for_errors()
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    environment |= {
        "PYTHONPATH": str(Path(jetarrow.__file__).parents[1]),
        "PYSPARK_PYTHON": str(PYTHON),
        "PYSPARK_DRIVER_PYTHON": str(PYTHON),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [str(PYTHON), "-c", PROGRAM, own_server.url, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    version, read, streamed = done.stdout.split()
    assert version.startswith("4.1.")
    assert (int(read), int(streamed)) == (1000, 2000)
