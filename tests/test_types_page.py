"""docs/types.md: each row of the table is compared with the parser of schemas and with the native decoder."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.jetstream.schema import _DDL, _OF_PYTHON, parse_schema
from jetarrow.server import NatsServer

PAGE = (Path(__file__).parents[1] / "docs" / "types.md").read_text("utf-8")
TABLE = PAGE.partition("<!-- types -->\n")[2].partition("<!-- /types -->")[0]
ROWS = [[re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:-1]] for line in TABLE.splitlines()[2:]]
PYTHON = {"int": int, "float": float, "str": str, "bool": bool, "bytes": bytes, "date": date, "datetime": datetime}


def test_the_table_has_every_type() -> None:
    names = {name for row in ROWS for name in row[0]}
    parsed = {*_DDL, "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DECIMAL", "NUMERIC", "DEC"}
    assert len(_DDL) > 20
    assert parsed <= names
    # The parser knows no other word.
    source = Path(parse_schema.__code__.co_filename).read_text("utf-8")
    words = set(re.findall(r'"([A-Z_]{3,})"', source.partition("def _type(")[2].partition("\ndef ")[0]))
    assert words - {"UTC"} - parsed == {"ARRAY", "MAP", "STRUCT"}
    assert {name for row in ROWS for name in row[1] if name.isidentifier()} == set(PYTHON)
    assert set(_OF_PYTHON) < set(PYTHON.values())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][0])
def test_names_have_the_documented_arrow_type(row: list[list[str]]) -> None:
    names, of_python, (arrow,), accepted, malformed = row
    assert accepted
    assert malformed
    for name in names:
        assert str(parse_schema(f"v {name}").field("v").type) == arrow
        assert str(parse_schema(f"`a name`: {name.lower()} not null").field("a name").type) == arrow
    for name in of_python:
        kind: Any = PYTHON.get(name) or {"a": "INT", "b": str}
        assert str(parse_schema({"v": kind}).field("v").type) == arrow


def test_values_are_accepted_or_malformed_as_documented(own_server: NatsServer) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        for number, (names, _, _, accepted, malformed) in enumerate(ROWS):
            js.add_stream(name=f"S{number}", subjects=[f"s{number}"])
            payloads = [f'{{"v": {value}}}' for value in [*accepted, *malformed, "null"]] + ["{}"]
            js.publish_batch(f"s{number}", payloads).raise_for_errors()
            table = js.read(f"S{number}", schema=f"v {names[0]}", columns=["value"]).read_all()
            errors = table["_error"].to_pylist()
            found = dict(zip(payloads, errors, strict=True))
            assert [bool(error) for error in errors] == [False] * len(accepted) + [True] * len(malformed) + [
                False
            ] * 2, (
                names,
                found,
            )


def test_notes_below_the_table(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    payload = {
        "decimal": 12.345,
        "short": "longer than 3",
        "binary": "3q2+7w==",
        "at": "2026-01-02T03:04:05.1234567Z",
        "zone": "2026-01-02T03:04:05",
        "large": 9007199254740993,
        "dict": 0.5,
    }
    text = json.dumps(payload)[:-1] + ', "large": 9007199254740995}'
    sync_js.publish(f"{stream}.a", text)
    types = {"decimal": "DECIMAL(5,2)", "short": "VARCHAR(3)", "binary": bytes, "at": datetime, "zone": datetime}
    schema = {**types, "large": int, "dict": Decimal}
    reader = sync_js.read(stream, schema=schema, columns=["value"], mode="FAILFAST", time_zone="+02:00")
    value = reader.read_all()["value"][0].as_py()
    assert value["decimal"] == Decimal("12.35")
    assert value["short"] == "longer than 3"
    assert value["binary"] == b"\xde\xad\xbe\xef"
    assert value["at"].microsecond == 123456
    assert value["zone"].hour == 1
    assert value["large"] == 9007199254740995
    assert parse_schema({"dict": Decimal}).field("dict").type == pa.decimal128(38, 18)
    required = sync_js.read(stream, schema="missing INT NOT NULL", columns=["value"]).read_all()
    assert required["_error"][0].as_py()
