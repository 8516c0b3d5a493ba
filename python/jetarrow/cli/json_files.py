"""Rows of JSON files with the types of a sample. duckdb converts the values; rows that do not fit are named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# Structure of a value, as duckdb's `json_structure` names it, by the type of its column.
_FITS = {
    "BIGINT": ("UBIGINT", "BIGINT"),
    "DOUBLE": ("DOUBLE", "UBIGINT", "BIGINT"),
    "VARCHAR": ("VARCHAR",),
    "BOOLEAN": ("BOOLEAN",),
}
# Types of texts at the top, as `read_json` infers them.
_TEMPORAL = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")
_ALL_ROWS = 2**62


class FileContentError(ValueError):
    """The content of a file does not fit: a failure, not wrong usage."""


class JsonRows:
    """The rows of a JSON file, and its malformed rows.

    Args:
        connection: A connection of duckdb.
        objects: A table function with one JSON value per row.
        described: A table function whose types are those of the columns at the top.
        sample: Number of rows from which the types are inferred; -1 is all.
    """

    def __init__(self, connection: Any, objects: str, described: str, sample: int) -> None:
        import pyarrow as pa

        self._connection = connection
        limit = _ALL_ROWS if sample < 0 else sample
        found = connection.sql(
            f"select json_group_structure(json) from (select json from {objects} limit {limit})"
            " where json_type(json) = 'OBJECT'"
        ).fetchall()
        structure = json.loads(found[0][0] or "{}")
        types = {name: kind for name, kind, *_ in connection.sql(f"describe select * from {described}").fetchall()}
        self._wanted = {name: _type(kind, types.get(name, "")) for name, kind in structure.items()}
        if not self._wanted and connection.sql(f"select 1 from {objects} limit 1").fetchall():
            raise FileContentError("could not infer types: the sample of the file has no JSON object with a key")
        for name in [name for name, kind in self._wanted.items() if kind in _TEMPORAL]:
            # `read_json` knows more notations of times than a conversion.
            one = _literal({name: self._wanted[name]})
            lost = (
                f"json_transform(json, {one})[{_literal(name)}] is null and json_type(json, {_path(name)}) = 'VARCHAR'"
            )
            if connection.sql(f"select 1 from (from {objects} limit {limit}) where {lost} limit 1").fetchall():
                self._wanted[name] = "VARCHAR"
        literal = _literal(self._wanted)
        if not self._wanted:
            self.schema = pa.schema([])
            return
        self._reader = pa.RecordBatchReader.from_stream(
            connection.sql(f"select json_transform(json, {literal}) as v, json_structure(json) as s from {objects}")
        )
        self.schema = pa.schema(list(self._reader.schema.field("v").type))

    def __iter__(self) -> Iterator[tuple[pa.RecordBatch, list[tuple[str, str]]]]:
        """Iterate over batches, each with place and reason of its malformed rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        reasons: dict[str | None, str | None] = {}
        first = 1
        if not self._wanted:
            return
        for batch in self._reader:
            values, structures = batch.column("v"), batch.column("s").dictionary_encode()
            broken: dict[int, str] = {}
            for code, structure in enumerate([*structures.dictionary.to_pylist(), None]):
                if structure not in reasons:
                    reasons[structure] = _mismatch_of(structure, self._wanted)
                codes = structures.indices
                rows = pc.is_null(codes) if structure is None else pc.fill_null(pc.equal(codes, code), False)
                if (reason := reasons[structure]) is not None:
                    broken |= dict.fromkeys(pc.indices_nonzero(rows).to_pylist(), reason)
                else:
                    broken |= _lost(values, _structure_of(structure), rows)
            columns = pa.RecordBatch.from_struct_array(values)
            if broken:
                columns = columns.filter(pa.array([row not in broken for row in range(len(values))]))
            yield columns, [(f"record {first + row:,}", broken[row]) for row in sorted(broken)]
            first += len(values)


def _literal(value: Any) -> str:
    """Return a text, or another value as JSON, as a literal of SQL."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "'" + text.replace("'", "''") + "'"


def _path(name: str) -> str:
    """Return the JSON path of a key as a literal of SQL."""
    return _literal("/" + name.replace("~", "~0").replace("/", "~1"))


def _type(structure: Any, described: str) -> Any:
    """Return the type of a column in the notation of `json_transform`.

    Args:
        structure: The merged structure of its values.
        described: The type that `read_json` infers; empty for fields of structs.
    """
    if isinstance(structure, dict):
        # Objects with keys that differ from row to row.
        return described if described.startswith("MAP(") else {key: _type(of, "") for key, of in structure.items()}
    if isinstance(structure, list):
        return [_type(structure[0], "")]
    if structure == "VARCHAR" and described in _TEMPORAL:
        return described
    return {"UBIGINT": "BIGINT", "NULL": "JSON"}.get(structure, structure)


def _structure_of(text: str | None) -> Any:
    """Return a structure of `json_structure`, which names an empty object "JSON"."""
    found = json.loads(text or "{}")
    return {} if found == "JSON" else found


def _mismatch_of(structure: str | None, wanted: dict[str, Any]) -> str | None:
    """Return why a row with this structure does not have the wanted types; None if it has."""
    if structure is None:
        return "it is not JSON"
    found = _structure_of(structure)
    if not isinstance(found, dict):
        return "it is not a JSON object"
    return _mismatch(found, wanted, "")


def _mismatch(found: Any, wanted: Any, path: str) -> str | None:
    if found == "NULL" or wanted == "JSON" or (isinstance(wanted, str) and wanted.startswith("MAP(")):
        return None
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, of in found.items():
            name = f"{path}.{key}" if path else key
            if key not in wanted:
                return f"column {name!r} is not in the sample from which the types were inferred (--sample)"
            if (reason := _mismatch(of, wanted[key], name)) is not None:
                return reason
        return None
    if isinstance(wanted, dict) and found == "JSON":
        # An empty object.
        return None
    if isinstance(wanted, list) and isinstance(found, list):
        return _mismatch(found[0], wanted[0], f"{path}[]")
    if (
        isinstance(wanted, str)
        and isinstance(found, str)
        and found in _FITS.get(wanted, ("VARCHAR",) if wanted in _TEMPORAL else (wanted,))
    ):
        return None
    return f"column {path!r} is {_name(wanted)} in the sample, and {_name(found)} here"


def _name(kind: Any) -> str:
    if isinstance(kind, str):
        return {"UBIGINT": "an integer", "BIGINT": "an integer", "DOUBLE": "a number", "VARCHAR": "a string"}.get(
            kind, kind
        )
    return "an object" if isinstance(kind, dict) else "an array"


def _lost(values: Any, structure: dict[str, Any], rows: Any, path: str = "") -> dict[int, str]:
    """Return the rows with a value that the conversion has lost: too large a number, or a text that is no date."""
    import pyarrow.compute as pc

    found: dict[int, str] = {}
    for number, column in enumerate(values.type):
        kind = structure.get(column.name, "NULL")
        if kind == "NULL":
            continue
        inner = values.field(number)
        name = f"{path}.{column.name}" if path else column.name
        if inner.null_count:
            lost = pc.indices_nonzero(pc.and_(pc.is_null(inner), rows)).to_pylist()
            found |= dict.fromkeys(lost, f"column {name!r} has a value that is no {column.type}")
        if isinstance(kind, dict) and str(inner.type).startswith("struct"):
            found |= _lost(inner, kind, rows, name)
    return found
