"""The `schema=` option of a read: an Arrow schema, DDL text, a dict of types, or "infer"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from jetarrow import _jetarrow
from jetarrow.jetstream.arrow import needs_pyarrow

if TYPE_CHECKING:
    import pyarrow

_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+)|([<>(),:]))")
_DDL = {
    **dict.fromkeys(("BIGINT", "LONG", "INT64"), "int64"),
    **dict.fromkeys(("INT", "INTEGER", "INT32"), "int32"),
    **dict.fromkeys(("SMALLINT", "SHORT", "INT16"), "int16"),
    **dict.fromkeys(("TINYINT", "BYTE", "INT8"), "int8"),
    **dict.fromkeys(("DOUBLE", "FLOAT64"), "float64"),
    **dict.fromkeys(("FLOAT", "REAL", "FLOAT32"), "float32"),
    **dict.fromkeys(("STRING", "TEXT", "VARCHAR", "CHAR"), "string"),
    **dict.fromkeys(("BOOLEAN", "BOOL"), "bool_"),
    "BINARY": "binary",
    "DATE": "date32",
}
_OF_PYTHON = {int: "int64", float: "float64", str: "string", bool: "bool_", bytes: "binary", date: "date32"}


def arrow_schema(schema: object) -> object:
    """Converts DDL text and dicts of types to an Arrow schema; returns any other value unchanged.

    Args:
        schema: As for `js.read`.

    Raises:
        ValueError: The text is not valid DDL, or a type is unknown.
        UnsupportedError: pyarrow is not installed.
    """
    return parse_schema(schema) if isinstance(schema, str | Mapping) else schema


class PayloadSchema:
    """The Arrow schema of a payload that is an Arrow IPC stream; None means a schema without columns."""

    def __init__(self, payload: bytes | None) -> None:
        self._payload = payload

    def __arrow_c_schema__(self) -> object:
        return _jetarrow.schema_of_payload(self._payload)


def parse_schema(schema: str | Mapping[str, Any]) -> pyarrow.Schema:
    """Converts DDL text or a dict of types to an Arrow schema.

    Args:
        schema: Text such as "id BIGINT, name STRING", or a dict of name to DDL type, Python type or Arrow type (a dict
            is a struct, a list of one type a list).

    Raises:
        ValueError: The text is not valid DDL, or a type is unknown.
        UnsupportedError: pyarrow is not installed.
    """
    if isinstance(schema, str):
        pa = needs_pyarrow("schema= as text")
        return pa.schema(_Ddl(pa, schema).fields(""))
    pa = needs_pyarrow("schema= as a dict")
    return pa.schema([(name, _of_python(pa, kind)) for name, kind in schema.items()])


def _of_python(pa: Any, kind: Any) -> pyarrow.DataType:
    from decimal import Decimal  # Imported here to keep the import of the package short.

    if isinstance(kind, str):
        return _Ddl(pa, kind).single()
    if isinstance(kind, Mapping):
        return pa.struct([(name, _of_python(pa, inner)) for name, inner in kind.items()])
    if isinstance(kind, list) and len(kind) == 1:
        return pa.list_(_of_python(pa, kind[0]))
    if kind is datetime:
        return pa.timestamp("us", "UTC")
    if kind is Decimal:
        return pa.decimal128(38, 18)
    if isinstance(kind, type) and kind in _OF_PYTHON:
        return getattr(pa, _OF_PYTHON[kind])()
    if isinstance(kind, pa.DataType):
        return kind
    raise ValueError(f"schema: {kind!r} is not a type: pass a Python type, DDL text such as 'BIGINT', or an Arrow type")


class _Ddl:
    """Parser of Spark's DDL: `id BIGINT, tags ARRAY<STRING>, at TIMESTAMP`."""

    def __init__(self, pa: Any, text: str) -> None:
        self._pa = pa
        self._text = text
        self._tokens: list[tuple[str, bool]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong(f"unexpected {text[at:].strip()[:10]!r}")
            quoted, word, sign = found.groups()
            self._tokens.append((quoted.replace("``", "`") if quoted else word or sign, not sign))
            at = found.end()

    def _wrong(self, why: str) -> ValueError:
        return ValueError(f'schema: {why} in {self._text!r}; write for example "id BIGINT, name STRING"')

    def _next(self, *wanted: str) -> str:
        if not self._tokens:
            raise self._wrong("unexpected end of the text")
        token, is_word = self._tokens.pop(0)
        if token not in wanted if wanted else not is_word:
            raise self._wrong(f"unexpected {token!r}")
        return token

    def _take(self, token: str) -> bool:
        if self._tokens and self._tokens[0][0].upper() == token:
            self._tokens.pop(0)
            return True
        return False

    def single(self) -> pyarrow.DataType:
        """Parses a single type."""
        kind = self._type()
        if self._tokens:
            raise self._wrong(f"unexpected {self._tokens[0][0]!r}")
        return kind

    def fields(self, end: str) -> list[pyarrow.Field]:
        """Parses names and types up to `end`; "" is the end of the text."""
        found = []
        while True:
            name = self._next()
            self._take(":")
            kind = self._type()
            required = self._take("NOT") and bool(self._next("NULL", "null"))
            found.append(self._pa.field(name, kind, nullable=not required))
            if end and self._take(end):
                return found
            if not end and not self._tokens:
                return found
            self._next(",")

    def _type(self) -> pyarrow.DataType:
        pa, word = self._pa, self._next().upper()
        if word in _DDL:
            if word in ("VARCHAR", "CHAR") and self._take("("):
                self._next()
                self._next(")")
            return getattr(pa, _DDL[word])()
        if word in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            return pa.timestamp("us", "UTC")
        if word == "TIMESTAMP_NTZ":
            return pa.timestamp("us")
        if word in ("DECIMAL", "NUMERIC", "DEC"):
            precision, scale = 10, 0
            if self._take("("):
                precision = int(self._next())
                scale = int(self._next()) if self._next(",", ")") == "," else 0
                if self._tokens and self._tokens[0][0] == ")":
                    self._next(")")
            return pa.decimal128(precision, scale)
        if word == "ARRAY":
            self._next("<")
            items = self._type()
            self._next(">")
            return pa.list_(items)
        if word == "MAP":
            self._next("<")
            key = self._type()
            self._next(",")
            value = self._type()
            self._next(">")
            return pa.map_(key, value)
        if word == "STRUCT":
            self._next("<")
            return pa.struct(self.fields(">"))
        raise self._wrong(f"unknown type {word!r}")
