"""How a stream is read: by whom it is filtered, by which requests, and what becomes of messages that are gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jetarrow.jetstream.models import RetentionPolicy, StreamInfo
from jetarrow.spark.options.choices import FailOnDataLoss, Payload, ReaderKind
from jetarrow.spark.options.read import ReadOptions

from .filters import covers
from .metadata import Lookup, consumes, created, end_sequence, retention

# Up to this many sequences it does not matter who filters; beyond, the server is quicker only if it finds few.
SMALL_RANGE = 20_000
_FEW_MATCHES = 0.1


@dataclass(frozen=True)
class ReadPlan:
    """How the partitions of a stream are read.

    Attributes:
        created: Creation time of the stream that was planned: one made later under its name has other messages.
        loss_fails: Whether messages that are gone fail the task; else it warns. Default: True.
        direct: By direct gets instead of a consumer, which would take messages away. Default: False.
        pushed: Subject filters that the server evaluates. Default: none.
        local: Subject filters that the worker evaluates. Default: none.
    """

    created: str
    loss_fails: bool = True
    direct: bool = False
    pushed: tuple[str, ...] = ()
    local: tuple[str, ...] = ()


def read_plan(options: ReadOptions, info: StreamInfo, lookup: Lookup | None, *, start: int, size: int) -> ReadPlan:
    """Decide how a stream is read.

    Args:
        options: Checked options of the read.
        info: The stream.
        lookup: To count what filters match; with None nothing is counted.
        start: First sequence.
        size: Number of sequences.

    Raises:
        ValueError: A work-queue stream would have to be read by a consumer, or direct gets are off.
    """
    filters = filters_for(options, info)
    pushed = pushed_filters(options, info, lookup, start=start, sequences=size)
    return ReadPlan(
        created=created(info),
        loss_fails=loss_fails(options, info),
        direct=is_direct(options, info),
        pushed=pushed,
        local=() if pushed else filters,
    )


def pushed_filters(
    options: ReadOptions, info: StreamInfo, lookup: Lookup | None, *, start: int, sequences: int
) -> tuple[str, ...]:
    """Return the filters that the server evaluates: none where it is quicker to have all messages.

    Args:
        options: Checked options of the read.
        info: The stream.
        lookup: To count what filters match; with None nothing is counted.
        start: First sequence.
        sequences: How many.

    Raises:
        ValueError: As `read_plan`.
    """
    filters = filters_for(options, info)
    if is_direct(options, info):
        return filters if len(filters) == 1 else ()
    # Messages that are tables are few, and would be unpacked before they are dropped here.
    few = options.rows.payload == Payload.ARROW
    if filters and lookup is not None and sequences > SMALL_RANGE and not few:
        found = lookup.matching(str(info.config.name), start, filters)
        left = max(1, end_sequence(info) - start)
        if found is not None and found > left * _FEW_MATCHES:
            return ()
    return filters


def filters_for(options: ReadOptions, info: StreamInfo) -> tuple[str, ...]:
    """Return the filters that a stream needs: none where they match all that it takes.

    Args:
        options: Checked options of the read.
        info: The stream.
    """
    config = info.config
    foreign = config.sources or config.mirror or config.subject_transform
    if not options.subjects or not config.subjects or foreign:
        return options.subjects
    whole = all(any(covers(one, subject) for one in options.subjects) for subject in config.subjects)
    return () if whole else options.subjects


def loss_fails(options: ReadOptions, info: StreamInfo) -> bool:
    """Whether messages that are gone are an error.

    Args:
        options: Checked options of the read.
        info: The stream.
    """
    fail = options.fail_on_data_loss
    if fail is None:
        # The heads of these move by design.
        moves = retention(info) != RetentionPolicy.LIMITS or (info.config.max_msgs_per_subject or 0) > 0
        fail = FailOnDataLoss.FALSE if moves else FailOnDataLoss.TRUE
    # With a filter it is unknown whether what is gone matched.
    return fail == FailOnDataLoss.STRICT or (fail == FailOnDataLoss.TRUE and not filters_for(options, info))


def head_may_move(options: ReadOptions) -> bool:
    """Whether a read from the earliest message may begin later than planned: the user has not said what is a loss.

    Args:
        options: Checked options of the read.
    """
    return options.fail_on_data_loss is None


def check_readable(options: ReadOptions, infos: Mapping[str, StreamInfo]) -> None:
    """Check that the streams can be read as the options say.

    Args:
        options: Checked options of the read.
        infos: The streams.

    Raises:
        ValueError: One cannot.
    """
    for info in infos.values():
        is_direct(options, info)


def is_direct(options: ReadOptions, info: StreamInfo) -> bool:
    """Whether a stream is read by direct gets instead of a consumer.

    Args:
        options: Checked options of the read.
        info: The stream.

    Raises:
        ValueError: It cannot be read as the options say.
    """
    name = info.config.name
    if options.reader == ReaderKind.PULL and consumes(info):
        raise ValueError(
            f"jetstream option 'reader': pull would take messages from {retention(info)} stream {name!r};"
            " valid: auto (default), direct"
        )
    direct = options.reader == ReaderKind.DIRECT or (options.reader == ReaderKind.AUTO and consumes(info))
    if direct and not info.config.allow_direct:
        raise ValueError(
            f"jetstream option 'reader': {retention(info)} stream {name!r} is to be read by direct gets, which it does"
            f" not allow: set allow_direct in its configuration; valid: {'direct' if consumes(info) else 'auto, pull'}"
        )
    return direct
