"""Names of buckets and objects, and where they are on the wire."""

from __future__ import annotations

import base64
import re

from jetarrow.core.arguments import text
from jetarrow.jetstream import models
from jetarrow.jetstream.errors import InvalidBucketNameError, InvalidObjectNameError

OBJ_STREAM_TEMPLATE = "OBJ_{bucket}"
OBJ_ALL_CHUNKS_PRE_TEMPLATE = "$O.{bucket}.C.>"
OBJ_ALL_META_PRE_TEMPLATE = "$O.{bucket}.M.>"
OBJ_CHUNKS_PRE_TEMPLATE = "$O.{bucket}.C.{obj}"
OBJ_META_PRE_TEMPLATE = "$O.{bucket}.M.{obj}"
OBJ_NO_PENDING = "0"
OBJ_DEFAULT_CHUNK_SIZE = 128 * 1024
OBJ_DIGEST_TYPE = "SHA-256="
OBJ_DIGEST_TEMPLATE = OBJ_DIGEST_TYPE + "{digest}"
STREAM_PREFIX = "OBJ_"
# Every bucket's stream has subjects that match it.
ANY_BUCKET = "$O.*.C.>"

VALID_BUCKET_RE = re.compile(r"^[a-zA-Z0-9_-]+$")
VALID_KEY_RE = re.compile(r"^[-/_=\.a-zA-Z0-9]+$")


def bucket_stream(bucket: str | None) -> str:
    """The name of a bucket's stream.

    Raises:
        InvalidBucketNameError: The name has other characters than letters, digits, `-` and `_`.
    """
    # `$` would let a line end through.
    if not bucket or not VALID_BUCKET_RE.fullmatch(text("bucket", bucket)):
        raise InvalidBucketNameError
    return OBJ_STREAM_TEMPLATE.format(bucket=bucket)


def chunk_subject(bucket: str, nuid: str) -> str:
    """The subject of one version's chunks."""
    return OBJ_CHUNKS_PRE_TEMPLATE.format(bucket=bucket, obj=nuid)


def meta_subject(bucket: str, name: str) -> str:
    """The subject of what is said about an object.

    Raises:
        InvalidObjectNameError: The name is empty, or cannot be written as UTF-8.
    """
    try:
        encoded = base64.urlsafe_b64encode(text("name", name).encode()).decode()
    except UnicodeEncodeError:
        raise InvalidObjectNameError("invalid object name: it cannot be written as UTF-8") from None
    if not encoded:
        raise InvalidObjectNameError
    return OBJ_META_PRE_TEMPLATE.format(bucket=bucket, obj=encoded)


def checked_meta(meta: models.ObjectMeta) -> models.ObjectMeta:
    """What a caller says about an object.

    Raises:
        TypeError: It is no ObjectMeta.
    """
    if not isinstance(meta, models.ObjectMeta):
        raise TypeError(f"meta must be an ObjectMeta, not {type(meta).__name__}")
    return meta


def digest_text(digest: bytes) -> str:
    """A SHA-256 as it is written in an object's information."""
    return OBJ_DIGEST_TEMPLATE.format(digest=base64.urlsafe_b64encode(digest).decode())


def same_digest(stored: str | None, digest: bytes) -> bool:
    """Whether an object's information names this digest; some clients write no `=` at the end."""
    kind, value = (stored or "")[: len(OBJ_DIGEST_TYPE)], (stored or "")[len(OBJ_DIGEST_TYPE) :]
    ours = digest_text(digest)[len(OBJ_DIGEST_TYPE) :]
    return kind.upper() == OBJ_DIGEST_TYPE and value.rstrip("=") == ours.rstrip("=")
