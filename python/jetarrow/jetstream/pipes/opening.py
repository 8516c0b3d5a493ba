"""Opening of a pipe: its position is found, checked and claimed."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from jetarrow.core.errors import Error
from jetarrow.core.nuid import NUID
from jetarrow.jetstream import models
from jetarrow.jetstream.errors import (
    PublishUnconfirmedError,
    StreamRecreatedError,
    StreamRolledBackError,
    WrongLastSequenceError,
)
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.literals import OnRollback
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.pipe_errors import PipeError, PipeFencedError, PipePositionLostError
from jetarrow.jetstream.pipes.messages import message_schema
from jetarrow.jetstream.pipes.note import Note, NoteStore
from jetarrow.jetstream.pipes.position import PipePosition
from jetarrow.jetstream.pipes.target import PipeTarget, StoredPosition
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.sinks.state import State

# Attempts of a claim, of which each fails only if another instance stores a position meanwhile.
_ATTEMPTS = 20


class Opening:
    """Finds and claims the position of a pipe.

    Args:
        js: The context.
        pipe: Name of the pipe.
        source: Name of its source.
        target: Its target.
        on_rollback: Reaction to a rollback of the target.
    """

    def __init__(self, js: KeyValues, pipe: str, source: str, target: PipeTarget, *, on_rollback: OnRollback) -> None:
        self._js, self._pipe, self._source, self._target = js, pipe, source, target
        self._on_rollback = on_rollback
        self._notes = NoteStore(js, target.stream, pipe)
        self.instance = NUID().next().decode()

    async def find(self, *, reset: bool = False) -> StoredPosition | None:
        """Return the position in the target; None at the first start.

        Args:
            reset: Whether a position that is lost is no error.

        Raises:
            PipeError: The source cannot be read, or the position is one of another source.
            PipePositionLostError: There was a position, and the target does not have it any more.
            StreamRecreatedError: Source or target was deleted and created again.
            StreamRolledBackError: The target was rolled back.
        """
        info = await Management(self._js._api).stream_info(self._source)
        if info.config.retention != models.RetentionPolicy.LIMITS:
            raise PipeError(
                f"could not read stream {self._source!r}: its retention {info.config.retention} removes messages that"
                " were acknowledged; use a stream of retention limits, which may have it as its source"
            )
        created = info.created_raw or ""
        await self._target.open()
        found, note = await self._target.read(), await self._notes.load()
        if reset:
            return found
        self._check_note(found, note)
        if found is None:
            return None
        state = found.position.state
        if state.stream != self._source:
            raise PipeError(
                f"could not open pipe {self._pipe!r}: it reads stream {state.stream!r}, and not {self._source!r}; give"
                " another name"
            )
        if state.created != created:
            raise StreamRecreatedError(
                f"could not resume pipe {self._pipe!r}: stream {self._source!r} was deleted and created again since, so"
                " its sequences are other messages; give another name, or start it anew with reset(1)"
            )
        return self._after_rollback(found, note)

    def _check_note(self, found: StoredPosition | None, note: Note | None) -> None:
        if found is not None or note is None or not note.seq:
            return
        target = self._target
        if note.created != target.created:
            raise StreamRecreatedError(
                f"could not resume pipe {self._pipe!r}: its target {target.stream!r} was deleted and created again"
                " since; start the pipe anew with reset(1)"
            )
        raise PipePositionLostError(
            f"could not resume pipe {self._pipe!r}: stream {target.stream!r} does not have its position on"
            f" {target.subject} any more, which was message {note.seq} of {note.time}: a limit, a purge or a delete"
            " removed it; find the last message that the pipe stored, and start it anew with reset(seq)"
        )

    def _after_rollback(self, found: StoredPosition, note: Note | None) -> StoredPosition:
        """Return the position to resume at.

        Raises:
            StreamRolledBackError: The target was rolled back, and that is an error.
        """
        target = self._target
        if note is None or note.created != target.created:
            return found
        if found.seq > note.seq or (found.seq == note.seq and note.time in ("", found.time)):
            return found
        error = StreamRolledBackError(target.stream, (note.seq, None), (found.seq, None))
        if self._on_rollback == "fail":
            raise error
        warnings.warn(str(error), stacklevel=2)
        if self._on_rollback == "continue":
            return found
        state = found.position.state.rolled_back_to(0)
        return found._replace(position=found.position.after(state))

    async def claim(self, position: PipePosition, seq: int, *, replaces: bool = False) -> StoredPosition:
        """Store a position as this instance, which fences every other one.

        Args:
            position: The position.
            seq: Sequence of the former position; 0 if there is none.
            replaces: Whether it counts although another instance has stored a part meanwhile.

        Returns:
            The stored one. Unless it replaces others it may be later than `position`, for that reason.

        Raises:
            PipeFencedError: Other instances store positions all the time.
        """
        if not seq:
            # Until the first position has a note, no step is made.
            await self._notes.save(Note(self._target.created))
        for _ in range(_ATTEMPTS):
            own = replace(position, instance=self.instance)
            empty = message_schema().empty_table()
            call = self._target.publish(self._target.batch([empty], [own.dump()], [seq]))
            result = PublishResult(await self._js._api.session.run(call))
            errors: list[Any] = [failed.error for failed in result.errors]
            if errors and not isinstance(errors[0], WrongLastSequenceError | PublishUnconfirmedError):
                raise _named(errors[0], self._pipe)
            found = await self._target.read()
            if found is None:
                raise PipePositionLostError(
                    f"could not open pipe {self._pipe!r}: stream {self._target.stream!r} does not keep its position on"
                    f" {self._target.subject}; look at its limits"
                )
            if found.position.instance == self.instance:
                self._target.last_seq = max(found.seq, self._target.last_seq)
                await self.note(found)
                return found
            # Another instance was faster: its position counts.
            position, seq = position if replaces else found.position, found.seq
        raise PipeFencedError(f"could not open pipe {self._pipe!r}: other instances of it store positions all the time")

    async def note(self, stored: StoredPosition) -> None:
        """Note a position, so that its loss is recognized."""
        await self._notes.save(Note(self._target.created, stored.seq, stored.time))

    def first(self, created: str) -> PipePosition:
        """Return the position before the first step.

        Args:
            created: Creation time of the source.
        """
        return PipePosition(self._pipe, self.instance, State(self._source, created))


def _named(error: Exception, pipe: str) -> Exception:
    if isinstance(error, Error):
        return PipeError(f"could not store the position of pipe {pipe!r}: {error}")
    return error
