"""The examples as they stand, in the Spark of the tests."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from jetarrow.server import NatsServer
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
EXAMPLES = Path(__file__).parents[2] / "examples"
SAID = {
    "spark_batch.py": "|     at|   22580.0|      500|",
    "spark_stream_to_parquet.py": (
        "1200 readings in Parquet, 1200 distinct\n2400 readings in Parquet, 2400 distinct\n"
    ),
    "spark_parquet_to_stream.py": (
        "after the first run the stream has 2000 messages\nafter the second run the stream has 2000 messages\n"
    ),
    "spark_end_to_end.py": "78 totals, 30 dead letters, 78 rows in the Delta table\n",
    "spark_stream_to_stream.py": "250 sales of 1000 clicks\n500 sales of 2000 clicks\n",
}


def test_every_example_is_here() -> None:
    assert {path.name for path in EXAMPLES.glob("spark_*.py")} == set(SAID)


SINK = pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")
LIMITS = pytest.mark.needs_spark("4.2", "limits per micro-batch")
MARKS = {
    "spark_stream_to_parquet.py": [pytest.mark.slow],
    "spark_end_to_end.py": [LIMITS, pytest.mark.slow],
    "spark_stream_to_stream.py": [SINK, pytest.mark.slow],
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in SAID])
def test_example(
    name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gets the session of the tests, and a server of its own."""
    with NatsServer() as server:
        monkeypatch.setattr(sys, "argv", [name, server.url])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert SAID[name] in capsys.readouterr().out
    assert SparkSession.getActiveSession() is not None
