"""A stream as a LazyFrame of polars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

import jetarrow.sync
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.schema import arrow_schema
from jetarrow.polars.bounds import ALL, bounds, within

if TYPE_CHECKING:
    from jetarrow.core.option_types import SyncConnectOptions
    from jetarrow.sync.fetch import Reader

_OF_MESSAGES = {
    "stream": pa.string(),
    "seq": pa.int64(),
    "subject": pa.string(),
    "timestamp": pa.timestamp("ns", "UTC"),
    "headers": pa.map_(pa.string(), pa.list_(pa.string())),
}
_OF_MALFORMED = {"_corrupt_record": pa.string(), "_error": pa.string()}
_BATCH_ROWS = 65536


def scan(
    servers: str | list[str],
    stream: str,
    *,
    schema: ArrowSchema | Mapping[str, Any] | str | None = None,
    subjects: str | Sequence[str] | None = None,
    format: Literal["json", "arrow"] = "json",
    mode: str = "PERMISSIVE",
    latest: bool = False,
    **options: Unpack[SyncConnectOptions],
) -> pl.LazyFrame:
    """A stream as a LazyFrame. Nothing is asked of a server before it is collected; then each time anew.

    Columns: `stream`, `seq`, `subject`, `timestamp`, `headers`, then the fields of the payloads, or `data` where there
    is no schema. A field with the name of one of the message's columns stands in its place.

    What polars asks for goes to the server where that can filter it: comparisons, `is_between` and `is_in` on `seq`,
    `timestamp` and `subject`, and `subject.str.starts_with` by whole tokens, joined by `&` and `|`, become a range and
    subject filters. `head(n)` before any filter ends the read early; filters behind it are not asked of the server. Of
    JSON only the fields that are needed are decoded. Everything is filtered again by polars. With `latest` only filters
    of subjects are asked of the server.

    A range reads up to what was there when it was opened. Of JSON in mode "PERMISSIVE" a row is malformed by the fields
    that are asked for.

    Args:
        servers: As `jetarrow.sync.connect`.
        stream: The stream.
        schema: As `js.read`: what the payloads are. With "infer", or format "arrow" and none, the server is asked for
            the first messages as soon as polars wants to know the columns.
        subjects: As `js.read`.
        format: As `js.read`.
        mode: As `js.read`: what becomes of malformed rows. "PERMISSIVE" has `_corrupt_record` and `_error`, too.
        latest: The last message of each subject only, as `js.latest` gives it.
        **options: As `jetarrow.sync.connect`: each collect has a connection of its own.

    Returns:
        The frame. Streams and servers that are not there are errors of `collect`.

    Raises:
        ValueError: An argument that cannot be used.
    """
    if format not in ("json", "arrow"):
        raise ValueError(f"format must be 'json' or 'arrow', not {format!r}")
    filters = [subjects] if isinstance(subjects, str) else list(subjects or ())
    given = "infer" if format == "arrow" and schema is None else schema
    if isinstance(given, pl.Schema):
        given = pl.DataFrame(schema=given).to_arrow().schema
    source = _Source(servers, stream, dict(options), filters, format, mode, latest)
    if given != "infer":
        source.fields = None if given is None else pa.schema(arrow_schema(given))
        return register_io_source(source.frames, schema=source.schema())
    return register_io_source(source.frames, schema=source.inferred)


class _Source:
    """What is read, whatever polars asks for."""

    def __init__(
        self,
        servers: str | list[str],
        stream: str,
        options: dict[str, Any],
        filters: list[str],
        format: str,
        mode: str,
        latest: bool,
    ) -> None:
        self._servers, self._stream, self._options = servers, stream, options
        self._filters, self._format, self._mode, self._latest = filters, format, mode, latest
        # Of the payloads; None where they are bytes.
        self.fields: pa.Schema | None = None
        self._known = False

    def inferred(self) -> pl.Schema:
        """The columns, after a look at the first messages."""
        if not self._known:
            with jetarrow.sync.connect(self._servers, **self._options) as nc:
                reader = self._read(nc.jetstream(), schema="infer" if self._format == "json" else None)
                with reader:
                    _ = reader.schema
                    self.fields, self._known = reader.inferred, True
        return self.schema()

    def schema(self) -> pl.Schema:
        """The columns."""
        fields = [pa.field("data", pa.binary())] if self.fields is None else list(self.fields)
        own = {field.name for field in fields}
        fields = [pa.field(name, kind) for name, kind in _OF_MESSAGES.items() if name not in own] + fields
        if self.fields is not None and self._mode.upper() == "PERMISSIVE":
            fields += [pa.field(name, kind) for name, kind in _OF_MALFORMED.items()]
        return pl.DataFrame(pa.schema(fields).empty_table()).schema

    def frames(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """What polars calls: the frames, one after another."""
        schema = self.schema()
        names = list(schema) if with_columns is None else with_columns
        needed = list(dict.fromkeys([*names, *(() if predicate is None else predicate.meta.root_names())]))
        none = pl.DataFrame(schema=schema)
        any_frame = False
        for frame in self._rows(needed, predicate, n_rows, batch_size or _BATCH_ROWS):
            any_frame = True
            yield (frame if predicate is None else frame.filter(predicate)).select(names)
        if not any_frame:
            yield none.select(names)

    def _rows(
        self, needed: list[str], predicate: pl.Expr | None, n_rows: int | None, batch_rows: int
    ) -> Iterator[pl.DataFrame]:
        own = set(_OF_MESSAGES) - set(() if self.fields is None else self.fields.names)
        # Given both, polars wants the predicate's rows among the first n_rows of all: the server must leave none out.
        pushed = ALL if predicate is None or n_rows is not None else bounds(predicate, own)
        wanted = within(pushed, self._filters)
        if wanted.empty or n_rows == 0:
            return
        options: dict[str, Any] = {"batch_rows": min(batch_rows, _BATCH_ROWS), "limit": n_rows}
        options["subjects"] = sorted(wanted.subjects or ()) or None
        options |= self._columns(needed, own)
        with jetarrow.sync.connect(self._servers, **self._options) as nc:
            js = nc.jetstream()
            if not self._latest:
                first = js.stream_info(self._stream).state.first_seq
                options |= _range(wanted.first, wanted.end, wanted.since, wanted.until, first)
            with self._read(js, **options) as reader:
                for batch in reader:
                    yield batch.to_polars()

    def _columns(self, needed: list[str], own: set[str]) -> dict[str, Any]:
        """What is built: of JSON only the fields that are needed, of Arrow messages all, as they have to be whole."""
        of_messages = [name for name in needed if name in own]
        if self.fields is None:
            return {"columns": of_messages + (["data"] if "data" in needed else []) or ["seq"]}
        fields = [field for field in self.fields if field.name in needed]
        whole = self._format == "arrow" or self._mode.upper() != "PERMISSIVE" or set(needed) & set(_OF_MALFORMED)
        if whole:
            fields = list(self.fields)
        elif not fields:
            return {"columns": of_messages or ["seq"]}
        # The payloads last: then the columns of a flat row are in the order of its message's and its fields.
        return {"columns": [*of_messages, "value"], "schema": pa.schema(fields), "flatten": self._format == "json"}

    def _read(self, js: jetarrow.sync.JetStream, **options: Any) -> Reader:
        common: dict[str, Any] = {"subjects": self._filters or None, "format": self._format, "mode": self._mode}
        return (js.latest if self._latest else js.read)(self._stream, **(common | options))


def _range(first: int | None, end: int | None, since: int | None, until: int | None, head: int) -> dict[str, Any]:
    """Where a read begins and ends; by sequence where both are known."""
    found: dict[str, Any] = {}
    if first is not None and first > head:
        found["start_seq"] = first
    elif since is not None and since > 0:
        found["start_time"] = _rfc3339(since)
    if end is not None:
        found["end_seq"] = max(end, 0)
    elif until is not None:
        found["end_time"] = _rfc3339(until)
    return found


def _rfc3339(nanos: int) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    text: str = pl.select(pl.from_epoch(pl.lit(seconds), "s").dt.strftime("%Y-%m-%dT%H:%M:%S")).item()
    return f"{text}.{fraction:09d}Z"
