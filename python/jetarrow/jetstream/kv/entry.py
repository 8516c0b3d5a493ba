"""One revision of a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jetarrow.jetstream.kv.names import KV_DEL, KV_MARKER_REASON, KV_OP, KV_PURGE

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REASONS = {"MaxAge": KV_PURGE, "Purge": KV_PURGE, "Remove": KV_DEL}


class _Created:
    """The field `created`. Native code gives nanoseconds, of which a datetime is made only where it is asked for."""

    def __get__(self, obj: object | None, owner: type | None = None) -> datetime | None:
        if obj is None:
            # To dataclass: it has no default.
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
    created: _Created = _Created()
    operation: str | None = None


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
