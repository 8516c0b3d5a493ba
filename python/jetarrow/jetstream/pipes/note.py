"""Note of a pipe: which position its target had, so that a lost position or a rollback is recognized."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from jetarrow.jetstream.errors import KeyDeletedError, KeyNotFoundError, NotFoundError
from jetarrow.jetstream.kv.key_value import KeyValue
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.resume.stores import BUCKET

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@dataclass(frozen=True)
class Note:
    """A position that the target had.

    Attributes:
        created: Creation time of the target, as the server writes it.
        seq: Sequence of the position; 0 before the first one.
        time: Its time, ISO 8601; empty before the first one.
    """

    created: str
    seq: int = 0
    time: str = ""


class NoteStore:
    """The key of a pipe's note in the bucket of positions, which is created at its first use.

    Args:
        js: The context.
        target: Name of the target.
        pipe: Name of the pipe.
    """

    def __init__(self, js: KeyValues, target: str, pipe: str) -> None:
        self._js = js
        # Names of streams may have characters that keys cannot have.
        self._key = f"pipe.{target if _PLAIN.issuperset(target) else target.encode().hex()}.{pipe}"
        self._kv: KeyValue | None = None

    async def _opened(self) -> KeyValue:
        if self._kv is None:
            try:
                self._kv = await self._js.key_value(BUCKET)
            except NotFoundError:
                self._kv = await self._js.create_key_value(
                    bucket=BUCKET, history=1, description="positions of loads (jetarrow)"
                )
        return self._kv

    async def load(self) -> Note | None:
        """Return the note; None if there is none."""
        kv = await self._opened()
        try:
            entry = await kv._get(self._key, leader=True)
        except (KeyNotFoundError, KeyDeletedError):
            return None
        try:
            found = json.loads(entry.value or b"")
            return Note(str(found["created"]), int(found["seq"]), str(found["time"]))
        except (ValueError, TypeError, KeyError):
            return None

    async def save(self, note: Note) -> None:
        """Replace the note."""
        await (await self._opened()).put(self._key, json.dumps(asdict(note)).encode())
