"""Detection of streams that were rolled back behind a position. The native module of this name has the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from jetarrow._jetarrow import thin_marks
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import StreamRolledBackError

# Sequence and server time (nanoseconds since 1970) of a message that was seen.
Mark: TypeAlias = tuple[int, int]
# First and last sequence of a stream, and the time of the last message, None if it is unknown.
Extent: TypeAlias = tuple[int, int, int | None]


def thin(marks: Iterable[Mark]) -> list[Mark]:
    """Reduces marks to the few that are kept, the newest first."""
    return thin_marks(list(marks))


def error_without_marks(stream: str, last_seq: int, seen: int) -> StreamRolledBackError:
    """The error of a position without marks, which an earlier version recorded.

    Args:
        stream: The stream.
        last_seq: Its last sequence.
        seen: The last processed sequence.
    """
    return StreamRolledBackError(stream, (seen, None), (last_seq, None))


async def verify(
    api: JetStreamApi, stream: str, marks: Sequence[Mark], *, extent: Extent | None = None
) -> StreamRolledBackError | None:
    """Compares marks with the stream: a request for its state, and at most one for a message if the marks match.

    Args:
        api: The API.
        stream: The stream.
        marks: Messages that were seen; if there are none, no request is made.
        extent: The extent of the stream, if it is known. Default: it is requested.

    Returns:
        The error with the difference; None if nothing contradicts the marks.
    """
    if not marks:
        return None
    session = api.session
    return await session.run(session.native.verify_marks(api.prefix, stream, list(marks), api.timeout, extent))
