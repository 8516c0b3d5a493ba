"""Read plan of a stream: evaluation of filters, protocol, and handling of lost messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jetarrow.jetstream.models import RetentionPolicy, StreamInfo
from jetarrow.spark.options.choices import CommitMode, FailOnDataLoss, Payload, ReaderKind
from jetarrow.spark.options.read import ReadOptions

from .filters import covers
from .metadata import Lookup, consumes, created, end_sequence, retention

# Up to this number of sequences client and server filters are equally fast; above, the server is faster only if at
# most this share of the messages matches.
SMALL_RANGE = 20_000
_FEW_MATCHES = 0.1


@dataclass(frozen=True)
class ReadPlan:
    """Read plan of the partitions of a stream.

    Attributes:
        created: Creation time of the planned stream; a later stream of the same name has other messages.
        loss_fails: Whether lost messages fail the task; else it warns. Default: True.
        direct: Whether to use direct gets instead of a consumer, which would remove messages. Default: False.
        pushed: Subject filters that the server evaluates. Default: none.
        local: Subject filters that the worker evaluates. Default: none.
    """

    created: str
    loss_fails: bool = True
    direct: bool = False
    pushed: tuple[str, ...] = ()
    local: tuple[str, ...] = ()


def read_plan(options: ReadOptions, info: StreamInfo, lookup: Lookup | None, *, start: int, size: int) -> ReadPlan:
    """Return the read plan of a stream.

    Args:
        options: Validated options of the read.
        info: Info of the stream.
        lookup: Lookup of counts; None disables counting.
        start: First sequence.
        size: Number of sequences.

    Raises:
        ValueError: A work-queue stream would be read by a consumer, or direct gets are disabled.
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
    """Return the filters that the server evaluates: none if reading all messages is faster.

    Args:
        options: Validated options of the read.
        info: Info of the stream.
        lookup: Lookup of counts; None disables counting.
        start: First sequence.
        sequences: Number of sequences.

    Raises:
        ValueError: As `read_plan`.
    """
    filters = filters_for(options, info)
    if is_direct(options, info):
        return filters if len(filters) == 1 else ()
    # Table messages are few, and would be decoded before they are dropped here.
    few = options.rows.payload == Payload.ARROW
    if filters and lookup is not None and sequences > SMALL_RANGE and not few:
        found = lookup.matching(str(info.config.name), start, filters)
        left = max(1, end_sequence(info) - start)
        if found is not None and found > left * _FEW_MATCHES:
            return ()
    return filters


def filters_for(options: ReadOptions, info: StreamInfo) -> tuple[str, ...]:
    """Return the filters that a stream needs: none if they match all of its subjects.

    Args:
        options: Validated options of the read.
        info: Info of the stream.
    """
    config = info.config
    foreign = config.sources or config.mirror or config.subject_transform
    if not options.subjects or not config.subjects or foreign:
        return options.subjects
    whole = all(any(covers(one, subject) for one in options.subjects) for subject in config.subjects)
    return () if whole else options.subjects


def loss_fails(options: ReadOptions, info: StreamInfo) -> bool:
    """Return whether lost messages are an error.

    Args:
        options: Validated options of the read.
        info: Info of the stream.
    """
    fail = options.fail_on_data_loss
    if fail is None:
        # The heads of these streams move by design, unless a consumer retains the messages for the query.
        kind, per_subject = retention(info), (info.config.max_msgs_per_subject or 0) > 0
        retained = kind == RetentionPolicy.INTEREST and options.commit_mode == CommitMode.CONSUMER
        moves = (kind != RetentionPolicy.LIMITS and not retained) or per_subject
        fail = FailOnDataLoss.FALSE if moves else FailOnDataLoss.TRUE
    # With a filter it is unknown whether lost messages matched.
    return fail == FailOnDataLoss.STRICT or (fail == FailOnDataLoss.TRUE and not filters_for(options, info))


def head_may_move(options: ReadOptions) -> bool:
    """Return whether a read from the earliest message may begin later than planned (`failOnDataLoss` is not set).

    Args:
        options: Validated options of the read.
    """
    return options.fail_on_data_loss is None


def check_readable(options: ReadOptions, infos: Mapping[str, StreamInfo]) -> None:
    """Check that the options apply to the streams.

    Args:
        options: Validated options of the read.
        infos: Info of the streams.

    Raises:
        ValueError: Option `reader` does not apply to a stream.
    """
    for info in infos.values():
        is_direct(options, info)


def is_direct(options: ReadOptions, info: StreamInfo) -> bool:
    """Return whether a stream is read by direct gets instead of a consumer.

    Args:
        options: Validated options of the read.
        info: Info of the stream.

    Raises:
        ValueError: Option `reader` does not apply to the stream.
    """
    name = info.config.name
    if options.reader == ReaderKind.PULL and consumes(info):
        raise ValueError(
            f"jetstream option 'reader': pull would remove messages from {retention(info)} stream {name!r};"
            " valid: auto (default), direct"
        )
    direct = options.reader == ReaderKind.DIRECT or (options.reader == ReaderKind.AUTO and consumes(info))
    if direct and not info.config.allow_direct:
        raise ValueError(
            f"jetstream option 'reader': {retention(info)} stream {name!r} needs direct gets, which it does"
            f" not allow: set allow_direct in its configuration; valid: {'direct' if consumes(info) else 'auto, pull'}"
        )
    return direct
