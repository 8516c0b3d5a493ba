"""Reduction of a commit's rows to the last change of each key, against rows applied one by one."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetarrow.jetstream.sinks.upsert import DELETED, Upsert, changes, deletion_markers, is_compacted
from jetarrow.js.api import StreamConfig

from tests.strategies import bounded

UTC = datetime.UTC
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["", "a", "A", "é", "a'b"]),
    "large_text": (pa.large_string(), ["", "a", "b"]),
    "enum": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "c"]),
    "int": (pa.int64(), [0, -1, 2**63 - 1, -(2**63)]),
    "small": (pa.int8(), [0, -128, 127]),
    "bytes": (pa.binary(), [b"", b"\0", b"\xff"]),
    "fixed": (pa.binary(2), [b"ab", b"\0\0"]),
    "bool": (pa.bool_(), [True, False]),
    "decimal": (pa.decimal128(38, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.50")]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2026, 1, 1)]),
    "time": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime.datetime(2026, 1, 1, 0, 0, 0, 1, UTC)],
    ),
}
# A change: subject, whether it is a marker, and positions of values.
CHANGES = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 9), st.integers(0, 1)), max_size=12)


class Model:
    """A table in memory, with changes applied as a merge does."""

    def __init__(self, types: pa.Schema, key: tuple[str, ...]) -> None:
        self.types, self.key = types, key
        self.rows: dict[Any, dict[str, Any]] = {}

    def find(self, subjects: pa.Array) -> pa.Table:
        wanted = set(subjects.to_pylist())
        names = dict.fromkeys((*self.key, "subject", "seq"))
        found = [{name: row[name] for name in names} for row in self.rows.values() if row["subject"] in wanted]
        return pa.Table.from_pylist(found, pa.schema([self.types.field(name) for name in names]))

    def merge(self, source: pa.Table) -> None:
        seen = set()
        for row in source.to_pylist():
            key = tuple(row[name] for name in self.key)
            assert key not in seen
            seen.add(key)
            old = self.rows.get(key)
            if row.pop(DELETED):
                if old is not None and old["seq"] < row["seq"]:
                    del self.rows[key]
            elif old is None or old["seq"] < row["seq"]:
                self.rows[key] = row


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("key", [("subject",), ("id",), ("id", "part"), ("subject", "part")])
@bounded(30)
@given(commits=st.lists(CHANGES, max_size=4), shuffled=st.randoms())
def test_changes_of_commits_give_the_rows_of_single_changes(
    kind: str, key: tuple[str, ...], commits: list[list[tuple[int, bool, int, int]]], shuffled: Any
) -> None:
    type_, values = VALUES[kind]
    types = pa.schema(
        [("stream", pa.string()), ("seq", pa.int64()), ("subject", pa.string()), ("id", type_), ("part", pa.int64())]
    )
    schema = types.append(pa.field(DELETED, pa.bool_()))
    model, upsert, seq = Model(types, key), Upsert(key, "markers"), 0
    expected: dict[Any, dict[str, Any]] = {}
    for commit in commits:
        rows = []
        for subject, is_marker, value, part in commit:
            seq += 1
            row: dict[str, Any] = {"stream": "S", "seq": seq, "subject": f"s{subject}", "id": None, "part": None}
            if is_marker:
                expected = {k: old for k, old in expected.items() if old["subject"] != row["subject"]}
            else:
                row |= {"id": values[value % len(values)], "part": part}
                expected[tuple(row[name] for name in key)] = row
            rows.append({**row, DELETED: is_marker})
        shuffled.shuffle(rows)
        if rows:
            model.merge(changes(pa.Table.from_pylist(rows, schema), upsert, model.find))
        assert model.rows == expected


def test_deletion_markers_are_those_of_key_value_buckets() -> None:
    rows: list[Any] = [
        (None, False),
        ([], False),
        ([("KV-Operation", ["DEL"])], True),
        ([("Other", ["DEL"]), ("KV-Operation", ["PURGE"])], True),
        ([("KV-Operation", ["PUT"])], False),
        ([("KV-Operation", [])], False),
        ([("KV-Operation", ["PUT", "DEL"])], True),
        ([("KV-Operation", ["DEL", "PUT"])], False),
        ([("Nats-Marker-Reason", ["MaxAge"])], True),
        ([("Nats-Marker-Reason", ["Later"]), ("Other", ["x"])], True),
        # The header of the client decides.
        ([("Nats-Marker-Reason", ["MaxAge"]), ("KV-Operation", ["PUT"])], False),
        ([("Nats-TTL", ["5s"])], False),
    ]
    headers = pa.array([row for row, _ in rows], pa.map_(pa.string(), pa.list_(pa.string())))
    wanted = [marker for _, marker in rows]
    assert deletion_markers(headers).to_pylist() == wanted
    assert deletion_markers(headers.slice(3, 6)).to_pylist() == wanted[3:9]
    assert deletion_markers(headers.slice(0, 2)).to_pylist() == [False, False]
    assert pc.all(pc.invert(deletion_markers(pa.nulls(3, headers.type)))).as_py()


@pytest.mark.parametrize(
    ("config", "compacted"),
    [
        ({}, False),
        ({"max_msgs_per_subject": 1}, True),
        ({"max_msgs_per_subject": 5, "max_bytes": 1000, "discard": "new"}, True),
        ({"max_msgs_per_subject": 5, "max_bytes": 1000}, False),
        ({"max_msgs_per_subject": 5, "max_msgs": 1000}, False),
        ({"max_msgs_per_subject": 1, "max_age": 60}, False),
        ({"max_msgs_per_subject": 1, "max_age": 60, "subject_delete_marker_ttl": 10}, True),
    ],
)
def test_streams_that_lose_only_replaced_messages_are_compacted(config: dict[str, Any], compacted: bool) -> None:
    assert is_compacted(StreamConfig(name="S", **config)) is compacted
