"""Priority groups of pull consumers (ADR-42), which distribute messages among clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from jetarrow.core.suggestions import check_keywords
from jetarrow.jetstream.server_features import require_version

if TYPE_CHECKING:
    from jetarrow.jetstream.api import JetStreamApi

# Arguments of the native core: name, `min_pending`, `min_ack_pending`, `priority`.
GroupRequest = tuple[str, int, int, int]
# Valid priorities of nats-server.
PRIORITIES = range(10)


class PriorityOptions(TypedDict, total=False):
    """For consumers with `priority_groups`: the group of a request, and the conditions for serving it."""

    group: str | None
    """The group; default none. The pin of a client is kept from request to request automatically."""
    min_pending: int | None
    """Policy "overflow": serve the request while at least this number of messages is pending; default always."""
    min_ack_pending: int | None
    """Policy "overflow": serve it while at least this number of messages is unacknowledged; default always."""
    priority: int | None
    """Policy "prioritized" (server 2.12): from 0, which is the default and is served first, to 9."""


# The other keywords of `fetch` and `fetch_batch`, for suggestions.
FETCH_KEYWORDS = (
    "batch",
    "batch_size",
    "max_messages",
    "min_messages",
    "max_bytes",
    "timeout",
    "heartbeat",
    "no_wait",
    "columns",
    "priority",
)


def group_request(api: JetStreamApi, options: PriorityOptions) -> GroupRequest | None:
    """Converts the options to arguments of the native core; None without a group.

    Raises:
        TypeError: An option is unknown.
        ValueError: A number is given without a group, or is invalid.
        UnsupportedError: The server is too old.
    """
    if not options:
        return None
    if unknown := options.keys() - PriorityOptions.__annotations__.keys():
        check_keywords("a fetch", unknown, PriorityOptions.__annotations__, FETCH_KEYWORDS)
    return _group_request(api, **options)


def _group_request(
    api: JetStreamApi,
    group: str | None = None,
    min_pending: int | None = None,
    min_ack_pending: int | None = None,
    priority: int | None = None,
) -> GroupRequest | None:
    numbers = {"min_pending": min_pending, "min_ack_pending": min_ack_pending, "priority": priority}
    if group is None:
        given = [name for name, value in numbers.items() if value is not None]
        if given:
            raise ValueError(f"{given[0]} is set without group: pass the name of one of the consumer's priority_groups")
        return None
    require_version(api, "group", (2, 11))
    for name, value in numbers.items():
        if value is not None and value < 0:
            raise ValueError(f"{name} must not be negative: {value}")
    if priority is not None:
        if priority not in PRIORITIES:
            raise ValueError(f"priority must be 0 to 9, not {priority}")
        require_version(api, "priority", (2, 12))
    return group, min_pending or 0, min_ack_pending or 0, priority or 0
