"""Errors of `js.to_parquet` and `js.to_delta`. Public as `jetarrow.js.errors`."""

from __future__ import annotations

from jetarrow.jetstream.api_errors import Error


class SinkError(Error):
    """A sink could not go on; what it had committed stays, and nothing else."""

    _default = "the sink could not go on"


class SinkLockedError(SinkError):
    """Another writer has the folder, or took it over.

    Args:
        message: What happened. Default: a general text.
        host: The other writer's machine. Default: None, not known.
        pid: Its process. Default: None, not known.
    """

    def __init__(self, message: str | None = None, *, host: str | None = None, pid: int | None = None) -> None:
        super().__init__(message)
        self.host = host
        self.pid = pid


class SinkSchemaError(SinkError):
    """What is to be written has other columns than what is there."""
