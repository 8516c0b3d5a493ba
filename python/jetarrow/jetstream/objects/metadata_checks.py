"""Checks of object metadata that a server returned.

Any client of the account can publish metadata. A nuid becomes a subject and a purge filter, a bucket the name of a
stream, a link the subject of a request, a size the end of a read. Each is checked before its first use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import BadObjectMetaError, InvalidObjectNameError
from jetarrow.jetstream.objects.names import VALID_BUCKET_RE, meta_subject

# Clients use 22 letters and digits (NUID, base 62); UUIDs are accepted too. A wildcard or dot would widen a filter.
_NUID = re.compile(r"[A-Za-z0-9_-]{1,128}")
# Largest number that every client can hold (Go: int for chunks, uint64 for size).
_MAX_NUMBER = 2**63 - 1


def is_nuid(nuid: object) -> bool:
    """Return whether a nuid can be one token of a chunk subject."""
    return isinstance(nuid, str) and _NUID.fullmatch(nuid) is not None


def checked_nuid(nuid: str, bucket: str) -> str:
    """Return the nuid if it is valid.

    Raises:
        BadObjectMetaError: The nuid is not one token of letters, digits, `-` and `_`.
    """
    if not is_nuid(nuid):
        raise BadObjectMetaError(
            f"could not use object metadata of bucket {bucket!r}: nuid {nuid!r} is not letters, digits, - and _ only;"
            " put the object again"
        )
    return nuid


def checked_info(info: models.ObjectInfo, bucket: str, subject: str) -> models.ObjectInfo:
    """Return the metadata, with the bucket that it was read from.

    Raises:
        BadObjectMetaError: A field has a wrong type or value, or the name is not that of the subject.
    """
    for name, is_valid, wanted in _RULES:
        value = getattr(info, name)
        if not is_valid(value):
            shown = repr(value)[:100]
            raise BadObjectMetaError(
                f"could not use object metadata of bucket {bucket!r}: {name} is {shown}, not {wanted};"
                " put the object again"
            )
    if not _is_subject_of(bucket, info.name, subject):
        raise BadObjectMetaError(
            f"could not use object metadata of bucket {bucket!r}: {subject!r} is not the subject of name"
            f" {info.name!r}; put the object again"
        )
    # A stream that was restored or sourced under another name keeps the name of its first bucket in the metadata.
    return info if info.bucket == bucket else info.evolve(bucket=bucket)


def _is_subject_of(bucket: str, name: str, subject: str) -> bool:
    try:
        # Some clients omit the base64 padding.
        return meta_subject(bucket, name).rstrip("=") == subject.rstrip("=")
    except InvalidObjectNameError:
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_optional_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value <= _MAX_NUMBER)


def _is_bool(value: object) -> bool:
    return value is None or isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return value is None or (
        isinstance(value, dict) and all(isinstance(part, str) for item in value.items() for part in item)
    )


def _is_headers(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and all(
        isinstance(name, str)
        and (isinstance(held, str) or (isinstance(held, list) and all(isinstance(one, str) for one in held)))
        for name, held in value.items()
    )


def _is_options(value: object) -> bool:
    if value is None:
        return True
    if not isinstance(value, models.ObjectMetaOptions) or not _is_number(value.max_chunk_size):
        return False
    link = value.link
    if link is None:
        return True
    if not isinstance(link, models.ObjectLink) or not isinstance(link.bucket, str):
        return False
    return VALID_BUCKET_RE.fullmatch(link.bucket) is not None and _is_optional_text(link.name)


_RULES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("name", lambda value: _is_text(value) and bool(value), "a text"),
    ("bucket", _is_text, "a text"),
    # Clients reject metadata without a nuid when they read the data, not before.
    ("nuid", lambda value: value == "" or is_nuid(value), "letters, digits, - and _ only"),
    ("size", _is_number, "a number of bytes"),
    ("chunks", _is_number, "a number of chunks"),
    ("digest", _is_optional_text, "a text"),
    ("deleted", _is_bool, "true or false"),
    ("description", _is_optional_text, "a text"),
    ("headers", _is_headers, "an object of texts or lists of texts"),
    ("metadata", _is_texts, "an object of texts"),
    ("options", _is_options, "chunk size and link with the name of a bucket"),
)
