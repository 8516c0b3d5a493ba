"""Target streams of a write, checked on the driver before a task runs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from jetarrow.core.errors import UnsupportedError
from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark.connection import connect, jetstream
from jetarrow.spark.options.choices import Dedup, PublishMode
from jetarrow.spark.options.option_texts import invalid
from jetarrow.spark.options.write import WriteOptions
from jetarrow.spark.source.metadata import Lookup

from .routes import Route, Routes, routes_of
from .rows import check_columns
from .state import check_target, open_bucket

# The configuration flag of a stream that enables a mode.
_NEEDED_FLAGS = {PublishMode.FAST: "allow_batched", PublishMode.ATOMIC: "allow_atomic"}
# Seconds after which the streams of a running query are listed again, which finds new ones.
_LIST_INTERVAL = 10.0


@dataclass(frozen=True)
class Target:
    """The streams of a write when it was planned.

    Attributes:
        window: Duplicate window in seconds; the longest one of several streams.
        routes: Subjects of several streams; empty for a single one.
    """

    window: float
    routes: tuple[Route, ...] = ()


# Cached targets and their times: Spark creates a writer for every micro-batch, and another one to commit it.
# A task requests the window again before it relies on it.
_known: dict[WriteOptions, tuple[Target, float]] = {}


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
        target, listed = _known[options]
        if options.stream is not None or time.monotonic() - listed < _LIST_INTERVAL:
            return target
    infos = _checked_infos(options)
    windows = {name: float(info.config.duplicate_window or 0) for name, info in infos.items()}
    if options.dedup == Dedup.CONTENT or "msg_id" in schema.names:
        _warn_of_windows(options, windows)
    target = Target(max(windows.values()))
    if options.stream is None:
        target = Target(target.window, routes_of({name: info.config.subjects for name, info in infos.items()}))
        if options.subject is not None and Routes(target.routes).stream_of(options.subject) is None:
            raise invalid(
                "subject", f"none of {options.target} stores {options.subject!r}", "a subject that one of them stores"
            )
    _known[options] = (target, time.monotonic())
    return target


def _checked_infos(options: WriteOptions) -> Mapping[str, StreamInfo]:
    """Return the info of the streams; check a single stream for the features that the options need."""
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
    return infos


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
