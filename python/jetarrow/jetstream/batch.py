"""Messages in Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from jetarrow import _jetarrow
from jetarrow._jetarrow import Msg
from jetarrow.core.arguments import duration
from jetarrow.core.docstrings import with_entries_of
from jetarrow.core.errors import UnsupportedError
from jetarrow.core.message import AnyMessage
from jetarrow.core.session import Session
from jetarrow.jetstream import html
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.json_rules import JsonRules, json_rules
from jetarrow.jetstream.literals import BINARY_FORMATS, AckVerb, DecodeMode, RowFormat, TimestampNumbers, check_literal
from jetarrow.jetstream.registry import (
    RegisteredSchema,
    SchemaRegistry,
    payload_schema,
    registry_of,
    without_schema,
)
from jetarrow.jetstream.schema import arrow_schema

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


_M = TypeVar("_M", bound=AnyMessage)


class Columns(Generic[_M]):
    """A batch without acknowledgements; async and sync batches derive from it."""

    def __init__(self, session: Session, native: _jetarrow.Batch) -> None:
        self._session = session
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, index: int) -> _M:
        """One message.

        Raises:
            IndexError: The row does not exist.
        """
        message: _M = self._native.message(self._session, index)
        return message

    def __iter__(self) -> Iterator[_M]:
        return (self[row] for row in range(len(self)))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"could not pickle or copy a {type(self).__name__}: it belongs to a connection;"
            " send batch.to_pyarrow() to the other process"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} rows, {', '.join(self._native.column_names)}>"

    def _repr_html_(self) -> str:
        try:
            rows = self.to_pyarrow()
        except UnsupportedError:
            return html.facts(type(self).__name__, {"rows": len(self), "columns": ", ".join(self._native.column_names)})
        return html.batch(type(self).__name__, rows, self._native.column_names, len(self))

    @property
    def nbytes(self) -> int:
        """Size of the columns in memory, in bytes."""
        return self._native.nbytes

    @property
    def seqs(self) -> _jetarrow.Array:
        """The stream sequences: an Arrow int64 array without nulls."""
        return self._native.seqs

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema (needs pyarrow)."""
        schema: pyarrow.Schema = needs_pyarrow("schema").schema(self)
        return schema

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._native.__arrow_c_array__(requested_schema)

    def to_pyarrow(self) -> pyarrow.RecordBatch:
        """Converts to a `pyarrow.RecordBatch`, without a copy.

        Raises:
            UnsupportedError: pyarrow is not installed.
        """
        batch: pyarrow.RecordBatch = needs_pyarrow("to_pyarrow()").record_batch(self)
        return batch

    def to_polars(self) -> polars.DataFrame:
        """Converts to a `polars.DataFrame`; `headers` becomes a Map, in older polars a list of structs."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Converts to a `pandas.DataFrame` (needs pyarrow)."""
        frame: pandas.DataFrame = self.to_pyarrow().to_pandas()
        return frame


