"""Errors of the key-value store, the object store and the sinks. Public as `jetarrow.js.errors`."""

from __future__ import annotations

from typing import Any

import jetarrow.core.errors as core
from jetarrow.jetstream.api_errors import APIError, BadRequestError, Error, NotFoundError


class BucketNotFoundError(NotFoundError):
    """The bucket does not exist."""

    def _remedy(self) -> str:
        return "check the name, or create it with create_key_value or create_object_store"


class BadBucketError(APIError):
    """The stream of this name is not a bucket."""


class KeyValueError(APIError):
    """Base of the errors of the key-value store."""


class KeyDeletedError(KeyValueError, NotFoundError):
    """The key's last revision is a delete or purge marker.

    Args:
        entry: The marker's entry. Default: None.
        op: `"DEL"` or `"PURGE"`. Default: None.
        message: The text. Default: a text with the operation.
    """

    _local = ("entry",)

    def __init__(self, entry: Any = None, op: str | None = None, *, message: str | None = None) -> None:
        super().__init__(message=message)
        self.entry = entry
        self.op = op

    def __str__(self) -> str:
        return core.Error.__str__(self)

    def _describe(self) -> str:
        return f"key was deleted ({self.op})" if self.op else "key was deleted"


class KeyNotFoundError(KeyValueError, NotFoundError):
    """The key does not exist in the bucket.

    Args:
        entry: The entry, if there is one. Default: None.
        op: Its operation. Default: None.
        message: The requested key. Default: none.
    """

    _local = ("entry",)

    def __init__(self, entry: Any = None, op: str | None = None, message: str | None = None) -> None:
        super().__init__(message=message)
        self.entry = entry
        self.op = op

    def __str__(self) -> str:
        return f"nats: key not found: {self.message}" if self.message else "nats: key not found"


class KeyWrongLastSequenceError(KeyValueError, BadRequestError):
    """`create`, `update`, `delete` or `purge` of a key found another revision than the expected one.

    Args:
        description: The server's text. Default: None.
        message: The failed operation, its values and what to do. Default: `description`, or else a general text.
        err_code: The server's number of the error. Default: 10071.
        bucket: The bucket. Default: None, unknown.
        key: The key. Default: None, unknown.
        revision: The key's last revision; 0 if it has none. Default: None, unknown.
    """

    _default = "the key has another revision than expected: read it again, then retry"

    # Class attributes, because errors pickled by an older version lack them.
    bucket: str | None = None
    key: str | None = None
    revision: int | None = None

    def __init__(
        self,
        description: str | None = None,
        *,
        message: str | None = None,
        err_code: int = 10071,
        bucket: str | None = None,
        key: str | None = None,
        revision: int | None = None,
    ) -> None:
        super().__init__(description=description, err_code=err_code, message=message or description)
        self.bucket = bucket
        self.key = key
        self.revision = revision

    def __str__(self) -> str:
        return core.Error.__str__(self)

    def _describe(self) -> str:
        return self._default


class NoKeysError(KeyValueError):
    """The bucket, or the filter, has no keys."""

    _default = "no keys found"

    def _describe(self) -> str:
        return self._default


class KeyHistoryTooLargeError(KeyValueError):
    """The requested history per key exceeds the limit of buckets."""

    _default = "history limited to a max of 64 revisions per key"

    def _describe(self) -> str:
        return self._default


class InvalidKeyError(Error):
    """The key is invalid."""

    _default = "invalid key: letters, digits and - / _ = . only, not starting or ending with a dot"


class InvalidBucketNameError(Error):
    """The bucket's name is invalid."""

    _default = "invalid bucket name: letters, digits, - and _ only"


class InvalidObjectNameError(Error):
    """The object's name is invalid."""

    _default = "invalid object name: it must not be empty"


class BadObjectMetaError(Error):
    """The object's stored metadata is invalid."""

    _default = "the object's stored metadata is invalid"


class LinkIsABucketError(Error):
    """The link refers to a bucket, not to an object."""

    _default = "the link refers to a bucket, not to an object; open that bucket instead"


class LinkToLinkError(Error):
    """A link to a link was requested; only objects and buckets can be linked to."""

    _default = "a link cannot refer to a link; link to the target of that link"


class DigestMismatchError(Error):
    """The data of an object, or of a stream's backup, does not match its digest."""

    _default = "digest mismatch: the object's data differs from the stored data; read it again"


class ObjectNotFoundError(NotFoundError):
    """The object does not exist in the bucket."""


class ObjectDeletedError(NotFoundError):
    """The object was deleted."""


class ObjectAlreadyExists(Error):
    """An object of this name exists in the bucket."""

    _default = "an object of this name exists"


class KeyValueLimitMarkerTTLNotSupportedError(Error):
    """`limit_marker_ttl` was set on a server older than 2.11."""

    _default = "limit marker TTLs not supported by server: they need nats-server 2.11 or later"


class SinkError(Error):
    """A sink could not continue; its commits are complete, and nothing else was written."""

    _default = "the sink could not continue"


class SinkLockedError(SinkError):
    """Another writer holds the lock of the folder, or has taken it over.

    Args:
        message: The text. Default: a general text.
        host: The other writer's machine. Default: None, unknown.
        pid: The other writer's process. Default: None, unknown.
    """

    def __init__(self, message: str | None = None, *, host: str | None = None, pid: int | None = None) -> None:
        super().__init__(message)
        self.host = host
        self.pid = pid


class SinkSchemaError(SinkError):
    """The columns of the new rows differ from those of the existing ones."""


class ResumeError(Error):
    """A load could not continue from its position, because rows could be missing or stored twice.

    The rows before the position are stored; nothing was sent after the error.
    """

    _default = "the load could not continue"
