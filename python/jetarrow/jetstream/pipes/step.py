"""A step of a pipe: its messages, and the position after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetarrow.jetstream.pipe_errors import PipeReplayError
from jetarrow.jetstream.pipes.options import PipeOptions, PipeResult
from jetarrow.jetstream.pipes.position import PipePosition
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    import pyarrow


@dataclass
class Step:
    """A step that is processed and not stored yet.

    Attributes:
        parts: Its messages.
        digests: Their digests, if there are several parts.
        state: Position in the source after the step.
        tables: Sequence of each table of the function.
        result: Its result, once it is stored.
    """

    parts: list[pyarrow.Table]
    digests: tuple[str, ...]
    state: State
    tables: Mapping[str, int]
    result: PipeResult


def kept(state: State, options: PipeOptions) -> State:
    """Return what a later start needs of a source's state: the schema only if the first start has found it."""
    schema = options.source.schema
    found = schema == "infer" if isinstance(schema, str) or options.source.format == "json" else schema is None
    return State(
        state.stream,
        state.created,
        state.last_seq,
        schema=state.schema if found else None,
        marks=state.marks,
        epoch=state.epoch,
    )


def check_replay(step: Step, position: PipePosition) -> None:
    """Check that the stored parts of a step come out equal.

    Args:
        step: The step, processed again.
        position: The position after some of its parts.

    Raises:
        PipeReplayError: They do not.
    """
    digests = step.digests
    stored = len(position.parts)
    first = next(
        (place for place in range(stored) if digests[place : place + 1] != position.parts[place : place + 1]), None
    )
    if first is None and position.total != len(step.parts):
        first = min(stored, len(step.parts))
    if first is not None or step.state.last_seq != position.end_seq:
        part = (first or 0) + 1
        raise PipeReplayError(
            part,
            f"could not resume pipe {position.pipe!r}: part {part} of {position.total} of the messages for rows"
            f" {position.state.last_seq + 1} to {position.end_seq} of stream {position.state.stream!r} differs from the"
            " stored one, so that the rest does not fit it; the function must give the same messages for the same rows."
            " reset(seq) starts the pipe anew",
        )
