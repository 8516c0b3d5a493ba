"""Number of messages of a batch read, without their transfer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.types import LongType, StructField, StructType

from jetarrow.jetstream.models import StreamInfo
from jetarrow.spark.connection import connect, jetstream
from jetarrow.spark.options.bounds import LATEST
from jetarrow.spark.options.choices import ReadMode
from jetarrow.spark.options.option_texts import OptionTexts, invalid
from jetarrow.spark.options.read import READ_OPTIONS, ReadOptions, RowOptions, read_options

from .metadata import Lookup, end_sequence, first_sequence
from .partition_reader import read_range
from .partitioning import StreamRange, check_named, span_of
from .read_plan import check_readable, filters_for, is_direct, read_plan

_SEQ = StructType([StructField("seq", LongType(), nullable=False)])


def count_rows(texts: Mapping[str, str]) -> int:
    """Count the messages of a batch read (see `jetarrow.spark.count_messages`).

    Args:
        texts: Options of the read.

    Raises:
        Exception: As `jetarrow.spark.count_messages`.
    """
    given = read_options(texts)
    OptionTexts(texts, READ_OPTIONS).refuse_unknown()
    if given.read_mode == ReadMode.LATEST:
        raise invalid("readMode", "the server counts messages, not subjects", "all (default)")
    given.connection.warn()
    given = replace(given, rows=RowOptions())
    with connect(given.connection) as client:
        lookup = Lookup(jetstream(client, given.connection), given)
        infos = lookup.infos()
        check_named(given, infos)
        check_readable(given, infos)
        spans = {name: span_of(given, info, lookup, stream=name) for name, info in infos.items()}
        return sum(_count(given, infos[name], lookup, start=start, end=end) for name, (start, end) in spans.items())


def _count(options: ReadOptions, info: StreamInfo, lookup: Lookup, *, start: int, end: int) -> int:
    """Count the messages of a range of one stream."""
    first, past, name = first_sequence(info), end_sequence(info), str(info.config.name)
    start, filters = max(start, first), filters_for(options, info)
    if end <= start:
        return 0
    if not filters:
        if (start, end) == (first, past):
            return info.state.messages
        if past - first == info.state.messages:
            return end - start
    found = None if is_direct(options, info) else _counted(options, info, lookup, start=start, end=end)
    if found is not None:
        return found
    plan = replace(read_plan(options, info, lookup, start=start, size=end - start), loss_fails=False)
    return sum(batch.num_rows for batch in read_range(_SEQ, options, StreamRange(name, start, end, plan=plan)))


def _counted(options: ReadOptions, info: StreamInfo, lookup: Lookup, *, start: int, end: int) -> int | None:
    """Return the number of messages by the server's counts; None if they are not of one moment."""
    name, filters = str(info.config.name), filters_for(options, info)
    is_open = options.end.time is None and options.end.of(name, LATEST) == LATEST
    found = lookup.matching(name, start, filters)
    if is_open or found is None:
        # The end of the read is the present one.
        return found
    beyond = lookup.matching(name, end, filters)
    now = lookup.info(name).state
    # Without a new message and without a deleted one, both counts are of the state at planning.
    same = (now.first_seq, now.last_seq, now.messages) == (
        info.state.first_seq,
        info.state.last_seq,
        info.state.messages,
    )
    return found - beyond if same and beyond is not None else None
