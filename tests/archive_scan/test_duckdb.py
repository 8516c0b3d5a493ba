"""`jetarrow.duckdb.register`: streams, and archives with their streams, as tables of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import jetarrow.duckdb
import jetarrow.polars
import jetarrow.sync
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetarrow.archive_scan import stream_rest, stream_table
from jetarrow.archive_scan.expressions import query_of
from jetarrow.js.errors import NotFoundError, SinkError

from ..strategies import bounded
from .tools import KINDS, NOWHERE, SCHEMA, archive, collected, data_files, publish, sink


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        # Python objects of times with a zone need pytz, which is not installed.
        con.execute("SET TimeZone = 'UTC'")
        yield con


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Options of the reads that the queries start."""
    found: list[dict[str, Any]] = []

    def noted(*args: Any, **options: Any) -> Any:
        found.append(options)
        return spec(*args, **options)

    spec = stream_rest.ReadSpec
    for module in (stream_rest, stream_table):
        monkeypatch.setattr(module, "ReadSpec", noted)
    return found


def seqs(con: duckdb.DuckDBPyConnection, where: str) -> list[int]:
    return [seq for (seq,) in con.execute(f"SELECT seq FROM orders WHERE {where} ORDER BY seq").fetchall()]


def test_a_stream_is_read_again_by_each_query(
    sync_js: jetarrow.sync.JetStream,
    nats_url: str,
    stream: str,
    con: duckdb.DuckDBPyConnection,
    read: list[dict[str, Any]],
) -> None:
    publish(sync_js, stream, 0, 20)
    jetarrow.duckdb.register(con, "orders", nats_url, stream=stream, schema=SCHEMA)
    columns = ["stream", "seq", "subject", "timestamp", "headers", *SCHEMA, "_corrupt_record", "_error"]
    assert [row[0] for row in con.execute("DESCRIBE orders").fetchall()] == columns
    assert con.execute("SELECT count(*), count(id), count(_error) FROM orders").fetchall() == [(20, 18, 2)]
    publish(sync_js, stream, 20, 30)
    assert con.execute("SELECT sum(id) FROM orders").fetchall() == [(sum(range(30)) - 7 - 17 - 27,)]
    joined = "SELECT count(*) FROM orders a JOIN orders b USING (seq) WHERE a.id < b.id + 1"
    assert con.execute(joined).fetchall() == [(27,)]
    read.clear()
    assert seqs(con, f"seq BETWEEN 5 AND 9 AND subject = '{stream}.a'") == [7]
    (options,) = read
    assert (options["start_seq"], options["end_seq"], options["subjects"]) == (5, 10, [f"{stream}.a"])
    assert options["columns"] == ["seq", "subject", "value"]
    assert seqs(con, "seq > 5 AND seq < 3") == []
    assert len(read) == 1
    middle = con.execute("SELECT timestamp::VARCHAR FROM orders WHERE seq = 15").fetchone()
    assert middle is not None
    assert seqs(con, f"timestamp >= TIMESTAMPTZ '{middle[0]}'") == list(range(15, 31))
    assert read[-1]["start_time"] is not None
    assert len(con.execute('SELECT * EXCLUDE (timestamp, "at") FROM orders LIMIT 3').fetchall()) == 3
    assert con.execute("SELECT id FROM orders WHERE price > 3 ORDER BY id LIMIT 2").fetchall() == [(26,), (28,)]


def test_a_stream_without_schema_has_its_payloads(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, con: duckdb.DuckDBPyConnection
) -> None:
    publish(sync_js, stream, 0, 6)
    jetarrow.duckdb.register(con, "orders", nats_url, stream=stream, subjects=[f"{stream}.a", f"{stream}.b"])
    assert con.execute("SELECT octet_length(data) FROM orders WHERE seq IN (4, 8)").fetchall() == [(71,)]
    assert seqs(con, "true") == [1, 2, 4, 5]
    # Filters of the query do not widen those of the table.
    assert seqs(con, f"subject IN ('{stream}.b', '{stream}.c')") == [2, 5]
    with pytest.raises(NotFoundError):
        jetarrow.duckdb.register(con, "none", nats_url, stream="NONE")


