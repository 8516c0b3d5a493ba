"""Target of a pipe: its configuration, its position, and its atomic batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from jetarrow.core.errors import Error, UnsupportedError
from jetarrow.jetstream import models
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import MessageNotFoundError, NotFoundError
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.pipe_errors import PipeError
from jetarrow.jetstream.pipes.messages import message_schema
from jetarrow.jetstream.pipes.parts import PART_ROWS
from jetarrow.jetstream.pipes.position import PipePosition
from jetarrow.jetstream.pipes.subjects import check_subject_of, default_subject
from jetarrow.jetstream.publish_batch import PublishBatch
from jetarrow.jetstream.publish_spec import PublishSpec

if TYPE_CHECKING:
    import pyarrow

    from jetarrow import _jetarrow

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
# Positions that remain when the older ones are removed. A rollback of the target may need some.
_KEPT = 1_000


class StoredPosition(NamedTuple):
    """A position in the target.

    Attributes:
        position: The position.
        seq: Its sequence.
        time: Its time, ISO 8601.
    """

    position: PipePosition
    seq: int
    time: str


class PipeTarget:
    """The stream that a pipe writes to.

    Args:
        js: The context.
        stream: Its name.
        pipe: Name of the pipe.
        position_subject: Subject of the positions; None chooses one.
        dead_letter_subject: Subject of the dead letters; None chooses one.
        timeout: Seconds that a batch may be without an answer.
    """

    def __init__(
        self,
        js: PublishBatch,
        stream: str,
        pipe: str,
        *,
        position_subject: str | None,
        dead_letter_subject: str | None,
        timeout: float,
    ) -> None:
        self._js, self.stream, self._pipe, self._timeout = js, stream, pipe, timeout
        self._given = (position_subject, dead_letter_subject)
        self._manage = Management(js._api)
        self._headers: list[tuple[str, list[str]]] = []
        self._written = 0
        self.subject = self.dead_letters = self.created = ""
        self.subjects: list[str] = []
        self.last_seq = 0

    async def open(self) -> None:
        """Check the configuration, and choose the subjects.

        Raises:
            NotFoundError: The stream does not exist.
            PipeError: It cannot have positions.
            UnsupportedError: It does not take atomic batches.
        """
        info = await self._manage.stream_info(self.stream)
        config = info.config
        if not config.allow_atomic:
            message = (
                f"could not write to stream {self.stream!r}: it does not take atomic batches, in which a pipe stores"
                f" messages and position together; js.update_stream(name={self.stream!r}, allow_atomic=True) changes"
                " that (nats-server 2.12)"
            )
            raise UnsupportedError("pipe()", "allow_atomic", "it is off", message=message)
        if config.retention != models.RetentionPolicy.LIMITS:
            raise PipeError(
                f"could not write to stream {self.stream!r}: its retention {config.retention} removes the positions of"
                " the pipe; use a stream of retention limits, which a work queue may have as its source"
            )
        self.subjects = subjects = config.subjects or []
        position, dead = self._given
        self.subject = position or default_subject(self.stream, subjects, f"_pipe-{self._pipe}")
        check_subject_of(self.stream, subjects, self.subject, "position_subject")
        if dead is not None:
            check_subject_of(self.stream, subjects, dead, "dead_letter_subject")
        with suppress(PipeError):
            self.dead_letters = dead or default_subject(self.stream, subjects, f"_dead-{self._pipe}")
        # The age limit of the stream does not remove such a message.
        self._headers = [("Nats-TTL", ["never"])] if config.allow_msg_ttl and config.max_age else []
        self.created = info.created_raw or ""
        self.last_seq = info.state.last_seq

    async def read(self) -> StoredPosition | None:
        """Return the position, from the stream's leader; None if there is none."""
        try:
            found = await self._manage.get_last_msg(self.stream, self.subject)
        except (MessageNotFoundError, NotFoundError):
            return None
        where = f"message {found.seq} on {self.subject}"
        position = PipePosition.parse(found.data or b"", where)
        if position.pipe != self._pipe:
            raise PipeError(
                f"could not open the pipe {self._pipe!r}: {where} is the position of pipe {position.pipe!r}; give each"
                " its own position_subject"
            )
        return StoredPosition(position, found.seq or 0, "" if found.time is None else found.time.isoformat())

    async def refresh(self) -> int:
        """Return the last sequence of the stream."""
        self.last_seq = (await self._manage.stream_info(self.stream)).state.last_seq
        return self.last_seq

    def batch(
        self, parts: Sequence[pyarrow.Table], positions: Sequence[bytes], expected: Sequence[int]
    ) -> pyarrow.Table:
        """Return messages of which each part, with its position, is one atomic batch.

        Args:
            parts: The messages.
            positions: The position after each part.
            expected: Sequence of the position before each part.
        """
        pa = needs_pyarrow("a pipe")
        headers = [[*self._headers, (_EXPECTED, [str(seq)])] for seq in expected]
        ends = pa.table(
            {"subject": [self.subject] * len(parts), "data": list(positions), "headers": headers},
            schema=message_schema(),
        )
        tables = [piece for place, part in enumerate(parts) for piece in (part, ends.slice(place, 1))]
        return pa.concat_tables(tables)

    def publish(self, messages: pyarrow.Table, *, chunk: int = PART_ROWS + 1) -> _jetarrow.Call[Any]:
        """Return the call that publishes messages of `batch`; every part but the last has `chunk` messages.

        Args:
            messages: The messages.
            chunk: Messages of an atomic batch.
        """
        spec = PublishSpec("atomic", chunk, expected_stream=self.stream, timeout=self._timeout, resend=False)
        api = self._js._api
        return api.session.native.publish_batch(
            None,
            messages,
            prefix=api.prefix,
            progress=None,
            first_row=0,
            headers=None,
            msg_ids=None,
            msg_ttl=None,
            **spec.native_options(),
        )

    async def written(self, positions: int) -> None:
        """Count stored positions, and remove old ones now and then.

        Args:
            positions: Their number.
        """
        self._written += positions
        if self._written >= _KEPT:
            self._written = 0
            # A stream may forbid it; then they remain.
            with suppress(Error, TimeoutError):
                await self._manage.purge_stream(self.stream, subject=self.subject, keep=_KEPT)
