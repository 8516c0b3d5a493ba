"""Options of pipes, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from os import PathLike

    from jetarrow.core.session import Headers
    from jetarrow.jetstream.arrow import ArrowSchema
    from jetarrow.jetstream.binary_schema import ProtobufSchema
    from jetarrow.jetstream.literals import (
        DecodeMode,
        OnDataLoss,
        OnPipeError,
        OnRollback,
        RowFormat,
        TimestampNumbers,
    )
    from jetarrow.jetstream.progress import Progress
    from jetarrow.jetstream.registry import SchemaRegistry


class PipeKeywords(TypedDict, total=False):
    """Options of `js.pipe`, except its name."""

    subject: str | None
    """Subject of the messages, or a template of columns; default the column `subject`."""
    schema: ArrowSchema | Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None
    """Schema of the payloads of the source, as in `js.read`; default none."""
    mode: DecodeMode
    """Handling of undecodable rows: "PERMISSIVE" (default), "DROPMALFORMED" or "FAILFAST"."""
    format: RowFormat
    """Format of the payloads of the source: "json" (default), "avro" or "protobuf"."""
    registry: SchemaRegistry | str | None
    """Schema registry whose ids payloads begin with; default none."""
    flatten: bool
    """Whether the fields of `value` are columns; default True."""
    subjects: str | Sequence[str] | None
    """Subject filters that do not overlap; default all."""
    start_seq: int | None
    """First sequence at the first start; default the stream's first one."""
    start_time: datetime | timedelta | str | None
    """Instead of `start_seq`: the first message at or after this time."""
    tables: Mapping[str, Any] | None
    """Tables for the function, by name; default none."""
    columns: Sequence[str] | None
    """Columns of the payload; default all but those of a read."""
    output_format: RowFormat
    """Format of the payloads of the target: "json" (default), "avro" or "protobuf"."""
    output_schema: Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None
    """With these formats the schema; default none."""
    headers: Headers | None
    """Headers of every message; default none."""
    nulls: bool
    """Whether to write null fields in JSON; default False."""
    rows: int
    """Most rows of a step; default 65,536."""
    seconds: float
    """Seconds that a step waits for more rows; default 0.1."""
    bytes: int
    """Bytes of rows at which a step ends; default 64 MiB."""
    follow: bool
    """Whether `run` follows the source; default False."""
    position_subject: str | None
    """Subject of the positions; default one below the target's subjects."""
    dead_letter_subject: str | None
    """Subject of the dead letters; default one below the target's subjects."""
    on_error: OnPipeError
    """Reaction to a failed row: "fail" (default), "dead_letter" or "skip"."""
    on_data_loss: OnDataLoss
    """Reaction to lost messages: "error" (default) raises `DataLossError`, "warn" continues."""
    on_rollback: OnRollback
    """Reaction to a rollback of source or target: "fail" (default), "continue" or "earliest"."""
    time_zone: str
    """Zone of JSON texts without an offset; default "UTC"."""
    timestamp_numbers: TimestampNumbers | None
    """Unit of numbers in timestamp fields, as in `js.read`; default None."""
    timeout: float
    """Seconds that an atomic batch may be without an answer; default 30."""
    progress: Progress | bool | None
    """Called with (sequences read, total or None); True shows a progress bar on a terminal. Default none."""
