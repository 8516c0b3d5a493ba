"""A stream as a LazyFrame: predicates, columns and limits are pushed down to the server and do not change the result.

Random predicates: tests/test_polars_pushdown.py.
"""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Iterator
from typing import Any

import jetarrow.polars
import jetarrow.sync
import polars as pl
import pyarrow as pa
import pytest
from jetarrow.js.errors import NotFoundError
from jetarrow.polars import bounds as bounds_of
from jetarrow.polars import source as scan_of
from jetarrow.polars.bounds import ALL, Bounds, bounds

SCHEMA = {"id": "BIGINT", "v": "DOUBLE", "name": "STRING"}
TOKENS = ["a", "b", "c.x", "c.y", "cc.x", "d"]
sequence, topic, stored = pl.col("seq"), pl.col("subject"), pl.col("timestamp")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Options of the reads that the scans start."""
    found: list[dict[str, Any]] = []
    read = scan_of._Source._read

    def noted(self: Any, js: Any, **options: Any) -> Any:
        found.append(options)
        return read(self, js, **options)

    monkeypatch.setattr(scan_of._Source, "_read", noted)
    return found


@pytest.fixture
def filled(sync_js: jetarrow.sync.JetStream, stream: str) -> Iterator[str]:
    """A stream of 200 messages, 20 of them deleted, one malformed."""
    chance = random.Random(1)
    for number in range(200):
        row = json.dumps({"id": number, "v": number / 8, "name": f"n{number % 5}"})
        sync_js.publish(f"{stream}.{chance.choice(TOKENS)}", "no JSON" if number == 100 else row)
    for seq in chance.sample(range(2, 190), 20):
        sync_js.delete_msg(stream, seq)
    return stream


def test_scan_pushes_down_bounds_columns_and_limit(nats_url: str, filled: str, asked: list[dict[str, Any]]) -> None:
    lazy = jetarrow.polars.scan(nats_url, filled, schema=SCHEMA)
    lazy.filter(sequence.is_between(50, 60), topic == f"{filled}.a").select("id").collect()
    (options,) = asked
    assert (options["start_seq"], options["end_seq"], options["subjects"]) == (50, 61, [f"{filled}.a"])
    assert options["columns"] == ["seq", "subject", "value"]
    assert options["schema"].names == ["id"]
    asked.clear()
    lazy.head(5).select("seq").collect()
    assert (asked[0]["limit"], asked[0]["columns"]) == (5, ["seq"])
    assert "schema" not in asked[0]
    asked.clear()
    since = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    lazy.filter(stored >= since, topic.str.starts_with(f"{filled}.c.x")).collect()
    assert asked[0]["start_time"] == "2026-01-02T03:04:05.678901000Z"
    assert asked[0]["subjects"] == [f"{filled}.c.>"]
    asked.clear()
    # No message can match, so no read is started.
    assert lazy.filter(sequence > 5, sequence < 5).collect().is_empty()
    assert asked == []
    # `latest` excludes sequence bounds: the latest messages of a part of the stream are not those of the stream.
    jetarrow.polars.scan(nats_url, filled, latest=True).filter(sequence > 5, topic == f"{filled}.a").collect()
    assert (asked[0].keys() & {"start_seq", "end_seq"}, asked[0]["subjects"]) == (set(), [f"{filled}.a"])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (sequence > 5, Bounds(first=6)),
        (pl.lit(5) >= sequence, Bounds(end=6)),
        ((sequence == 5) | (sequence == 9), Bounds(first=5, end=10)),
        (sequence.is_in([9, 5]), Bounds(first=5, end=10)),
        # The lowest value is not a valid sequence; sequences between the values are within the bounds.
        (sequence.is_in([-4, 3, 20]), Bounds(first=-4, end=21)),
        ((sequence > 5) | (topic == "a"), ALL),
        ((sequence > 5) & (pl.col("id") > 1), Bounds(first=6)),
        (~(sequence > 5), Bounds(end=6)),
        (sequence > 5.5, ALL),
        (sequence == pl.lit(None), ALL),
        ((topic == "a") | (topic == "b"), Bounds(subjects=frozenset("ab"))),
        ((topic == "a.b") & topic.str.starts_with("a."), Bounds(subjects=frozenset(["a.b"]))),
        ((topic == "a.b") | topic.str.starts_with("a."), Bounds(subjects=frozenset(["a.>"]))),
        (topic.str.starts_with("ab"), ALL),
        (topic.is_in([f"s{n}" for n in range(501)]), ALL),
        (topic == "a.*", ALL),
        (stored > pl.lit(10**9).cast(pl.Datetime("ns", "UTC")), Bounds(since=10**9 + 1)),
    ],
)
def test_bounds(expression: pl.Expr, expected: Bounds) -> None:
    # The predicate is the one that polars passes to a source, with the types of the columns.
    found: list[Bounds] = []

    def source(_: Any, predicate: pl.Expr | None, __: Any, ___: Any) -> Iterator[pl.DataFrame]:
        found.append(ALL if predicate is None else bounds(predicate))
        yield pl.DataFrame(schema=schema)

    schema = {"seq": pl.Int64, "subject": pl.String, "timestamp": pl.Datetime("ns", "UTC"), "id": pl.Int64}
    from polars.io.plugins import register_io_source

    register_io_source(source, schema=schema).filter(expression).collect()
    assert found == [expected]


def test_subject_filters_cover_and_intersect() -> None:
    assert bounds_of.covers("a.*", "a.b")
    assert bounds_of.covers("a.>", "a.*.c")
    assert not bounds_of.covers("a.*", "a.>")
    assert not bounds_of.covers("a.>", "a")
    both = Bounds(subjects=frozenset(["a.>"])) & Bounds(subjects=frozenset(["*.b", "c.d"]))
    assert both.subjects == frozenset(["*.b"])
    # Only subjects of the scan's own filters may be read: no predicate checks them afterwards.
    found = bounds_of.within(Bounds(subjects=frozenset(["a.>", "c.x", "c.y"])), ["*.b", "c.*"])
    assert found.subjects == frozenset(["*.b", "c.x", "c.y"])
    assert (Bounds(subjects=frozenset(["a"])) & Bounds(subjects=frozenset(["b"]))).empty


def test_arrow_messages(nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    table = pa.table({"id": range(1000), "name": [f"n{n % 3}" for n in range(1000)]})
    sync_js.publish_table(table, f"{stream}.{{name}}", format="arrow", rows_per_message=50)
    lazy = jetarrow.polars.scan(nats_url, stream, format="arrow")
    assert lazy.collect_schema().names()[-4:] == ["id", "name", "_corrupt_record", "_error"]
    found = lazy.filter(topic == f"{stream}.n1", pl.col("id") < 100).select("id").collect()
    assert found["id"].to_list() == list(range(1, 100, 3))
    assert lazy.head(70).collect().height == 70
    assert lazy.select("seq").collect().height == 1000
    assert lazy.select(pl.len()).collect().item() == 1000
    assert jetarrow.polars.scan(nats_url, stream, format="arrow", latest=True).collect().height == 50


def test_a_schema_of_any_kind(nats_url: str, filled: str) -> None:
    for schema in (pl.Schema({"id": pl.Int64}), pa.schema({"id": pa.int64()}), "id BIGINT", "infer"):
        frame = jetarrow.polars.scan(nats_url, filled, schema=schema).select("seq", "id").head(3).collect()
        assert frame["id"].to_list() == [seq - 1 for seq in frame["seq"].to_list()]
    payloads = jetarrow.polars.scan(nats_url, filled).select("data", "headers").head(1).collect()
    assert json.loads(payloads["data"][0])["id"] == 0


def test_a_field_named_as_a_column_of_messages(nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    """The field replaces the column, and a filter on the field is not pushed down."""
    for number in range(5):
        sync_js.publish(f"{stream}.a", json.dumps({"seq": 10 - number, "subject": f"s{number}"}))
    lazy = jetarrow.polars.scan(nats_url, stream, schema={"seq": int, "subject": str})
    assert lazy.filter(sequence > 7, topic != "s0").collect()["seq"].to_list() == [9, 8]


def test_modes(nats_url: str, filled: str) -> None:
    """The set of rows does not depend on the selected columns."""
    lazy = jetarrow.polars.scan(nats_url, filled, schema=SCHEMA, mode="DROPMALFORMED")
    assert lazy.select("seq").collect().height == lazy.collect().height
    malformed = jetarrow.polars.scan(nats_url, filled, schema=SCHEMA).filter(pl.col("_error").is_not_null())
    assert malformed.select("_corrupt_record").collect().to_series().to_list() == ["no JSON"]
    with pytest.raises(Exception, match="not JSON"):
        jetarrow.polars.scan(nats_url, filled, schema=SCHEMA, mode="FAILFAST").select("seq").collect()


def test_scan_raises_for_unknown_format_and_missing_stream(nats_url: str) -> None:
    with pytest.raises(ValueError, match="format must be"):
        jetarrow.polars.scan(nats_url, "S", format="csv")  # type: ignore[arg-type]
    with pytest.raises((NotFoundError, pl.exceptions.ComputeError), match="NoSuch"):
        jetarrow.polars.scan(nats_url, "NoSuch").collect()
