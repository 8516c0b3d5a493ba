"""Remedies for the errors of nats-server, by err_code (its server/errors.json)."""

from __future__ import annotations

from jetarrow.jetstream.remedies.consumers import CONSUMER_REMEDIES, PULL_REMEDIES
from jetarrow.jetstream.remedies.messages import MESSAGE_REMEDIES, STORE_FAILED, STORE_REMEDIES
from jetarrow.jetstream.remedies.servers import NO_PEERS, PREFERRED, PREFERRED_REMEDY, SERVER_REMEDIES
from jetarrow.jetstream.remedies.streams import STREAM_REMEDIES

REMEDIES = {**STREAM_REMEDIES, **CONSUMER_REMEDIES, **MESSAGE_REMEDIES, **SERVER_REMEDIES}


def remedy_of(err_code: int | None, description: str | None) -> str | None:
    """The remedy for an error of the server; None for a code that this version does not list.

    Args:
        err_code: The server's number of the error; None or 0 for a status message, which has none.
        description: The server's text, which selects among several causes of one code.
    """
    if not err_code:
        return next((remedy for start, remedy in PULL_REMEDIES.items() if (description or "").startswith(start)), None)
    if err_code == STORE_FAILED and description is not None:
        return STORE_REMEDIES.get(description, REMEDIES[STORE_FAILED])
    if err_code == NO_PEERS and (description or "").startswith(PREFERRED):
        return PREFERRED_REMEDY
    return REMEDIES.get(err_code)
