"""Writers of rows: Parquet, CSV, NDJSON and Arrow files, stdout, and lines for people."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import typer

from jetarrow.cli import output, signals, terminal

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".arrow": "arrow",
    ".feather": "arrow",
}
# A shared encoder: `json.dumps` with options creates one per call.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Maximum width of a column of the lines for people, except the last one.
_WIDEST = 48


class Writer(Protocol):
    """Writer of record batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> object:
        """Write a batch."""

    def close(self) -> object:
        """Write buffered data. The underlying file stays open."""


def format_of(target: str, given: str | None) -> str:
    """Return the format of a file: the given one, or that of its name.

    Args:
        target: The file's name, or `-`.
        given: Value of the option `--format`.

    Raises:
        BadParameter: The format is not known, or neither of the two names one.
    """
    if given is not None:
        if given not in FORMATS.values():
            raise typer.BadParameter("use parquet, csv, ndjson or arrow.", param_hint="--format")
        return given
    if target == "-":
        return "ndjson"
    found = FORMATS.get(Path(target).suffix.lower())
    if found is None:
        raise typer.BadParameter(f"{target!r} must end in {', '.join(FORMATS)}, or give --format.", param_hint="--to")
    return found


@contextlib.contextmanager
def writing(target: str, form: str, schema: pa.Schema, *, keep: Callable[[], bool]) -> Iterator[Writer]:
    """Provide a writer to a file, which replaces an existing one when the block ends.

    Until then the data is in a temporary file of mode 0600 in the same folder. An existing file keeps its mode.

    Args:
        target: The file's name; `-` is stdout.
        form: One of `FORMATS`.
        schema: Schema of the batches.
        keep: Whether a block that a signal interrupts leaves a file with the rows written so far, or no file.
    """
    if target == "-":
        sys.stdout.flush()
        writer = _OPEN[form](sys.stdout.buffer, schema)
        try:
            yield writer
        except KeyboardInterrupt:
            # The reader of a pipe may be gone, and the signal may have interrupted a write.
            with contextlib.suppress(Exception):
                if keep():
                    writer.close()
            raise
        writer.close()
        return
    from jetarrow.jetstream.objects.target_file import replacing

    stopped = None
    with contextlib.ExitStack() as stack:
        with signals.deferred():
            file = stack.enter_context(replacing(os.path.realpath(target)))
            writer = _OPEN[form](file, schema)
        try:
            yield _Whole(writer)
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt) or not keep():
                # pyarrow would close it later and report that the file is closed.
                with contextlib.suppress(Exception):
                    writer.close()
                raise
            stopped = error
        writer.close()
    if stopped is not None:
        raise stopped


class _Whole:
    """A writer that defers signals within a batch, so that the file has no partial row."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def write(self, batch: pa.RecordBatch) -> None:
        with signals.deferred():
            self._writer.write(batch)

    def close(self) -> None:
        self._writer.close()


class _Parquet:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        import pyarrow.parquet

        self._writer = pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _Arrow:
    """Arrow IPC file, or Arrow IPC stream on stdout."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        import pyarrow as pa

        make = pa.ipc.new_stream if file is sys.stdout.buffer else pa.ipc.new_file
        self._writer = make(file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _Json:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        text = "".join(f"{_encode(row)}\n" for row in rows_of(batch))
        if self._file is not sys.stdout.buffer:
            self._file.write(text.encode())
            return
        self._file.write((terminal.json_text(text) if sys.stdout.isatty() else text).encode())
        self._file.flush()

    def close(self) -> None:
        pass


class _Csv:
    """CSV with nested values as JSON text."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        import csv
        import io

        self._text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._writer.writerow(schema.names)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = _columns(batch)
        for at, kind in enumerate(batch.schema.types):
            if kind.num_fields:
                columns[at] = [_cell(value) for value in columns[at]]
        self._writer.writerows(zip(*columns, strict=True))

    def close(self) -> None:
        self._text.flush()
        self._text.detach()


_OPEN: dict[str, Callable[[Any, Any], Writer]] = {"parquet": _Parquet, "arrow": _Arrow, "ndjson": _Json, "csv": _Csv}


def _cell(value: Any) -> Any:
    return _encode(value) if isinstance(value, dict | list) else value


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows as JSON types."""
    names = batch.schema.names
    return [dict(zip(names, values, strict=True)) for values in zip(*_columns(batch), strict=True)]


def _columns(batch: pa.RecordBatch) -> list[list[Any]]:
    """Return the columns as JSON types. Maps (headers) are objects; timestamps keep their nanoseconds."""
    return [_plain(field.type, column) for field, column in zip(batch.schema, batch.columns, strict=True)]


def _plain(kind: pa.DataType, column: pa.Array) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        if kind.tz not in (None, "UTC"):
            column = column.cast(pa.timestamp(kind.unit, "UTC"))
        # Formatted by Arrow, because a datetime would drop the nanoseconds.
        text = column.cast(pa.timestamp(kind.unit)).cast(pa.string()).to_pylist()
        return [None if one is None else one.replace(" ", "T") + zone for one in text]
    values: list[Any] = column.to_pylist()
    if types.is_map(kind):
        # Headers have text keys, which are unique, and text values.
        texts = _is_text(kind.key_type) and _is_text(getattr(kind.item_type, "value_type", kind.item_type))
        return [None if one is None else dict(one) if texts else output.plain(dict(one)) for one in values]
    if types.is_binary(kind) or types.is_large_binary(kind):
        return [None if one is None else output.text_of(one) for one in values]
    # Fast path: columns whose values are JSON types already.
    simple = _is_text(kind) or types.is_integer(kind) or types.is_boolean(kind)
    if simple or (types.is_floating(kind) and pc.all(pc.is_finite(column)).as_py() is not False):
        return values
    return [output.plain(one) for one in values]


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class Lines:
    """Writer of rows for people: columns of the widths of the first batch; a terminal truncates rows to one line."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._titles = [terminal.one_line(name) for name in names]
        self._widths: list[int] = []
        self._most = shutil.get_terminal_size().columns if sys.stdout.isatty() else None

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        cells = [[_one_line(row[name]) for name in self._names] for row in rows_of(batch)]
        if not self._widths:
            self._widths = [
                min(_WIDEST, max([len(title), *(len(row[at]) for row in cells)]))
                for at, title in enumerate(self._titles)
            ]
            self._line(self._titles)
        for row in cells:
            self._line(row)
        sys.stdout.flush()

    def _line(self, cells: Sequence[str]) -> None:
        *fore, last = (text.ljust(width) for text, width in zip(cells, self._widths, strict=True))
        line = "  ".join([*fore, last.rstrip()])
        sys.stdout.write(
            (line if self._most is None or len(line) <= self._most else line[: self._most - 1] + "…") + "\n"
        )

    def close(self) -> None:
        """Do nothing: lines are not buffered."""


def _one_line(value: Any) -> str:
    text = _cell(value)
    return "" if text is None else terminal.one_line(str(text))
