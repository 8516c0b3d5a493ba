"""Partitioning by columns in Hive style: `region=eu/`, as read by Hive, Spark, pyarrow, polars and DuckDB.

Files do not contain the partition columns, so a row in a wrong folder could not be detected later. Therefore the
split is verified against the names of the folders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError, SinkSchemaError

if TYPE_CHECKING:
    import pyarrow

# Hive's name for null. Empty text has it too and is read as null, as in the Delta protocol.
NULL = "__HIVE_DEFAULT_PARTITION__"
# Maximum length of a name in bytes in the file systems of Linux, macOS and Windows (NAME_MAX).
LONGEST = 255
# Escapes of ASCII characters. Others are not escaped, because Spark decodes %C3%A9 to two characters
# (`ExternalCatalogUtils.unescapePathName`).
_SPECIAL = {chr(code): f"%{code:02X}" for code in [*range(0x20), 0x7F]} | {
    char: quote(char, safe="") for char in map(chr, range(0x20, 0x7F)) if quote(char, safe="") != char
}
_ESCAPED = str.maketrans(_SPECIAL)


def check(schema: pyarrow.Schema, columns: Iterable[str]) -> None:
    """Check that values of columns can be names of folders.

    Args:
        schema: Schema of the rows.
        columns: Names of existing columns.

    Raises:
        SinkSchemaError: A name or type cannot be used.
    """
    types = needs_pyarrow("a sink").types
    scalars = (
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_string,
        types.is_large_string,
        types.is_date,
        types.is_timestamp,
    )
    for name in columns:
        kind = schema.field(name).type
        if not any(fits(kind) for fits in scalars):
            raise SinkSchemaError(
                f"could not partition by column {name!r} of type {kind}: a value is the name of a folder; use booleans,"
                " numbers, text, dates or timestamps"
            )
        if name[:1] in ("", "_", ".") or any(char in "/\\=%" or not char.isprintable() for char in name):
            raise SinkSchemaError(
                f"could not partition by column {name!r}: readers would skip or misread such a folder; rename it"
            )


def texts(values: pyarrow.Array) -> list[str]:
    """Return the text of each value in the name of a folder.

    Args:
        values: A column.
    """
    pa = needs_pyarrow("a sink")
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # Formatted by Arrow, because Python's values end with the year 9999.
        return [NULL if text is None else _escaped(_time(text)) for text in values.cast(pa.string()).to_pylist()]
    form: Callable[[Any], str] = str
    if pa.types.is_boolean(kind):
        form = _bool
    elif pa.types.is_floating(kind):
        form = _float
    elif pa.types.is_decimal(kind):
        form = "{:f}".format
    return [NULL if value is None or value == "" else _escaped(form(value)) for value in values.to_pylist()]


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _float(value: float) -> str:
    """Format a float for Java and Arrow; 0.0 and -0.0 are different values."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    # Spark decodes no escaped plus sign in a number.
    return str(value).replace("e+", "e")


def _time(text: str) -> str:
    """Convert Arrow's text to Python's format: `2026-11-24 10:00:00+00:00`, without a zero fraction."""
    whole, dot, fraction = text.removesuffix("Z").partition(".")
    fraction = fraction.removesuffix("000") if len(fraction) == 9 else fraction
    kept = f"{dot}{fraction}" if fraction.strip("0") else ""
    return f"{whole}{kept}{'+00:00' if text.endswith('Z') else ''}"


def _escaped(text: str) -> str:
    return text.translate(_ESCAPED) if text not in (".", "..") else text.replace(".", "%2E")


