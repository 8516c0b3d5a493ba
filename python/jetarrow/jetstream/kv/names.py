"""Names of buckets, keys and filters, and their streams and subjects."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jetarrow.core.arguments import text, texts
from jetarrow.jetstream.errors import InvalidBucketNameError, InvalidKeyError

KV_STREAM_TEMPLATE = "KV_{bucket}"
KV_PRE_TEMPLATE = "$KV.{bucket}."
KV_MAX_HISTORY = 64
STREAM_PREFIX = "KV_"

KV_OP = "KV-Operation"
KV_DEL = "DEL"
KV_PURGE = "PURGE"
MSG_ROLLUP_SUBJECT = "sub"
# Header of markers that the server writes, instead of KV_OP.
KV_MARKER_REASON = "Nats-Marker-Reason"

VALID_BUCKET_RE = re.compile(r"[a-zA-Z0-9_-]+")
VALID_KEY_RE = re.compile(r"[-/_=a-zA-Z0-9]+(?:\.[-/_=a-zA-Z0-9]+)*")
# Any tokens, because keys may be stored without validation.
_FILTER = re.compile(r"(?:[^\s.>]+\.)*(?:[^\s.>]+|>)")

_is_key = VALID_KEY_RE.fullmatch


def bucket_stream(bucket: str) -> str:
    """Return the name of a bucket's stream.

    Raises:
        InvalidBucketNameError: The name is empty, or has characters other than letters, digits, `-` and `_`.
    """
    if not VALID_BUCKET_RE.fullmatch(text("bucket", bucket)):
        raise InvalidBucketNameError(f"invalid bucket name {bucket!r}: use letters, digits, - and _ only")
    return KV_STREAM_TEMPLATE.format(bucket=bucket)


def check_key(key: str) -> None:
    """Check a key.

    Raises:
        InvalidKeyError: The key has other characters, a dot at an end, or two dots in a row.
    """
    if not isinstance(key, str) or not _is_key(key):
        text("key", key)
        raise InvalidKeyError(
            f"invalid key {key!r}: use letters, digits and - / _ = . only, no dot at an end, no two dots in a row"
        )


def is_literal(key: str) -> bool:
    """Return whether a key is a subject without wildcards; servers also store messages published to `>`."""
    return not {"", "*", ">"} & set(key.split(".")) and not any(char.isspace() for char in key)


def filters_of(keys: str | Sequence[str] | None) -> list[str]:
    """Return filters of keys without those that another filter covers, because the server rejects overlaps.

    Raises:
        InvalidKeyError: A filter has an empty token, white space, or a `>` before its end.
    """
    given = texts("keys", keys) or [">"]
    for key in given:
        if not _FILTER.fullmatch(key):
            raise InvalidKeyError(
                f"invalid filter {key!r}: use tokens, * for any one token, > at the end for all further tokens"
            )
    distinct = list(dict.fromkeys(given))
    return [key for key in distinct if not any(other != key and _covers(other, key) for other in distinct)]


def _covers(wide: str, narrow: str) -> bool:
    """Return whether `wide` matches everything that `narrow` matches."""
    one, other = wide.split("."), narrow.split(".")
    for place, token in enumerate(one):
        if token == ">":
            return len(other) > place
        if place >= len(other) or other[place] == ">" or token not in ("*", other[place]):
            return False
    return len(one) == len(other)