@pytest.mark.parametrize(("kind", "unit"), [("parquet", "ns"), ("parquet", "us"), ("delta", "us")])
def test_archive_and_stream_are_one_table(
    sync_js: jetarrow.sync.JetStream,
    nats_url: str,
    stream: str,
    tmp_path: Path,
    con: duckdb.DuckDBPyConnection,
    kind: str,
    unit: str,
) -> None:
    options = {} if kind == "delta" else {"timestamp_unit": unit}
    publish(sync_js, stream, 0, 30)
    archive(sync_js, kind, stream, tmp_path, partition_by="region", **options, rows=8)
    publish(sync_js, stream, 30, 50)
    jetarrow.duckdb.register(con, "orders", nats_url, stream=stream, archive=tmp_path)
    every = collected(jetarrow.polars.scan(nats_url, stream, archive=tmp_path))
    con.register("every", every.to_arrow())
    middle = every["timestamp"].dt.cast_time_unit("us").to_list()[15].isoformat()
    for where in (
        "true",
        "seq > 20",
        "seq <= 3 OR seq IN (25, 44)",
        "region = 'eu' AND id > 10",
        "region IS NULL",
        "price > 2.5",
        "NOT price > 2.5",
        f"subject = '{stream}.b'",
        f"subject IN ('{stream}.b', '{stream}.c') AND seq % 2 = 0",
        "starts_with(region, 'e')",
    ):
        wanted = con.execute(f"SELECT seq FROM every WHERE {where} ORDER BY seq").fetchall()
        assert [(seq,) for seq in seqs(con, where)] == wanted, where
    for operator, low in ((">=", 16), (">", 17), ("=", 16)):
        rows = seqs(con, f"timestamp {operator} TIMESTAMPTZ '{middle}'")
        assert rows[0] == every["seq"].to_list()[low - 1]
    assert con.execute("SELECT count(*), sum(id), max(region) FROM orders").fetchall() == [
        (every.height, every["id"].sum(), "us")
    ]
    # The table moves with both.
    publish(sync_js, stream, 50, 55)
    archive(sync_js, kind, stream, tmp_path, partition_by="region", **options)
    publish(sync_js, stream, 60, 65)
    assert con.execute("SELECT count(*) FROM orders").fetchall() == [(every.height + 10,)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_filter_that_excludes_a_part_does_not_read_it(
    sync_js: jetarrow.sync.JetStream,
    nats_url: str,
    stream: str,
    tmp_path: Path,
    con: duckdb.DuckDBPyConnection,
    kind: str,
) -> None:
    publish(sync_js, stream, 0, 6)
    archive(sync_js, kind, stream, tmp_path)
    publish(sync_js, stream, 10, 15)
    jetarrow.duckdb.register(con, "orders", NOWHERE, stream=stream, archive=tmp_path)
    assert seqs(con, "seq < 7") == seqs(con, "seq IN (1, 2, 3, 4, 5, 6)") == [1, 2, 3, 4, 5, 6]
    with pytest.raises(duckdb.Error, match="127"):
        seqs(con, "seq < 8")
    jetarrow.duckdb.register(con, "orders", nats_url, stream=stream, archive=tmp_path)
    for path in data_files(tmp_path):
        path.unlink()
    assert seqs(con, "seq > 6") == [7, 8, 9, 10, 11]
    with pytest.raises(duckdb.Error, match="could not read"):
        seqs(con, "seq > 5")


def test_errors_of_a_query_have_the_text_of_their_cause(
    sync_js: jetarrow.sync.JetStream,
    nats_url: str,
    stream: str,
    tmp_path: Path,
    con: duckdb.DuckDBPyConnection,
) -> None:
    with pytest.raises(SinkError, match="no sink has committed there"):
        jetarrow.duckdb.register(con, "orders", nats_url, stream=stream, archive=tmp_path)
    publish(sync_js, stream, 0, 5)
    archive(sync_js, "parquet", stream, tmp_path)
    publish(sync_js, stream, 10, 15)
    sync_js.purge_stream(stream, seq=8)
    jetarrow.duckdb.register(con, "orders", nats_url, stream=stream, archive=tmp_path)
    with pytest.raises(duckdb.Error, match="sequences 6 to 7"):
        seqs(con, "true")
    assert seqs(con, "seq > 7") == [8, 9, 10]
    with pytest.raises(ValueError, match="FAILFAST"):
        jetarrow.duckdb.register(con, "x", nats_url, stream=stream, archive=tmp_path, mode="FAILFAST")
    with pytest.raises(TypeError, match="archve"):
        jetarrow.duckdb.register(con, "x", nats_url, stream=stream, archve=tmp_path)  # type: ignore[call-arg]


def test_each_query_sees_a_prefix_while_the_sink_compacts(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path, con: duckdb.DuckDBPyConnection
) -> None:
    publish(sync_js, stream, 0, 5)
    with sink(sync_js, "parquet", stream, tmp_path, rows=3, seconds=0.05, schema=None) as one:
        one.step()
        jetarrow.duckdb.register(con, "orders", nats_url, stream=stream, archive=tmp_path)
        for turn in range(1, 11):
            publish(sync_js, stream, 0, 5)
            one.step()
            one.compact()
            assert seqs(con, "true") == list(range(1, 6 + 5 * turn))


FIELDS = pa.schema(
    [("seq", pa.int64()), ("subject", pa.string()), ("timestamp", pa.timestamp("us", "UTC")), ("v", pa.int64())]
)
ROWS = pa.table(
    {
        "seq": range(1, 61),
        "subject": [f"s.{number % 4}" for number in range(60)],
        "timestamp": pa.array([1_700_000_000_000_000 + number for number in range(60)], FIELDS.field("timestamp").type),
        "v": [number % 7 for number in range(60)],
    },
    schema=FIELDS,
)


def compared(name: str, value: Any, operator: str) -> pc.Expression:
    field, scalar = pc.field(name), pa.scalar(value, FIELDS.field(name).type)
    found = {"==": field == scalar, "!=": field != scalar, "<": field < scalar, ">": field > scalar}
    found |= {"<=": field <= scalar, ">=": field >= scalar, "in": field.isin(pa.array([value], scalar.type))}
    # As DuckDB writes IN.
    return (
        found[operator] if operator != "in" else pc.if_else(field.is_valid(), found["in"], pa.scalar(None, pa.bool_()))
    )


operators = st.sampled_from(["==", "!=", "<", ">", "<=", ">=", "in"])
leaves = (
    st.builds(compared, st.just("seq"), st.integers(-3, 70), operators)
    | st.builds(compared, st.just("subject"), st.sampled_from(["s.0", "s.1", "s.3", "s.9"]), operators)
    | st.builds(compared, st.just("timestamp"), st.integers(1_699_999_999_999_998, 1_700_000_000_000_061), operators)
    | st.builds(compared, st.just("v"), st.integers(0, 7), operators)
)
expressions = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda one, two: one & two, inner, inner)
        | st.builds(lambda one, two: one | two, inner, inner)
        | st.builds(lambda one: ~one, inner)
    ),
    max_leaves=4,
)


@bounded(150)
@given(expressions)
def test_bounds_of_a_filter_exclude_no_row_of_its_result(expression: pc.Expression) -> None:
    query = query_of(expression, FIELDS, ("seq",))
    rows = ROWS.filter(expression).to_pylist()
    if query is None:
        assert rows == []
        return
    for row in rows:
        nanos = row["timestamp"].timestamp() * 1_000_000_000
        assert query.first is None or row["seq"] >= query.first
        assert query.end is None or row["seq"] < query.end
        assert query.subjects is None or row["subject"] in query.subjects
        assert query.since is None or nanos + 500 >= query.since
        assert query.until is None or nanos - 500 < query.until
