"""Options of consumer groups, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jetarrow.jetstream.literals import GroupKind


class MemberKeywords(TypedDict, total=False):
    """Options of `js.consumer_group`, except the member's name."""

    kind: GroupKind | None
    """"static" or "elastic"; default None finds it."""
    ack_wait: float
    """Seconds after which an unacknowledged message is delivered again; default 5."""
    max_ack_pending: int
    """Most unacknowledged messages of the member; default 1,000."""


class GroupBatchesOptions(TypedDict, total=False):
    """Options of a member's `batches`."""

    rows: int
    """Most rows of a batch; default 50,000."""
    seconds: float
    """Seconds for which rows are collected; default 1."""
    bytes: int
    """Bytes of messages at which collecting ends; default 64 MiB."""
    columns: Sequence[str] | None
    """Columns of the batches; default stream, seq, subject, timestamp, headers, data."""
