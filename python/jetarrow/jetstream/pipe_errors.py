"""Errors of pipes. Public as `jetarrow.js.errors`."""

from __future__ import annotations

from jetarrow.jetstream.api_errors import Error


class PipeError(Error):
    """A pipe cannot be opened or continued, or its function failed."""

    _default = "the pipe failed"


class PipeFencedError(PipeError):
    """Another instance of the pipe, with the same name and target, has started and taken over.

    This instance has stored nothing since; the other one continues at its position.
    """

    _default = "another instance of the pipe has taken over: run one instance of each name"


class PipeReplayError(PipeError):
    """The function gave other messages for the same rows than before an interruption.

    A step larger than an atomic batch is stored in parts. After an interruption between two parts the rows are read
    and processed again, and the parts that are stored must come out equal.

    Args:
        part: The number of the first part that differs, from 1. Default: None.
        message: The text. Default: one for a part that is unknown.
    """

    _default = "the function gave other messages for the same rows than before: it must be deterministic"

    def __init__(self, part: int | None = None, message: str | None = None) -> None:
        super().__init__(message)
        self.part = part


class PipePositionLostError(PipeError):
    """The target no longer has the position of the pipe: a limit, a purge or a delete removed it.

    Rows that are read again could be stored twice, so that only `pipe.reset(seq)` starts it anew.
    """

    _default = "the target no longer has the position of the pipe: start it anew with reset(seq)"
