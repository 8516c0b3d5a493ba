"""Opening of a sink: its options, the check of its position, and the source of its rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.binary_schema import BinaryColumns
from jetarrow.jetstream.compacted_reader import CompactedReader
from jetarrow.jetstream.errors import SinkError, StreamRecreatedError
from jetarrow.jetstream.json_rules import JsonRules
from jetarrow.jetstream.literals import (
    BINARY_FORMATS,
    OnDataLoss,
    OnRollback,
    RowFormat,
    TimestampUnit,
    check_literal,
)
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.read import ReadVerbs
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.registry import RegisteredSchema, SchemaRegistry, payload_of, payload_schema, with_payload
from jetarrow.jetstream.rollback import error_without_marks, verify
from jetarrow.jetstream.schema import arrow_schema
from jetarrow.jetstream.sinks.durable import decode_batch, open_consumer
from jetarrow.jetstream.sinks.durable_source import DurableSource
from jetarrow.jetstream.sinks.rows import Shape, from_text, to_text
from jetarrow.jetstream.sinks.source import RangeSource
from jetarrow.jetstream.sinks.state import State
from jetarrow.jetstream.sinks.upsert import Upsert, is_compacted

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class SinkOptions:
    """Options of a sink that do not depend on its target."""

    # With a binary format as `payload_schema` returns it.
    schema: Any
    format: RowFormat
    flatten: bool
    subjects: str | Sequence[str] | None
    start_seq: int | None
    start_time: datetime | timedelta | str | None
    partition_by: list[str]
    follow: bool
    durable: str | None
    timestamp_unit: TimestampUnit
    rules: JsonRules
    on_data_loss: OnDataLoss
    on_rollback: OnRollback
    rows: int
    # Whether names of folders are escaped, as in Delta tables.
    escaped: bool = False
    upsert: Upsert | None = None
    # With a binary format: the registry whose ids payloads begin with.
    registry: SchemaRegistry | None = None


def checked_schema(schema: Any, format: RowFormat, registry: SchemaRegistry | None) -> Any:
    """Return a checked `schema=`: as `payload_schema` returns it with a binary format."""
    check_literal("format", format, RowFormat)
    return payload_schema(format, schema, registry) if format in BINARY_FORMATS else schema


def names_of(given: str | Sequence[str] | None) -> list[str]:
    """Return names that were given as one or several."""
    return [given] if isinstance(given, str) else list(given or ())


async def begin(
    js: ReadVerbs, stream: str, options: SinkOptions, target: str, state: State | None
) -> tuple[RangeSource | DurableSource, Shape]:
    """Return the source of rows after a position, and their converter."""
    info = await Management(js._api).stream_info(stream)
    created = info.created_raw or ""
    if state is not None and state.stream != stream:
        raise SinkError(
            f"could not archive stream {stream!r} in {target}: it is the archive of stream {state.stream!r}"
        )
    if state is not None and state.created != created:
        raise StreamRecreatedError(
            f"could not resume {target}: stream {stream!r} was deleted and created again since, so its sequences are"
            " other messages; archive it in another place"
        )
    back = None if state is None else await _rolled_back(js._api, info, state, options.on_rollback)
    schema, payloads = await _schemas(js, stream, options, state)
    state = replace(
        back or state or State(stream, created),
        schema=None if schema is None else to_text(with_payload(schema, payloads)),
        rules=(options.rules.time_zone, options.rules.timestamp_numbers),
        subjects=tuple(names_of(options.subjects)),
        durable=options.durable,
        payload=options.format,
    )
    shape = Shape(
        schema=schema,
        flatten=options.flatten,
        partition_by=options.partition_by,
        escaped=options.escaped,
        upsert=options.upsert,
    )
    if options.durable is not None:
        sub = await open_consumer(
            js._api,
            stream,
            options.durable,
            target=target,
            subjects=names_of(options.subjects),
            start_seq=options.start_seq,
            start_time=options.start_time,
            rows=options.rows,
        )
        decode = partial(
            decode_batch, schema=payloads, format=options.format, rules=options.rules, unit=options.timestamp_unit
        )
        durable = DurableSource(js._api, state, sub, decode=decode, follow=options.follow, rows=options.rows)
        durable.is_rolled_back = back is not None
        return durable, shape
    if info.config.retention != models.RetentionPolicy.LIMITS:
        raise SinkError(
            f"could not read stream {stream!r} by ranges: its retention {info.config.retention} removes acknowledged"
            ' messages; give durable="archive", a consumer that is acknowledged after each commit'
        )
    # Messages of a compacted stream are lost only after others of the same key were stored.
    compacted = options.upsert is not None and options.upsert.by_subject and is_compacted(info.config)
    read = partial(
        _open_compacted if compacted else _open_range,
        js._api,
        stream,
        subjects=options.subjects,
        schema=payloads,
        format=options.format,
        timestamp_unit=options.timestamp_unit,
        rules=options.rules,
        on_data_loss="warn" if compacted else options.on_data_loss,
        batch_rows=min(options.rows, 65_536),
    )
    source = RangeSource(
        js._api,
        info,
        state,
        read,
        start_seq=options.start_seq,
        start_time=options.start_time,
        follow=options.follow,
        lossy=compacted or options.on_data_loss == "warn",
    )
    source.is_rolled_back = back is not None
    return source, shape


async def _rolled_back(
    api: JetStreamApi, info: models.StreamInfo, state: State, on_rollback: OnRollback
) -> State | None:
    """Return the state to resume at if the stream was rolled back behind the position; else None."""
    error = await verify(api, state.stream, state.marks)
    if error is None and info.state.last_seq < state.last_seq:
        error = error_without_marks(state.stream, info.state.last_seq, state.last_seq)
    if error is None:
        return None
    if on_rollback == "fail":
        raise error
    warnings.warn(str(error), stacklevel=2)
    good = 0 if on_rollback == "earliest" or error.last_good is None else error.last_good[0]
    return state.rolled_back_to(good)


async def _schemas(
    js: ReadVerbs, stream: str, options: SinkOptions, state: State | None
) -> tuple[pyarrow.Schema | None, Any]:
    """Return the fields of `value`, and `schema=` of the read: those of the options, or of the first start."""
    pa = needs_pyarrow("a sink")
    if options.format in BINARY_FORMATS:
        payloads = options.schema
        if payloads is None and state is not None and state.schema is not None:
            payloads = payload_of(from_text(state.schema), options.registry)
        if payloads is None:
            payloads = await _first(js, stream, options)
        if isinstance(payloads, RegisteredSchema):
            return pa.schema(payloads), payloads
        return pa.schema(BinaryColumns(payloads)), payloads
    if options.schema is None:
        return None, None
    if options.schema != "infer":
        given = pa.schema(arrow_schema(options.schema))
    elif state is not None and state.schema is not None:
        given = from_text(state.schema)
    else:
        given = await _first(js, stream, options)
    return given, given


async def _first(js: ReadVerbs, stream: str, options: SinkOptions) -> Any:
    """Return the schema of the first messages."""
    schema = None if options.format in BINARY_FORMATS else "infer"
    more: dict[str, Any] = {"format": options.format, "registry": options.registry, "schema": schema}
    async with js.read(stream, subjects=options.subjects, start_seq=options.start_seq, **more) as reader:
        await reader._open()
        # That of a registry has more than its columns.
        return reader.inferred if schema == "infer" else reader._inferred


def _open_range(api: JetStreamApi, stream: str, **options: Any) -> Reader:
    return Reader(api, ReadSpec(stream, **options))


def _open_compacted(api: JetStreamApi, stream: str, **options: Any) -> Reader:
    return CompactedReader(api, ReadSpec(stream, **options))
