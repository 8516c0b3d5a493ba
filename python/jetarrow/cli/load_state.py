"""Position of `jetarrow load` (`--state`), and its warnings without one."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from jetarrow.cli.session import Session
from jetarrow.cli.units import show_span
from jetarrow.core.errors import Error
from jetarrow.sync.internals import load_position, subject_filter

if TYPE_CHECKING:
    import pyarrow as pa

# Bytes of a file that identify it, with its size.
_HEAD = 1 << 20
_BUCKET = "kv:"


def place_of(state: str, path: Path, files: int) -> Path | tuple[str, str]:
    """Return the place of a file's position: a file, or a bucket and a key.

    Args:
        state: Value of `--state`.
        path: The file that is loaded.
        files: Number of files that are loaded.

    Raises:
        BadParameter: One state file for several files, or no bucket.
    """
    if state.startswith(_BUCKET):
        if not (bucket := state.removeprefix(_BUCKET)):
            raise typer.BadParameter("name the bucket: kv:BUCKET.", param_hint="--state")
        return bucket, re.sub(r"[^-/_=.a-zA-Z0-9]|^\.|\.$|(?<=\.)\.", "_", path.name)
    folder = Path(state)
    if folder.is_dir():
        return folder / f"{path.name}.position"
    if files > 1:
        raise typer.BadParameter(
            f"several files need a folder or kv:BUCKET, and {state!r} is none.", param_hint="--state"
        )
    return folder


def resume_of(session: Session, place: Path | tuple[str, str], path: Path, schema: pa.Schema) -> Any:
    """Return the argument `resume` of `publish_table`.

    Args:
        session: The run.
        place: The place of the position.
        path: The file.
        schema: Its types.
    """
    with path.open("rb") as file:
        head = hashlib.sha256(file.read(_HEAD)).hexdigest()
    types = ", ".join(f"{field.name} {field.type}" for field in schema)
    return load_position(session.js, place, {"size": path.stat().st_size, "head": head, "types": types})


class Window:
    """Duplicate window of the stream that a subject belongs to, for warnings without a position.

    Args:
        session: The run.
        subject: The subject or template; None if each row has a subject.
        has_ids: Whether rows have message ids.
    """

    def __init__(self, session: Session, subject: str | None, *, has_ids: bool) -> None:
        self._session = session
        self._has_ids = has_ids
        self._began = datetime.now(UTC)
        self.seconds: float | None = None
        if subject is None or not has_ids:
            return
        try:
            self._stream = session.js.find_stream_name_by_subject(subject_filter(subject))
            info = session.js.stream_info(self._stream)
        except Error:
            # The publish reports it.
            return
        self.seconds = info.config.duplicate_window
        first = info.state.first_ts
        if self.seconds and info.state.messages and first and (self._began - first).total_seconds() > self.seconds:
            session.say(
                f"warning: stream {self._stream} compares message ids for {show_span(self.seconds)} and has older"
                " messages: a row that was loaded before that is stored again; --state keeps a position instead"
            )

    def warn_if_exceeded(self) -> None:
        """Warn if the load took longer than the window."""
        took = (datetime.now(UTC) - self._began).total_seconds()
        if self.seconds and took > self.seconds:
            self._session.say(
                f"warning: the load took {show_span(took)}, and stream {self._stream} compares message ids for"
                f" {show_span(self.seconds)}: loading the file again stores rows twice; --state keeps a position"
            )

    def advice(self) -> str:
        """Return how to go on after an interruption."""
        if not self._has_ids:
            return "loading the file again stores these rows twice; --state keeps a position"
        window = f" within {show_span(self.seconds)}" if self.seconds else " within the stream's duplicate window"
        return f"run the same command again{window}, or use --state, which has no time limit"
