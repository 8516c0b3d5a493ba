"""A stream that is not there, by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from jetarrow.core.errors import Error
from jetarrow.jetstream.errors import NotFoundError


async def absent(error: NotFoundError, stream: str, names: AsyncIterator[str] | None) -> NotFoundError:
    """The server's error, with the stream's name and the nearest one that there is.

    Args:
        error: What the server answered.
        stream: What was asked for.
        names: Of the streams that there are; None leaves out the nearest.
    """
    import difflib  # here, as it is rarely needed

    text = f"there is no stream {stream!r}"
    if names is not None:
        # Who may not list them has the error itself.
        with suppress(Error):
            by_fold = {name.casefold(): name async for name in names}
            nearest = difflib.get_close_matches(stream.casefold(), by_fold, 1)
            if nearest:
                text += f"; did you mean {by_fold[nearest[0]]!r}?"
    return NotFoundError(error.code, error.description, error.err_code, error.stream, error.seq, message=text)
