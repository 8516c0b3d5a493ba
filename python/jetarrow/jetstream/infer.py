"""The schema of JSON payloads, inferred from a sample."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from jetarrow.jetstream.arrow import needs_pyarrow

if TYPE_CHECKING:
    import pyarrow

# Longest schema in a warning, in characters.
_MAX_DDL = 400


class Inferred(NamedTuple):
    """The schema of a sample of JSON objects.

    Attributes:
        schema: The schema.
        widened: A text for each field whose type a later payload widened.
    """

    schema: pyarrow.Schema
    widened: list[str]

    def advice(self, stream: str) -> str | None:
        """The warning about widened fields, with the schema to state; None without such fields."""
        if not self.widened:
            return None
        listed = ", ".join(self.widened[:5]) + (", …" if len(self.widened) > 5 else "")
        ddl = _ddl(self.schema)
        how = f'schema="{ddl}"' if ddl and len(ddl) <= _MAX_DDL else "schema=reader.inferred"
        return f'schema="infer" of stream {stream!r} widened {listed}; to state the types, pass {how}'


def infer_schema(payloads: Iterable[bytes]) -> Inferred:
    """Infers the schema of JSON objects: integers are int64, other numbers float64; fields of mixed types are strings.

    Args:
        payloads: A sample; payloads that are not JSON objects are ignored.

    Raises:
        ValueError: No payload is a JSON object with a field.
    """
    pa = needs_pyarrow('schema="infer"')
    kind: Any = None
    first: dict[str, tuple[str, int]] = {}
    for number, payload in enumerate(payloads, 1):
        try:
            value = json.loads(payload)
        except ValueError:
            continue
        if isinstance(value, dict):
            joined = _joined(kind, _shape(value))
            for path, before in _widened(kind, joined):
                first.setdefault(path, (before, number))
            kind = joined
    if not kind:
        raise ValueError('schema="infer" failed: no sampled payload is a JSON object with a field; pass a schema')
    schema = pa.schema([(name, _of_shape(pa, shape)) for name, shape in kind.items()])
    return Inferred(
        schema,
        [
            f"field {path!r} from {before} to {_leaf_name(kind, path)} (message {number} of the sample)"
            for path, (before, number) in first.items()
        ],
    )


def _widened(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and earlier type of each value whose known type changes."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, inner in before.items():
            yield from _widened(inner, after[name], f"{path}.{name}" if path else name)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _widened(before[0], after[0], f"{path}[]")
    elif before is not None and before != after:
        yield path, _type_name(before)


def _leaf_name(shape: Any, path: str) -> str:
    """The type at a path of `_widened`; a part of it may have become a string meanwhile."""
    for token in path.replace("[]", ".[]").split("."):
        if isinstance(shape, dict):
            shape = shape.get(token)
        elif isinstance(shape, list):
            shape = shape[0]
    return _type_name(shape)


def _type_name(shape: Any) -> str:
    if isinstance(shape, dict | list):
        return "struct" if isinstance(shape, dict) else "list"
    return {"bool_": "bool", "mixed": "string"}.get(str(shape), str(shape))


def _ddl(schema: pyarrow.Schema) -> str:
    """An inferred schema as DDL text; empty if a name would need quotes."""
    types = {"int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "string": "STRING"}
    names: list[str] = []

    def text(kind: Any) -> str:
        if hasattr(kind, "value_type"):
            return f"ARRAY<{text(kind.value_type)}>"
        if getattr(kind, "num_fields", 0):
            names.extend(field.name for field in kind)
            return "STRUCT<" + ", ".join(f"{field.name}: {text(field.type)}" for field in kind) + ">"
        return types.get(str(kind), "STRING")

    ddl = ", ".join(f"{field.name} {text(field.type)}" for field in schema)
    return ddl if all(name.isidentifier() for name in [*schema.names, *names]) else ""


def _shape(value: Any) -> Any:
    """The type of a JSON value: a dict of types, a list of one type, a name, or None if it is unknown (null)."""
    if isinstance(value, dict):
        return {name: _shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        items = None
        for item in value:
            items = _joined(items, _shape(item))
        return [items]
    if isinstance(value, bool):
        return "bool_"
    if isinstance(value, int):
        return "int64" if -(1 << 63) <= value < 1 << 63 else "float64"
    return {float: "float64", str: "string"}.get(type(value))


def _joined(one: Any, other: Any) -> Any:
    """The common type of two."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: _joined(one.get(name), other.get(name)) for name in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [_joined(one[0], other[0])]
    if one == other:
        return one
    return "float64" if {"int64", "float64"} == {str(one), str(other)} else "mixed"


def _of_shape(pa: Any, shape: Any) -> pyarrow.DataType:
    if isinstance(shape, dict) and shape:
        return pa.struct([(name, _of_shape(pa, inner)) for name, inner in shape.items()])
    if isinstance(shape, list):
        return pa.list_(_of_shape(pa, shape[0]))
    if shape in ("int64", "float64", "bool_"):
        return getattr(pa, shape)()
    return pa.string()
