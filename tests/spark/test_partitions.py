"""Spark reads the folders that a sink writes by values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ..sinks.test_partitions import write

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
VALUES: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "text": (
        pa.string(),
        "STRING",
        ["a/b", "ü", "日本", "a b", "%41", "x=y", ".", "..", "'\"", "\t", "01", None, "null"],
    ),
    "int": (pa.int64(), "BIGINT", [-(2**63), 2**63 - 1, 0, None]),
    "flag": (pa.bool_(), "BOOLEAN", [True, False, None]),
    "double": (pa.float64(), "DOUBLE", [0.0, -0.0, 1e22, 1e-7, float("inf"), -float("inf"), float("nan"), None]),
    "money": (pa.decimal128(20, 10), "DECIMAL(20, 10)", [Decimal("0.0000000001"), Decimal("-5"), None]),
    "day": (pa.date32(), "DATE", [date(1600, 2, 29), date(2026, 11, 24), date(9999, 12, 31), None]),
    "at": (pa.timestamp("us", "UTC"), "TIMESTAMP", [datetime(2026, 1, 1, tzinfo=UTC), None]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_come_back(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    arrow, ddl, values = VALUES[kind]
    count = 4 * len(values)
    keys = [values[row % len(values)] for row in range(count)]
    write(str(tmp_path), pa.table({"n": pa.array(range(count), pa.int64()), "k": pa.array(keys, arrow)}))
    frame = spark.read.schema(f"n BIGINT, k {ddl}").parquet(str(tmp_path))
    found = {row["n"]: row["k"] for row in frame.collect()}
    if kind == "at":
        found = {n: None if value is None else value.astimezone(UTC) for n, value in found.items()}
    # By their texts: 0.0 is not -0.0, and NaN is equal to NaN. A decimal's text has as many zeros as its type.
    if kind == "money":
        assert [found[row] for row in range(count)] == keys
    else:
        assert [repr(found[row]) for row in range(count)] == [repr(value) for value in keys]
