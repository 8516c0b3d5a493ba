"""Inferred schemas: a warning names a type that a later message widened, and the schema to state."""

from __future__ import annotations

import json
import warnings

import jetarrow.sync
import pytest
from jetarrow.jetstream.infer import infer_schema
from jetarrow.jetstream.schema import arrow_schema


def inferred(*rows: object) -> tuple[str | None, str]:
    found = infer_schema(json.dumps(row).encode() for row in rows)
    return found.advice("S"), ", ".join(f"{field.name}: {field.type}" for field in found.schema)


def test_same_types_have_no_advice() -> None:
    assert inferred({"id": 1, "a": None}, {"id": 2, "a": "x"}, {"b": 1.5}) == (None, "id: int64, a: string, b: double")


def test_widened_field_is_named_with_types_and_message() -> None:
    advice, schema = inferred({"id": 1, "price": 1}, {"id": 2, "price": 2}, {"id": 3, "price": 2.5})
    assert schema == "id: int64, price: double"
    assert advice == (
        "schema=\"infer\" of stream 'S' widened field 'price' from int64 to float64 (message 3 of the sample);"
        ' to state the types, pass schema="id BIGINT, price DOUBLE"'
    )


def test_nested_and_mixed_fields_are_named_once() -> None:
    advice, _ = inferred({"l": [1], "s": {"a": True}}, {"l": [2.5], "s": {"a": "x"}}, {"l": ["y"], "s": {"a": 1}})
    assert advice is not None
    assert "field 'l[]' from int64 to string (message 2 of the sample)" in advice
    assert "field 's.a' from bool to string (message 2 of the sample)" in advice
    assert advice.count("'s.a'") == 1


def test_schema_in_the_advice_is_the_inferred_one() -> None:
    rows = [{"id": 1, "l": [1], "s": {"a": 1, "b": [True]}}, {"id": 1.5, "s": {"a": "x"}}]
    found = infer_schema(json.dumps(row).encode() for row in rows)
    advice = found.advice("S")
    assert advice is not None
    ddl = advice.partition('pass schema="')[2].removesuffix('"')
    assert arrow_schema(ddl) == found.schema


def test_names_that_need_quotes_refer_to_the_reader() -> None:
    advice, _ = inferred({"a b": 1}, {"a b": 1.5})
    assert advice is not None
    assert advice.endswith("pass schema=reader.inferred")


def test_reader_warns_of_a_widened_type(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    for payload in (b'{"id": 1}', b'{"id": 2}'):
        sync_js.publish(f"{stream}.a", payload)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sync_js.read(stream, schema="infer").read_all()
    sync_js.publish(f"{stream}.a", b'{"id": 2.5}')
    with pytest.warns(UserWarning, match=f"stream '{stream}' widened field 'id' from int64 to float64") as told:
        table = sync_js.read(stream, schema="infer", flatten=True).read_all()
    assert len(told) == 1
    assert table["id"].to_pylist() == [1.0, 2.0, 2.5]
