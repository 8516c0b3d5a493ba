"""Whether a stream is still the one that a position was kept of; see `rust/src/engine/receive/rollback.rs`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from jetarrow._jetarrow import thin_marks
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import StreamRolledBackError

# Sequence and server time (nanoseconds since 1970) of a message that was seen.
Mark: TypeAlias = tuple[int, int]
# First and last sequence of a stream, and the time of the last message, None where it is not known.
Extent: TypeAlias = tuple[int, int, int | None]


def thin(marks: Iterable[Mark]) -> list[Mark]:
    """The few marks that are worth keeping, the newest first."""
    return thin_marks(list(marks))


def error_without_marks(stream: str, last_seq: int, seen: int) -> StreamRolledBackError:
    """The error of a position without marks, which an earlier version wrote.

    Args:
        stream: The stream.
        last_seq: Its last sequence.
        seen: What was dealt with.
    """
    return StreamRolledBackError(stream, (seen, None), (last_seq, None))


async def verify(
    api: JetStreamApi, stream: str, marks: Sequence[Mark], *, extent: Extent | None = None
) -> StreamRolledBackError | None:
    """Compares marks with the stream; costs a request for its state, and at most one for a message where it holds.

    Args:
        api: The API.
        stream: The stream.
        marks: Messages that were seen; none means that nothing is known, and nothing asked.
        extent: What the stream has, where that is known. Default: the stream is asked.

    Returns:
        The error that says where they differ; None where nothing contradicts them.
    """
    if not marks:
        return None
    session = api.session
    return await session.run(session.native.verify_marks(api.prefix, stream, list(marks), api.timeout, extent))
