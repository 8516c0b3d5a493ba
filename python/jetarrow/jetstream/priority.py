"""Priority groups of pull consumers (ADR-42): which client gets messages, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from jetarrow.jetstream.server_features import require_version

if TYPE_CHECKING:
    from jetarrow.jetstream.api import JetStreamApi

# Name, `min_pending`, `min_ack_pending`, `priority`, as the native core takes it.
GroupRequest = tuple[str, int, int, int]
# What the server takes.
PRIORITIES = range(10)


class PriorityOptions(TypedDict, total=False):
    """For consumers with `priority_groups`: in which group a request is made, and when it is to be served."""

    group: str | None
    """The group; default none. A client that the group is pinned to stays it from request to request by itself."""
    min_pending: int | None
    """Policy "overflow": only while at least so many messages are still to come; default always."""
    min_ack_pending: int | None
    """Policy "overflow": only while at least so many messages wait for their acks; default always."""
    priority: int | None
    """Policy "prioritized" (server 2.12): 0, the default, is served before 1, and so on up to 9."""


def group_request(api: JetStreamApi, options: PriorityOptions) -> GroupRequest | None:
    """The options as the native core takes them; None where no group is given.

    Raises:
        TypeError: An unknown option.
        ValueError: A number without a group, or one that the server does not take.
        UnsupportedError: The server is too old.
    """
    return _group_request(api, **options) if options else None


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
            raise ValueError(f"{given[0]} needs group, the name of one of the consumer's priority_groups")
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
