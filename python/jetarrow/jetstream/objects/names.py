"""Names of buckets and objects, and their streams and subjects."""

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
# Filter that matches the streams of all buckets.
ANY_BUCKET = "$O.*.C.>"

VALID_BUCKET_RE = re.compile(r"^[a-zA-Z0-9_-]+$")
VALID_KEY_RE = re.compile(r"^[-/_=\.a-zA-Z0-9]+$")


def bucket_stream(bucket: str | None) -> str:
    """Return the name of a bucket's stream.

    Raises:
        InvalidBucketNameError: The name has characters other than letters, digits, `-` and `_`.
    """
    # fullmatch, because `$` also matches before a trailing line feed.
    if not bucket or not VALID_BUCKET_RE.fullmatch(text("bucket", bucket)):
        raise InvalidBucketNameError
    return OBJ_STREAM_TEMPLATE.format(bucket=bucket)


def chunk_subject(bucket: str, nuid: str) -> str:
    """Return the subject of one version's chunks."""
    return OBJ_CHUNKS_PRE_TEMPLATE.format(bucket=bucket, obj=nuid)


def meta_subject(bucket: str, name: str) -> str:
    """Return the subject of an object's metadata.

    Raises:
        InvalidObjectNameError: The name is empty, or cannot be encoded as UTF-8.
    """
    try:
        encoded = base64.urlsafe_b64encode(text("name", name).encode()).decode()
    except UnicodeEncodeError:
        raise InvalidObjectNameError("invalid object name: it cannot be encoded as UTF-8") from None
    if not encoded:
        raise InvalidObjectNameError
    return OBJ_META_PRE_TEMPLATE.format(bucket=bucket, obj=encoded)


def checked_meta(meta: models.ObjectMeta) -> models.ObjectMeta:
    """Return the metadata of a caller if it has the right type.

    Raises:
        TypeError: It is not an ObjectMeta.
    """
    if not isinstance(meta, models.ObjectMeta):
        raise TypeError(f"meta must be an ObjectMeta, not {type(meta).__name__}")
    return meta


def digest_text(digest: bytes) -> str:
    """Return a SHA-256 digest in the format of object metadata."""
    return OBJ_DIGEST_TEMPLATE.format(digest=base64.urlsafe_b64encode(digest).decode())


def same_digest(stored: str | None, digest: bytes) -> bool:
    """Return whether metadata has this digest; some clients omit the base64 padding."""
    kind, value = (stored or "")[: len(OBJ_DIGEST_TYPE)], (stored or "")[len(OBJ_DIGEST_TYPE) :]
    ours = digest_text(digest)[len(OBJ_DIGEST_TYPE) :]
    return kind.upper() == OBJ_DIGEST_TYPE and value.rstrip("=") == ours.rstrip("=")
