"""Files of `jetarrow load`: their types, their rows, and rows that do not have these types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from jetarrow.cli.json_files import FileContentError, JsonRows

if TYPE_CHECKING:
    import pyarrow as pa

Malformed = Literal["report", "drop", "fail"]
_JSON = {"ndjson": "newline_delimited", "jsonl": "newline_delimited", "json": "auto"}
_CSV = ("csv", "tsv")
_BATCH_ROWS = 65_536
_CSV_ERROR = re.compile(r"CSV Error on Line: (\d+)\s+(?:Original Line:.*\n)?(.*)")
# Most malformed rows of a CSV file that are counted.
_MOST_REJECTS = 100_000


@dataclass
class MalformedRows:
    """The rows of a file that do not have the file's types.

    Attributes:
        count: Their number.
        first: Place and reason of the first ones.
        is_minimum: Whether there may be more than `count`.
    """

    count: int = 0
    first: list[str] = field(default_factory=list)
    is_minimum: bool = False


@dataclass
class LoadFile:
    """The rows of a file.

    Attributes:
        rows: Their number; None if it is unknown.
        schema: Their types.
        batches: The rows.
        malformed: The malformed rows, complete when `batches` is at its end.
    """

    rows: int | None
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    malformed: MalformedRows = field(default_factory=MalformedRows)


def open_file(path: Path, *, sample: int, malformed: Malformed) -> LoadFile:
    """Open a file by the extension of its name.

    Args:
        path: The file.
        sample: Number of rows from which the types of a text file are inferred; -1 is all.
        malformed: Whether the first malformed row of a text file is an error.

    Raises:
        BadParameter: The file type is not supported.
    """
    import pyarrow as pa
    import pyarrow.parquet

    endings = [ending.lstrip(".").lower() for ending in path.suffixes[-2:]]
    kind = endings[-2] if endings[-1:] in (["gz"], ["zst"]) and len(endings) > 1 else "".join(endings[-1:])
    if kind == "parquet":
        file = pyarrow.parquet.ParquetFile(path)
        return LoadFile(file.metadata.num_rows, file.schema_arrow, file.iter_batches(_BATCH_ROWS))
    if kind in ("arrow", "feather", "ipc"):
        with suppress(pa.ArrowInvalid):
            batches = pa.ipc.open_file(pa.memory_map(str(path)))
            return LoadFile(None, batches.schema, (batches.get_batch(at) for at in range(batches.num_record_batches)))
        stream = pa.ipc.open_stream(pa.memory_map(str(path)))
        return LoadFile(None, stream.schema, iter(stream))
    if kind in _CSV:
        return _open_csv(path, sample, malformed)
    if kind in _JSON:
        return _open_json(path, _JSON[kind], sample, malformed)
    known = ", ".join(["parquet", "arrow", *_CSV, *_JSON])
    raise typer.BadParameter(f"{path.name}: the file type is not supported; use one of {known}.", param_hint="FILE")


def _connect(path: Path) -> Any:
    try:
        import duckdb
    except ImportError:
        raise RuntimeError(
            f'could not read {path.name}: CSV and JSON files need duckdb; run pip install "jetarrow[cli]"'
        ) from None
    connection = duckdb.connect()
    # The order of rows is part of the position of a load.
    connection.execute("SET preserve_insertion_order=true").fetchall()
    return connection


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _open_csv(path: Path, sample: int, mode: Malformed) -> LoadFile:
    import pyarrow as pa

    connection = _connect(path)
    rejects = "" if mode == "fail" else f", store_rejects=true, rejects_limit={_MOST_REJECTS}"
    relation = connection.sql(f"select * from read_csv({quoted(str(path))}, sample_size={sample}{rejects})")
    rows = pa.RecordBatchReader.from_stream(relation)
    malformed = MalformedRows()

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except Exception as error:
            # An error of duckdb that Arrow's C interface passes on as another class.
            if (found := _CSV_ERROR.search(str(error))) is None:
                raise
            raise _malformed_error(path, f"line {found[1]}", found[2].strip()) from None
        if mode == "fail":
            return
        lines = "select line, min(column_name), min(error_message) from reject_errors group by line order by line"
        found = connection.sql(lines).fetchall()
        malformed.count, malformed.is_minimum = len(found), len(found) >= _MOST_REJECTS
        malformed.first = [f"line {line}: {_reason(column, text)}" for line, column, text in found[:3]]

    return LoadFile(None, rows.schema, batches(), malformed)


def _malformed_error(path: Path, place: str, reason: str) -> FileContentError:
    return FileContentError(f"{path.name}, {place}: {reason}; correct the row, or give --malformed report or --sample")


def _reason(column: str | None, text: str) -> str:
    text = text.splitlines()[0]
    return text if column is None or column in text else f"column {column!r}: {text}"


def _open_json(path: Path, form: str, sample: int, mode: Malformed) -> LoadFile:
    source = f"read_json_objects({quoted(str(path))}, format='{form}', ignore_errors=true)"
    described = f"read_json({quoted(str(path))}, format='{form}', sample_size={sample}, ignore_errors=true)"
    rows = JsonRows(_connect(path), source, described, sample)
    malformed = MalformedRows()

    def batches() -> Iterator[pa.RecordBatch]:
        for batch, broken in rows:
            for place, reason in broken:
                if mode == "fail":
                    raise _malformed_error(path, place, reason)
                malformed.count += 1
                if len(malformed.first) < 3:
                    malformed.first.append(f"{place}: {reason}")
            yield batch

    return LoadFile(None, rows.schema, batches(), malformed)
