"""One revision of a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jetarrow.jetstream.kv.names import KV_DEL, KV_MARKER_REASON, KV_OP, KV_PURGE

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REASONS = {"MaxAge": KV_PURGE, "Purge": KV_PURGE, "Remove": KV_DEL}


@dataclass
class Entry:
    """One revision of a key. Public as `KeyValue.Entry`.

    Attributes:
        bucket: The bucket.
        key: The key.
        value: What is stored; `b""` in markers, and where a watch leaves the values out.
        revision: The sequence in the bucket's stream; it grows with every change of any key.
        delta: How many messages of a watch are still to come; 0 from `get`.
        created: When it was stored, UTC, to the microsecond.
        operation: None for a value, `"DEL"` or `"PURGE"` for a marker.
    """

    bucket: str
    key: str
    value: bytes | None
    revision: int | None
    delta: int | None
    created: datetime | None
    operation: str | None


def made(
    bucket: str, key: str, value: bytes, revision: int, delta: int, nanoseconds: int, operation: str | None
) -> Entry:
    """An entry out of a delivered message; called by native code."""
    created = _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    return Entry(bucket, key, value, revision, delta, created, operation)


def operation_of(headers: Mapping[str, str] | None) -> str | None:
    """What a message's headers say that it does to its key: a client in one header, the server in another.

    Returns:
        None for a value, "DEL" or "PURGE"; "" for what this version does not know, which is no value either.
    """
    if not headers:
        return None
    if (operation := headers.get(KV_OP)) is not None:
        return operation if operation in (KV_DEL, KV_PURGE) else None
    reason = headers.get(KV_MARKER_REASON)
    return None if reason is None else _REASONS.get(reason, "")
