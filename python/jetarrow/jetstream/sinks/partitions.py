"""Rows by the values of columns, each value a folder: `region=eu/`, as Hive, Spark, pyarrow, polars and DuckDB read it.

The files do not hold these columns, so a row under a wrong folder could not be told from a right one: what was split is
compared with its folders once more.
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

# Null and empty text; the name is Hive's, and both are read as null (so does Delta's protocol write them).
NULL = "__HIVE_DEFAULT_PARTITION__"
# Bytes that a name may have in the file systems of Linux, macOS and Windows (NAME_MAX).
LONGEST = 255
# Characters that stand in a value as they are. Those outside ASCII do, too: Spark reads the bytes of %C3%A9 as two
# characters (`ExternalCatalogUtils.unescapePathName`).
_SPECIAL = {chr(code): f"%{code:02X}" for code in [*range(0x20), 0x7F]} | {
    char: quote(char, safe="") for char in map(chr, range(0x20, 0x7F)) if quote(char, safe="") != char
}
_ESCAPED = str.maketrans(_SPECIAL)


def check(schema: pyarrow.Schema, columns: Iterable[str]) -> None:
    """Checks that values of columns can be names of folders.

    Args:
        schema: The rows.
        columns: Names of columns that are there.

    Raises:
        SinkSchemaError: They cannot; column and type are named.
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
                f"partition_by cannot take column {name!r} of type {kind}: a value is the name of a folder; it takes"
                " booleans, numbers, text, dates and timestamps"
            )
        if name[:1] in ("", "_", ".") or any(char in "/\\=%" or not char.isprintable() for char in name):
            raise SinkSchemaError(
                f"partition_by cannot take column {name!r}: readers would skip or misread a folder of that name"
            )


def texts(values: pyarrow.Array) -> list[str]:
    """Each value as it stands in a folder's name.

    Args:
        values: A column.
    """
    pa = needs_pyarrow("a sink")
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        # Python's own values end with the year 9999.
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
    """As Java and Arrow read it; 0.0 and -0.0 are two values."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    # Spark decodes no escaped plus sign in a number.
    return str(value).replace("e+", "e")


def _time(text: str) -> str:
    """Arrow's text as Python writes it: `2026-11-24 10:00:00+00:00`, with a fraction only where there is one."""
    whole, dot, fraction = text.removesuffix("Z").partition(".")
    fraction = fraction.removesuffix("000") if len(fraction) == 9 else fraction
    kept = f"{dot}{fraction}" if fraction.strip("0") else ""
    return f"{whole}{kept}{'+00:00' if text.endswith('Z') else ''}"


def _escaped(text: str) -> str:
    return text.translate(_ESCAPED) if text not in (".", "..") else text.replace(".", "%2E")


def too_long(batch: pyarrow.RecordBatch, columns: Iterable[str], *, escaped: bool = False) -> dict[int, str]:
    """Rows whose folder's name would have more than 255 bytes, and why.

    Args:
        batch: The rows.
        columns: Names of columns.
        escaped: Whether all but letters and digits of ASCII is escaped in the name, as deltalake does.
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
                    f"the folder for {name} would have a name of {lengths[code]} bytes; at most {LONGEST} are possible"
                )
    return found


def _escaped_length(name: str) -> int:
    return sum(1 if char.isascii() and (char.isalnum() or char in "=%") else 3 * len(char.encode()) for char in name)


def split(
    batch: pyarrow.RecordBatch, seqs: pyarrow.Array, columns: list[str]
) -> list[tuple[str, pyarrow.RecordBatch, pyarrow.Array]]:
    """The rows of each folder, in their order, without the columns; and their sequences.

    Args:
        batch: Rows of the table, at least one.
        seqs: Their sequences.
        columns: Names of columns whose values are folders.

    Raises:
        SinkError: A row would not be in the folder of its values. That is a defect here.
    """
    if not columns:
        return [("", batch, seqs)]
    import pyarrow.compute as pc

    codes, folders = _folders(batch, columns)
    rest = batch.drop_columns(columns)
    starts, values = [0], [codes[0].as_py()]
    if len(folders) > 1:
        # A stable sort: in a folder the rows keep their order.
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
    """A number for each row's folder, and the folders by number."""
    import pyarrow.compute as pc

    pa = needs_pyarrow("a sink")
    codes, folders = pa.nulls(batch.num_rows, pa.int64()).fill_null(0), [""]
    for name in columns:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        names = [f"{name}={text}" for text in texts(encoded.dictionary)]
        both = pc.add(pc.multiply(codes, len(names)), encoded.indices.cast(pa.int64()))
        # Numbered anew, so that they stay below the number of rows times that of values.
        encoded = both.dictionary_encode()
        pairs = [divmod(value, len(names)) for value in encoded.dictionary.to_pylist()]
        codes = encoded.indices.cast(pa.int64())
        folders = [f"{folders[before]}/{names[now]}".lstrip("/") for before, now in pairs]
    # Null and empty text have one folder, as all NaN have.
    first: dict[str, int] = {}
    same = [first.setdefault(folder, number) for number, folder in enumerate(folders)]
    return (codes if len(first) == len(folders) else pa.array(same, pa.int64()).take(codes)), folders


def _verify(keys: pyarrow.RecordBatch, folders: list[str], starts: list[int], ends: list[int]) -> None:
    """Compares the first and the last row of each folder with its name."""
    pa = needs_pyarrow("a sink")
    rows = pa.array([row for start, end in zip(starts, ends, strict=True) for row in (start, end - 1)], pa.int64())
    parts = [[f"{name}={text}" for text in texts(keys.column(name).take(rows))] for name in keys.schema.names]
    wanted = [folder for folder in folders for _ in range(2)]
    for folder, found in zip(wanted, zip(*parts, strict=True), strict=True):
        if folder != "/".join(found):
            raise SinkError(
                f"a row of {'/'.join(found)} would be written to {folder}: this is a defect of jetarrow; nothing of"
                " this commit is written"
            )
