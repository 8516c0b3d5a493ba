"""One revision of a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jetarrow.jetstream.kv.names import KV_DEL, KV_MARKER_REASON, KV_OP, KV_PURGE

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REASONS = {"MaxAge": KV_PURGE, "Purge": KV_PURGE, "Remove": KV_DEL}


class _Created:
    """The field `created`. Native code stores nanoseconds; they are converted to a datetime at the first access."""

    def __get__(self, obj: object | None, owner: type | None = None) -> datetime | None:
        if obj is None:
            # For `dataclass`: the field has no default.
            raise AttributeError("created")
        fields = obj.__dict__
        if "created" not in fields:
            fields["created"] = _EPOCH + timedelta(microseconds=fields.pop("_nanoseconds") // 1000)
        value: datetime | None = fields["created"]
        return value

    def __set__(self, obj: object, value: datetime | None) -> None:
        obj.__dict__["created"] = value


@dataclass
class Entry:
    """One revision of a key. Public as `KeyValue.Entry`.

    Attributes:
        bucket: The bucket.
        key: The key.
        value: The value; `b""` in markers, and in a watch with `meta_only`.
        revision: The sequence in the bucket's stream, which increases with every change of any key.
        delta: Number of pending messages of a watch; 0 from `get`.
        created: Time at which it was stored, in UTC, in microseconds.
        operation: None for a value, `"DEL"` or `"PURGE"` for a marker.
    """

    bucket: str
    key: str
    value: bytes | None
    revision: int | None
    delta: int | None
    created: _Created = _Created()
    operation: str | None = None


def operation_of(headers: Mapping[str, str] | None) -> str | None:
    """Return the operation in a message's headers. Clients and server use different headers.

    Returns:
        None for a value, "DEL" or "PURGE"; "" for an unknown marker of the server, which is not a value.
    """
    if not headers:
        return None
    if (operation := headers.get(KV_OP)) is not None:
        return operation if operation in (KV_DEL, KV_PURGE) else None
    reason = headers.get(KV_MARKER_REASON)
    return None if reason is None else _REASONS.get(reason, "")
