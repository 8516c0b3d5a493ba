"""Names of buckets, keys and filters, and where they are on the wire."""

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
# What the server puts into its own markers, instead of KV_OP.
KV_MARKER_REASON = "Nats-Marker-Reason"

VALID_BUCKET_RE = re.compile(r"[a-zA-Z0-9_-]+")
VALID_KEY_RE = re.compile(r"[-/_=a-zA-Z0-9]+(?:\.[-/_=a-zA-Z0-9]+)*")
# Tokens of any kind, as keys may be that were put without a check.
_FILTER = re.compile(r"(?:[^\s.>]+\.)*(?:[^\s.>]+|>)")

_is_key = VALID_KEY_RE.fullmatch


def bucket_stream(bucket: str) -> str:
    """The name of a bucket's stream.

    Raises:
        InvalidBucketNameError: It has other characters than letters, digits, `-` and `_`, or none.
    """
    if not VALID_BUCKET_RE.fullmatch(text("bucket", bucket)):
        raise InvalidBucketNameError(f"invalid bucket name {bucket!r}: letters, digits, - and _ only")
    return KV_STREAM_TEMPLATE.format(bucket=bucket)


def check_key(key: str) -> None:
    """Refuses what is no key.

    Raises:
        InvalidKeyError: Other characters, or a dot at an end or next to a dot.
    """
    if not isinstance(key, str) or not _is_key(key):
        text("key", key)
        raise InvalidKeyError(
            f"invalid key {key!r}: letters, digits and - / _ = . only, no dot at an end, no two dots in a row"
        )


def is_literal(key: str) -> bool:
    """Whether a key that was read is one subject, and not a filter: servers store what is published to `>`, too."""
    return not {"", "*", ">"} & set(key.split(".")) and not any(char.isspace() for char in key)


def filters_of(keys: str | Sequence[str] | None) -> list[str]:
    """Filters of keys as the server takes them: none of them is a part of another.

    Raises:
        InvalidKeyError: An empty token, white space, or `>` elsewhere than at the end.
    """
    given = texts("keys", keys) or [">"]
    for key in given:
        if not _FILTER.fullmatch(key):
            raise InvalidKeyError(
                f"invalid filter {key!r}: tokens, * for one of any kind, > at the end for all that follow"
            )
    distinct = list(dict.fromkeys(given))
    return [key for key in distinct if not any(other != key and _covers(other, key) for other in distinct)]


def _covers(wide: str, narrow: str) -> bool:
    """Whether all that `narrow` matches, `wide` does."""
    one, other = wide.split("."), narrow.split(".")
    for place, token in enumerate(one):
        if token == ">":
            return len(other) > place
        if place >= len(other) or other[place] == ">" or token not in ("*", other[place]):
            return False
    return len(one) == len(other)
