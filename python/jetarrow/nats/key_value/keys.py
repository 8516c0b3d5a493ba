"""Names of headers, and checks of keys and bucket names."""

from __future__ import annotations

import re
from datetime import timedelta

from .errors import InvalidBucketNameError, InvalidKeyError

KV_OP = "KV-Operation"
KV_DEL = "DEL"
KV_PURGE = "PURGE"
MSG_ROLLUP = "Nats-Rollup"
MSG_ROLLUP_SUBJECT = "sub"
EXPECTED_LAST_SUBJECT_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
MSG_TTL = "Nats-TTL"
MARKER_REASON = "Nats-Marker-Reason"

KV_MAX_HISTORY = 64
# The pattern that nats.go and nats-py have for keys, see ADR-8.
VALID_BUCKET_RE = re.compile(r"^[a-zA-Z0-9_-]+$")
VALID_KEY_RE = re.compile(r"^[-/_=\.a-zA-Z0-9]+$")
VALID_SEARCH_KEY_RE = re.compile(r"^[-/_=\.a-zA-Z0-9*]*[>]?$")


def check_bucket(bucket: str) -> None:
    """Raise InvalidBucketNameError if the name is not valid."""
    # `$` alone would accept a line break at the end, which ends a command of the protocol.
    if not VALID_BUCKET_RE.fullmatch(bucket):
        raise InvalidBucketNameError(bucket)


def check_key(key: str) -> None:
    """Raise InvalidKeyError if the key is not valid."""
    _check(VALID_KEY_RE, key)


def check_pattern(pattern: str) -> None:
    """Raise InvalidKeyError if the pattern of keys is not valid."""
    _check(VALID_SEARCH_KEY_RE, pattern)


def _check(valid: re.Pattern[str], key: str) -> None:
    # No message can be published to a subject with an empty token.
    if not valid.fullmatch(key) or "" in key.split("."):
        raise InvalidKeyError(key)


def format_ttl(ttl: timedelta) -> str:
    """Return the duration for the header `Nats-TTL`, in the largest unit that divides it."""
    microseconds = ttl // timedelta(microseconds=1)
    for unit, size in (("s", 1_000_000), ("ms", 1_000)):
        if microseconds % size == 0:
            return f"{microseconds // size}{unit}"
    return f"{microseconds}us"
