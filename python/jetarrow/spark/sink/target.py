"""Target streams of a write, checked on the driver before a task runs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.types import StructType

import jetarrow.sync
from jetarrow.core.errors import Error, UnsupportedError
from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark.connection import connect, jetstream
from jetarrow.spark.options.choices import Dedup, PublishMode
from jetarrow.spark.options.option_texts import invalid
from jetarrow.spark.options.write import WriteOptions
from jetarrow.spark.source.metadata import Lookup

from .positions import Position, position_of, positions_of
from .routes import Route, Routes, routes_of
from .rows import check_columns
from .state import check_target, open_bucket

# The configuration flag of a stream that enables a mode.
_NEEDED_FLAGS = {PublishMode.FAST: "allow_batched", PublishMode.ATOMIC: "allow_atomic"}
# Seconds after which the streams of a running query are listed again, which finds new ones.
_LIST_INTERVAL = 10.0
# Part of the duplicate window after which the positions of the streams are requested again for the next micro-batch.
_POSITION_SHARE = 0.1


@dataclass(frozen=True)
class Target:
    """The streams of a write when it was planned.

    Attributes:
        window: Duplicate window in seconds; the shortest one of several streams.
        routes: Subjects of several streams; empty for a single one.
        planned: The position of each stream, at which it has no row of the write.
    """

    window: float
    routes: tuple[Route, ...] = ()
    planned: Mapping[str, Position] = field(default_factory=dict)


@dataclass
class _Known:
    """A target, and the times by the driver's clock at which its streams were listed and their positions requested."""

    target: Target
    listed: float
    positioned: float


# Cached targets: Spark creates a writer for every micro-batch, and another one to commit it.
_known: dict[WriteOptions, _Known] = {}


def prepare(schema: StructType, options: WriteOptions, *, overwrite: bool, streaming: bool) -> Target:
    """Check columns, options and streams on the driver before a task runs.

    Args:
        schema: Schema of the DataFrame.
        options: Validated options.
        overwrite: Whether the save mode is overwrite, or the output mode is complete.
        streaming: Whether the writer is for a micro-batch; a single stream is only checked for the first one.

    Raises:
        ValueError: A column is not valid, no stream stores option `subject`, or the mode would delete messages.
        UnsupportedError: The stream does not allow this `publishMode`.
        NotFoundError: The stream does not exist.
        NoServersError: No server responds within the connect timeout.
    """
    if overwrite:
        asked, instead = ("outputMode complete", "append or update") if streaming else ("mode overwrite", "append")
        raise ValueError(
            f"jetstream: {asked} would have to delete the messages of {options.target} for all readers, and is not"
            f" supported; use {instead}, and purge the stream yourself if needed"
        )
    check_columns(schema, subject=options.subject, atomic_by=options.atomic_by)
    if streaming and options.dedup_scope is not None:
        raise invalid(
            "dedupScope", "a streaming query uses the numbers of its batches", "leave it out; it is for foreachBatch"
        )
    if not streaming and options.sink_state is not None:
        raise invalid("exactlyOnce", "state is for streaming queries", "window; with dedupScope in foreachBatch")
    if streaming and options in _known:
        known = _known[options]
        if options.stream is not None or time.monotonic() - known.listed < _LIST_INTERVAL:
            _renew_positions(options, known)
            return known.target
    begun = time.monotonic()
    infos, planned = _checked_infos(options)
    windows = {name: float(info.config.duplicate_window or 0) for name, info in infos.items()}
    if options.dedup == Dedup.CONTENT or "msg_id" in schema.names:
        _warn_of_windows(options, windows)
    target = Target(min(windows.values()), planned=planned)
    if options.stream is None:
        target = replace(target, routes=routes_of({name: info.config.subjects for name, info in infos.items()}))
        if options.subject is not None and Routes(target.routes).stream_of(options.subject) is None:
            raise invalid(
                "subject", f"none of {options.target} stores {options.subject!r}", "a subject that one of them stores"
            )
    _known[options] = _Known(target, begun, begun)
    return target


def _renew_positions(options: WriteOptions, known: _Known) -> None:
    """Request the positions of the streams again if they are old: a retry reads what was stored since then."""
    begun = time.monotonic()
    if options.sink_state is not None or begun - known.positioned < known.target.window * _POSITION_SHARE:
        return
    try:
        with connect(options.connection) as client:
            found = _positions(jetstream(client, options.connection), list(known.target.planned))
    except Error:
        return  # older positions are valid too
    known.target, known.positioned = replace(known.target, planned={**known.target.planned, **found}), begun


def _positions(js: jetarrow.sync.JetStream, streams: list[str]) -> dict[str, Position]:
    return {streams[0]: position_of(js, streams[0])} if len(streams) == 1 else positions_of(js, streams)


def _checked_infos(options: WriteOptions) -> tuple[Mapping[str, StreamInfo], dict[str, Position]]:
    """Return info and positions of the streams; check a single stream for the features that the options need."""
    # A separate connection, so that an unavailable server is an error within the connect timeout.
    with connect(options.connection) as client:
        js = jetstream(client, options.connection)
        infos = Lookup(js, options).infos()
        if options.stream is not None:
            info, flag = infos[options.stream], _NEEDED_FLAGS.get(options.publish_mode)
            if flag is not None and not getattr(info.config, flag):
                mode, has = f"publishMode={options.publish_mode}", f"{options.target} has it disabled"
                raise UnsupportedError(mode, f"a stream with {flag}", has)
            if options.sink_state is not None:
                check_target(info)
                open_bucket(js, options.sink_state, replicas=info.config.num_replicas or 1)
        return infos, {} if options.sink_state is not None else _positions(js, list(infos))


def _warn_of_windows(options: WriteOptions, windows: Mapping[str, float]) -> None:
    short = {name: window for name, window in windows.items() if window < options.recovery_window}
    if not short or options.sink_state is not None or (options.stream is None and options in _known):
        return
    name, window = min(short.items(), key=lambda one: one[1])
    others = f" (and {len(short) - 1} other streams for too short a time)" if len(short) > 1 else ""
    warnings.warn(
        f"jetstream: stream {name!r} recognises duplicates for {window:g} s{others}, which is less than"
        f" recoveryWindow={options.recovery_window:g} s: rows that Spark retries later than that are stored twice;"
        " increase the stream's duplicate_window, or decrease recoveryWindow",
        stacklevel=4,
    )