def too_long(batch: pyarrow.RecordBatch, columns: Iterable[str], *, escaped: bool = False) -> dict[int, str]:
    """Return the rows whose folder's name would be longer than 255 bytes, with the reason.

    Args:
        batch: The rows.
        columns: Names of columns.
        escaped: Whether all characters except ASCII letters and digits are escaped in the name, as by deltalake.
    """
    pa = needs_pyarrow("a sink")
    found: dict[int, str] = {}
    for name in columns:
        column = batch.column(name)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        encoded = column.dictionary_encode(null_encoding="encode")
        names = [f"{name}={text}" for text in texts(encoded.dictionary)]
        lengths = [_escaped_length(each) if escaped else len(each.encode()) for each in names]
        if max(lengths, default=0) <= LONGEST:
            continue
        for row, code in enumerate(encoded.indices.to_pylist()):
            if lengths[code] > LONGEST:
                found[row] = (
                    f"the name of the folder for {name} would be {lengths[code]} bytes long; the maximum is {LONGEST}"
                )
    return found


def _escaped_length(name: str) -> int:
    return sum(1 if char.isascii() and (char.isalnum() or char in "=%") else 3 * len(char.encode()) for char in name)


def split(
    batch: pyarrow.RecordBatch, seqs: pyarrow.Array, columns: list[str]
) -> list[tuple[str, pyarrow.RecordBatch, pyarrow.Array]]:
    """Split rows by folder; return folder, rows without the partition columns, and sequences, in order.

    Args:
        batch: Rows of the table, at least one.
        seqs: Their sequences.
        columns: Names of columns whose values are folders.

    Raises:
        SinkError: A row would be in a folder of other values, because of a defect.
    """
    if not columns:
        return [("", batch, seqs)]
    import pyarrow.compute as pc

    codes, folders = _folders(batch, columns)
    rest = batch.drop_columns(columns)
    starts, values = [0], [codes[0].as_py()]
    if len(folders) > 1:
        # A stable sort keeps the order of the rows of a folder.
        order = pc.sort_indices(codes)
        batch, rest, seqs = batch.take(order), rest.take(order), seqs.take(order)
        runs = pc.run_end_encode(codes.take(order))
        values = runs.values.to_pylist()
        starts = [0, *runs.run_ends.to_pylist()[:-1]]
    ends = [*starts[1:], batch.num_rows]
    _verify(batch.select(columns), [folders[value] for value in values], starts, ends)
    return [
        (folders[value], rest.slice(start, end - start), seqs.slice(start, end - start))
        for value, start, end in zip(values, starts, ends, strict=True)
    ]


def _folders(batch: pyarrow.RecordBatch, columns: list[str]) -> tuple[pyarrow.Array, list[str]]:
    """Return the number of each row's folder, and the folders by number."""
    import pyarrow.compute as pc

    pa = needs_pyarrow("a sink")
    codes, folders = pa.nulls(batch.num_rows, pa.int64()).fill_null(0), [""]
    for name in columns:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        names = [f"{name}={text}" for text in texts(encoded.dictionary)]
        both = pc.add(pc.multiply(codes, len(names)), encoded.indices.cast(pa.int64()))
        # Renumbered, so that numbers are less than the number of rows times that of values.
        encoded = both.dictionary_encode()
        pairs = [divmod(value, len(names)) for value in encoded.dictionary.to_pylist()]
        codes = encoded.indices.cast(pa.int64())
        folders = [f"{folders[before]}/{names[now]}".lstrip("/") for before, now in pairs]
    # Null and empty text share a folder, and all NaN do.
    first: dict[str, int] = {}
    same = [first.setdefault(folder, number) for number, folder in enumerate(folders)]
    return (codes if len(first) == len(folders) else pa.array(same, pa.int64()).take(codes)), folders


def _verify(keys: pyarrow.RecordBatch, folders: list[str], starts: list[int], ends: list[int]) -> None:
    """Compare the first and the last row of each folder with its name."""
    pa = needs_pyarrow("a sink")
    rows = pa.array([row for start, end in zip(starts, ends, strict=True) for row in (start, end - 1)], pa.int64())
    parts = [[f"{name}={text}" for text in texts(keys.column(name).take(rows))] for name in keys.schema.names]
    wanted = [folder for folder in folders for _ in range(2)]
    for folder, found in zip(wanted, zip(*parts, strict=True), strict=True):
        if folder != "/".join(found):
            raise SinkError(
                f"could not commit: a row of {'/'.join(found)} would be written to {folder}; nothing was written,"
                " report this defect of jetarrow"
            )