class MessageBatch(Columns[Msg]):
    """Messages in columns, which any Arrow library imports without a copy (PyCapsule interface).

    Columns: `stream: string, seq: int64, subject: string, timestamp: timestamp[ns, UTC],
    headers: map<string, list<string>>, data: binary`, or the requested ones. Only `headers` is nullable.
    """

    def decode(
        self,
        schema: object = None,
        mode: DecodeMode = "PERMISSIVE",
        *,
        format: RowFormat = "json",
        registry: SchemaRegistry | str | None = None,
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
    ) -> MessageBatch:
        """Returns the same rows with decoded payloads: `value` replaces `data`.

        Args:
            schema: As `js.read`. None needs `registry`, and is the schema of the first payload.
            mode: As `js.read`.
            format: "json", "avro" or "protobuf", as `js.read`.
            registry: As `js.read`. The call blocks while it fetches schemas, each once.
            time_zone: As `js.read`.
            timestamp_numbers: As `js.read`.

        Raises:
            DecodeError: Mode FAILFAST, and a row does not fit the schema.
            ValueError: A type cannot be decoded, or the mode is unknown.
            SchemaRegistryError: The registry does not answer, or no payload names a schema that it has.
        """
        check_literal("format", format, RowFormat)
        rules = json_rules(schema if format == "json" else None, time_zone, timestamp_numbers)
        if (known := registry_of(self._session, registry, format)) is not None:
            schema = payload_schema(format, schema, known) or self._registered(known, format)
        return self._decode(schema, mode, rules, format=format)

    def _registered(self, registry: SchemaRegistry, format: RowFormat) -> RegisteredSchema:
        for part in getattr(self._native, "parts", [self._native]):
            if (found := registry._native.schema_of(part, format).block()) is not None:
                return RegisteredSchema(found, registry)
        raise without_schema(registry, format)

    def _decode(
        self, schema: object, mode: DecodeMode, rules: JsonRules, *, format: RowFormat = "json"
    ) -> MessageBatch:
        binary = format in BINARY_FORMATS
        given = payload_schema(format, schema, None) if binary else arrow_schema(schema)
        return self._like(self._native.decode(given, mode, rules, binary=binary))

    def _like(self, native: _jetarrow.Batch) -> MessageBatch:
        """A batch of the same messages with other columns."""
        return MessageBatch(self._session, native)

    async def ack(self, rows: Iterable[int] | Iterable[bool] | None = None) -> None:
        """Acknowledges the messages, so that they are not redelivered.

        Args:
            rows: Row numbers, or one bool per row; None is the whole batch.

        Raises:
            IndexError: A row does not exist.
            ValueError: A mask has another length.
            ConnectionClosedError: The connection is closed.
        """
        await self._ack("ack", rows)

    @with_entries_of(ack)
    async def ack_sync(
        self, rows: Iterable[int] | Iterable[bool] | None = None, *, timeout: float | timedelta = 5.0
    ) -> None:
        """As `ack`, and waits for the server's confirmation of every message.

        Args:
            rows: As `ack`.
            timeout: Seconds, or a timedelta, for all messages together.

        Raises:
            TimeoutError: The server did not confirm all within `timeout`; the others may be redelivered.
        """
        await self._ack("ack", rows, confirm=duration("timeout", timeout))

    async def nak(
        self, rows: Iterable[int] | Iterable[bool] | None = None, *, delay: float | timedelta | None = None
    ) -> None:
        """Sends a nak, so that the messages are redelivered after `delay` seconds (default at once).

        Args:
            rows: Row numbers, or one bool per row; None is the whole batch.
            delay: Seconds, or a timedelta, before the redelivery; None is at once.

        Raises:
            IndexError: A row does not exist.
            ValueError: A mask has another length.
            ConnectionClosedError: The connection is closed.
        """
        await self._ack("nak", rows, delay=duration("delay", delay))

    async def term(self, rows: Iterable[int] | Iterable[bool] | None = None, *, reason: str | None = None) -> None:
        """Terminates the messages, so that they are not redelivered. The server's advisory has the `reason`.

        Args:
            rows: Row numbers, or one bool per row; None is the whole batch.
            reason: A text for the server's advisory; default none.

        Raises:
            IndexError: A row does not exist.
            ValueError: A mask has another length.
            ConnectionClosedError: The connection is closed.
        """
        await self._ack("term", rows, reason=reason)

    async def in_progress(self, rows: Iterable[int] | Iterable[bool] | None = None) -> None:
        """Sends an in-progress ack, which restarts the `ack_wait`.

        Args:
            rows: Row numbers, or one bool per row; None is the whole batch.

        Raises:
            IndexError: A row does not exist.
            ValueError: A mask has another length.
            ConnectionClosedError: The connection is closed.
        """
        await self._ack("in_progress", rows)

    async def _ack(self, kind: AckVerb, rows: Iterable[int] | Iterable[bool] | None, **options: Any) -> None:
        await self._session.run(self._session.native.ack_rows(self._native, kind, rows, **options))
