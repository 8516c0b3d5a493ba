"""What a write is for: checked on the driver, before a task runs."""

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

# The flag of a stream that allows a mode.
_NEEDED_FLAGS = {PublishMode.FAST: "allow_batched", PublishMode.ATOMIC: "allow_atomic"}
# Streams that are made while a query runs are found after so many seconds at most.
_LOOK_AGAIN = 10.0


@dataclass(frozen=True)
class Target:
    """The streams of a write, as they were when it was planned.

    Attributes:
        window: The duplicate window in seconds; the longest where there are several streams.
        routes: What each of several streams takes; empty where there is one.
    """

    window: float
    routes: tuple[Route, ...] = ()


# What this process has looked at, and when: Spark makes a new writer for every micro-batch, and one more to commit it.
# A task asks anew before it relies on a window.
_known: dict[WriteOptions, tuple[Target, float]] = {}


def prepare(schema: StructType, options: WriteOptions, *, overwrite: bool, streaming: bool) -> Target:
    """Check everything that can be known on the driver, before a task runs.

    Args:
        schema: The DataFrame's.
        options: Checked options.
        overwrite: What Spark makes of the save mode, or of the output mode.
        streaming: Whether the writer is for a micro-batch; one stream is looked at for the first one only.

    Raises:
        ValueError: A column does not fit, no stream takes option `subject`, or rows that are there would have to go.
        UnsupportedError: The stream does not allow this `publishMode`.
        NotFoundError: There is no such stream.
        NoServersError: No server answers within the connect timeout.
    """
    if overwrite:
        asked, instead = ("outputMode complete", "append or update") if streaming else ("mode overwrite", "append")
        raise ValueError(
            f"jetstream: {asked} would have to delete the messages of {options.target}, for all who read it,"
            f" and is never done; use {instead}, and purge the stream yourself where that is meant"
        )
    check_columns(schema, subject=options.subject, atomic_by=options.atomic_by)
    if streaming and options.dedup_scope is not None:
        raise invalid(
            "dedupScope", "a streaming query names its batches itself", "leave it out; it is for foreachBatch"
        )
    if not streaming and options.sink_state is not None:
        raise invalid("exactlyOnce", "state is for streaming queries", "window; with dedupScope in foreachBatch")
    if streaming and options in _known:
        target, looked = _known[options]
        if options.stream is not None or time.monotonic() - looked < _LOOK_AGAIN:
            return target
    infos = _look(options)
    windows = {name: float(info.config.duplicate_window or 0) for name, info in infos.items()}
    if options.dedup == Dedup.CONTENT or "msg_id" in schema.names:
        _warn_of_windows(options, windows)
    target = Target(max(windows.values()))
    if options.stream is None:
        target = Target(target.window, routes_of({name: info.config.subjects for name, info in infos.items()}))
        if options.subject is not None and Routes(target.routes).stream_of(options.subject) is None:
            raise invalid("subject", f"none of {options.target} takes {options.subject!r}", "a subject that one takes")
    _known[options] = (target, time.monotonic())
    return target


def _look(options: WriteOptions) -> Mapping[str, StreamInfo]:
    """The streams, one of them or several; one is checked for what the options want of it."""
    # A connection of its own: a server that has gone is noticed now, and within the connect timeout.
    with connect(options.connection) as client:
        js = jetstream(client, options.connection)
        infos = Lookup(js, options).infos()
        if options.stream is not None:
            info, flag = infos[options.stream], _NEEDED_FLAGS.get(options.publish_mode)
            if flag is not None and not getattr(info.config, flag):
                mode, has = f"publishMode={options.publish_mode}", f"{options.target} has it off"
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
    others = f" (and {len(short) - 1} others for less than it should)" if len(short) > 1 else ""
    warnings.warn(
        f"jetstream: stream {name!r} recognises duplicates for {window:g} s{others}, which is less than"
        f" recoveryWindow={options.recovery_window:g} s: what Spark writes again after more than that is stored"
        " twice; raise the stream's duplicate_window, or lower recoveryWindow",
        stacklevel=4,
    )
