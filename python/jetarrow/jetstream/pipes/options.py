"""Options and results of a pipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from jetarrow.jetstream.literals import DecodeMode, OnPipeError, OnRollback
from jetarrow.jetstream.pipes.messages import Encoder
from jetarrow.jetstream.sinks.begin import SinkOptions


class PipeResult(NamedTuple):
    """Result of one or more steps.

    Attributes:
        rows: Number of rows of the source that were processed.
        messages: Number of messages stored in the target, without positions and dead letters.
        dead_letters: Number of messages of the source that are dead letters.
        skipped: Number of rows that were left out with `on_error="skip"` or mode DROPMALFORMED.
        last_seq: Last sequence of the source that is processed; None if no step was made.
    """

    rows: int = 0
    messages: int = 0
    dead_letters: int = 0
    skipped: int = 0
    last_seq: int | None = None

    def plus(self, other: PipeResult) -> PipeResult:
        """Returns the sum of two results."""
        return PipeResult(
            self.rows + other.rows,
            self.messages + other.messages,
            self.dead_letters + other.dead_letters,
            self.skipped + other.skipped,
            self.last_seq if other.last_seq is None else other.last_seq,
        )


@dataclass(frozen=True)
class PipeOptions:
    """Options of a pipe.

    Attributes:
        source: Options of the read.
        encoder: Returns the encoder of the messages, from the subjects of the pipe itself, the target and its subjects.
        rows: Most rows of a step.
        seconds: Seconds that a step waits for more rows.
        bytes: Bytes of rows at which a step ends.
        mode: Meaning of undecodable rows.
        on_error: Reaction to a failed row.
        on_rollback: Reaction to a rollback of the source or the target.
        timeout: Seconds that a batch may be without an answer.
    """

    source: SinkOptions
    encoder: Callable[[list[str], str, list[str]], Encoder]
    rows: int
    seconds: float
    bytes: int
    mode: DecodeMode
    on_error: OnPipeError
    on_rollback: OnRollback
    timeout: float
