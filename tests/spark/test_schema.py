"""Batches under Spark's own Arrow schema, without Spark's JVM."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from jetarrow.spark.schema import SCHEMA, Retyper, check_schema
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def batch(*, element: pa.Field | None = None) -> pa.RecordBatch:
    """Two messages as js.read has them, with names and nullability unlike Spark's in `headers`."""
    values = pa.list_(element or pa.field("item", pa.string(), nullable=False))
    headers = pa.map_(pa.string(), pa.field("values", values, nullable=False))
    schema = pa.schema(
        [
            pa.field("stream", pa.string(), nullable=False),
            pa.field("seq", pa.int64(), nullable=False),
            pa.field("subject", pa.string(), nullable=False),
            pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("headers", headers),
            pa.field("data", pa.binary(), nullable=False),
        ]
    )
    rows = [
        {"stream": "A", "seq": 1, "subject": "a.b", "timestamp": WHEN, "headers": None, "data": b"\x00"},
        {
            "stream": "A",
            "seq": 2,
            "subject": "a.c",
            "timestamp": WHEN,
            "headers": [("k", ["v", "w"]), ("l", [])],
            "data": b"",
        },
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def addresses(found: pa.RecordBatch) -> list[int | None]:
    return [buffer.address if buffer else None for column in found.columns for buffer in column.buffers()]


@pytest.mark.needs_spark("4.2", "the time zone of to_arrow_schema")
def test_batches_get_sparks_schema_over_the_same_memory() -> None:
    given = batch()
    found = Retyper(SCHEMA)(given)
    assert found.schema.equals(to_arrow_schema(SCHEMA, timezone="UTC"), check_metadata=True)
    assert found.schema != given.schema
    assert addresses(found) == addresses(given)
    assert found.to_pylist() == given.to_pylist()
    found.validate(full=True)


def test_slices_keep_their_rows() -> None:
    assert Retyper(SCHEMA)(batch().slice(1)).to_pylist() == batch().to_pylist()[1:]


@pytest.mark.needs_spark("4.2", "the time zone of to_arrow_schema")
def test_a_nullable_schema_of_some_columns() -> None:
    schema = StructType([StructField("data", SCHEMA["data"].dataType), StructField("seq", LongType())])
    found = Retyper(schema)(batch().select(["data", "seq"]))
    assert found.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert found.to_pydict() == {"data": [b"\x00", b""], "seq": [1, 2]}


@pytest.mark.parametrize(
    "other",
    [
        batch().select(["seq"]),
        batch().select(["seq", "stream", "subject", "timestamp", "headers", "data"]),
        batch().set_column(1, pa.field("seq", pa.uint64(), nullable=False), pa.array([1, 2], pa.uint64())),
        batch().set_column(1, pa.field("seq", pa.int64()), pa.array([1, None], pa.int64())),
        batch().set_column(
            3,
            pa.field("timestamp", pa.timestamp("ns", tz="UTC"), nullable=False),
            pa.array([WHEN, WHEN], pa.timestamp("ns", tz="UTC")),
        ),
        batch(element=pa.field("item", pa.large_string())),
    ],
    ids=["columns", "order", "type", "nulls", "unit", "nested"],
)
def test_other_batches_are_refused_before_memory_is_misread(other: pa.RecordBatch) -> None:
    retype = Retyper(SCHEMA)
    retype(batch())
    with pytest.raises(TypeError, match=r"js\.read returned \("):
        retype(other)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (StructType(), "the schema has no column"),
        (StructType().add("seqs", "long"), "there is no column 'seqs'"),
        (StructType().add("seq", "integer"), "column 'seq' is bigint, not int"),
        (StructType().add("seq", "long").add("seq", "long"), "column 'seq' is named twice"),
        (
            StructType().add("headers", MapType(StringType(), StringType())),
            "column 'headers' is map<string,array<string>>, not map<string,string>",
        ),
        (StructType().add("headers", SCHEMA["headers"].dataType, nullable=False), "'headers' is nullable"),
    ],
)
def test_other_schemas_are_refused_with_the_list_of_columns(schema: StructType, said: str) -> None:
    with pytest.raises(ValueError, match=r"^jetstream: ") as caught:
        check_schema(schema)
    assert said in str(caught.value)
    assert str(caught.value).endswith(
        "columns: stream string, seq bigint, subject string, timestamp timestamp,"
        " headers map<string,array<string>>, data binary, time_ns bigint, reply string"
    )


def test_the_source_schema_and_its_parts_are_accepted() -> None:
    check_schema(SCHEMA)
    check_schema(StructType([SCHEMA["data"], SCHEMA["seq"]]))
