"""Declarative pipelines: the command spark-pipelines runs the project of docs/spark-environments.md, twice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jetarrow.sync
import pyarrow.parquet as pq
import pyspark
import pytest
from jetarrow.server import NatsServer

pytest.importorskip("grpc_status", reason="needs pyspark[connect]")
pytest.importorskip("yaml", reason="spark-pipelines needs pyyaml")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark_processes"),
    pytest.mark.needs_spark("4.1", "spark-pipelines"),
    pytest.mark.timeout(500),  # two JVM starts on a busy machine
]

PAGE = (Path(__file__).parents[2] / "docs" / "spark-environments.md").read_text("utf-8")
ADDRESS = "nats://localhost:4222"
PROJECT = """
name: orders
storage: {folder}/storage
libraries:
  - glob:
      include: transformations/**
"""
SETTINGS = """
spark.sql.warehouse.dir {folder}/warehouse
spark.sql.shuffle.partitions 2
spark.ui.enabled false
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
"""


def run(folder: Path) -> str:
    """Run the project with Spark's own command; returns its output."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    # Both mean another kind of session, where a test before has set them.
    for variable in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        environment.pop(variable, None)
    command = [str(home / "bin" / "spark-pipelines"), "run", "--spec", str(folder / "spark-pipeline.yml")]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=folder, timeout=240, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def publish(js: jetarrow.sync.JetStream, ids: range) -> None:
    orders = [json.dumps({"id": number, "euros": float(number % 100)}) for number in ids]
    js.publish_batch("orders.eu", orders).raise_for_errors()


@pytest.mark.slow
def test_stream_is_source_and_sink_of_a_pipeline(own_server: NatsServer, tmp_path: Path) -> None:
    [block] = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "create_sink" in block]
    assert ADDRESS in block
    transformations = tmp_path / "transformations"
    transformations.mkdir()
    (transformations / "orders.py").write_text(block.replace(ADDRESS, own_server.url), "utf-8")
    (tmp_path / "spark-pipeline.yml").write_text(PROJECT.format(folder=tmp_path.as_uri()), "utf-8")
    (tmp_path / "spark-defaults.conf").write_text(SETTINGS.format(folder=tmp_path), "utf-8")
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        for name in ("ORDERS", "LARGE"):
            js.add_stream(name=name, subjects=[f"{name.lower()}.>"])
        publish(js, range(200))
        assert "find_large_orders has COMPLETED" in run(tmp_path)
        large = js.read("LARGE").read_all().to_pylist()
        assert sorted(json.loads(row["data"])["id"] for row in large) == [*range(90, 100), *range(190, 200)]
        rows = pq.read_table(tmp_path / "warehouse" / "order_rows")
        assert sorted(rows["seq"].to_pylist()) == list(range(1, 201))
        totals = pq.read_table(tmp_path / "warehouse" / "totals").to_pylist()
        assert totals == [{"subject": "orders.eu", "count": 200}]
        # Without a persistent catalog the tables are unknown in the next run. The sink has its checkpoint.
        without_tables = re.sub(r"@dp\.(table|materialized_view)\n(.+\n)+", "", block)
        assert without_tables != block
        (transformations / "orders.py").write_text(without_tables.replace(ADDRESS, own_server.url), "utf-8")
        publish(js, range(200, 300))
        run(tmp_path)
        ids = [json.loads(row["data"])["id"] for row in js.read("LARGE").read_all().to_pylist()]
        assert sorted(ids) == [*range(90, 100), *range(190, 200), *range(290, 300)]
