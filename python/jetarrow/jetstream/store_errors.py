"""Errors of the key-value store, the object store and the sinks. Public as `jetarrow.js.errors`."""

from __future__ import annotations

from typing import Any

import jetarrow.core.errors as core
from jetarrow.jetstream.api_errors import APIError, BadRequestError, Error, NotFoundError


class BucketNotFoundError(NotFoundError):
    """There is no bucket of this name."""


class BadBucketError(APIError):
    """The stream of this name is not a bucket."""


class KeyValueError(APIError):
    """The base of the key-value store's errors."""


class KeyDeletedError(KeyValueError, NotFoundError):
    """The key's last revision is a delete or purge marker.

    Args:
        entry: The marker's entry. Default: None.
        op: `"DEL"` or `"PURGE"`. Default: None.
        message: What happened. Default: a text with the operation.
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
    """The bucket has no such key.

    Args:
        entry: The entry, where there is one. Default: None.
        op: Its operation. Default: None.
        message: What was looked for. Default: none.
    """

    _local = ("entry",)

    def __init__(self, entry: Any = None, op: str | None = None, message: str | None = None) -> None:
        super().__init__(message=message)
        self.entry = entry
        self.op = op

    def __str__(self) -> str:
        return f"nats: key not found: {self.message}" if self.message else "nats: key not found"


class KeyWrongLastSequenceError(KeyValueError, BadRequestError):
    """`create` or `update` of a key found another revision than the one expected.

    Args:
        description: The server's words, or what happened. Default: a general text.
    """

    _default = "the key has another revision than expected: read it again, then retry"

    def __init__(self, description: str | None = None) -> None:
        super().__init__(description=description, err_code=10071, message=description)

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
    """More history per key was asked for than a bucket keeps."""

    _default = "history limited to a max of 64 revisions per key"

    def _describe(self) -> str:
        return self._default


class InvalidKeyError(Error):
    """The key cannot be used."""

    _default = "invalid key: letters, digits and - / _ = . only, not starting or ending with a dot"


class InvalidBucketNameError(Error):
    """The bucket's name cannot be used."""

    _default = "invalid bucket name: letters, digits, - and _ only"


class InvalidObjectNameError(Error):
    """The object's name cannot be used."""

    _default = "invalid object name: it must not be empty"


class BadObjectMetaError(Error):
    """The object's stored metadata cannot be read."""

    _default = "the object's stored metadata cannot be read"


class LinkIsABucketError(Error):
    """The link leads to a whole bucket, not to an object."""

    _default = "the link leads to a bucket, not to an object; open that bucket instead"


class LinkToLinkError(Error):
    """A link is to lead to a link, and only objects and buckets can be linked to."""

    _default = "a link cannot lead to a link; link to what that one leads to"


class DigestMismatchError(Error):
    """The object, or the data of a stream's backup, is not what was written."""

    _default = "digest mismatch: the object's data is not what was stored; read it again"


class ObjectNotFoundError(NotFoundError):
    """The bucket has no such object."""


class ObjectDeletedError(NotFoundError):
    """The object has been deleted."""


class ObjectAlreadyExists(Error):
    """The bucket has an object of this name already."""

    _default = "an object of this name exists already"


class KeyValueLimitMarkerTTLNotSupportedError(Error):
    """`limit_marker_ttl` was asked of a server older than 2.11."""

    _default = "limit marker TTLs not supported by server: they need nats-server 2.11 or later"


class SinkError(Error):
    """A sink could not go on; what it had committed stays, and nothing else."""

    _default = "the sink could not go on"


class SinkLockedError(SinkError):
    """Another writer has the folder, or took it over.

    Args:
        message: What happened. Default: a general text.
        host: The other writer's machine. Default: None, not known.
        pid: Its process. Default: None, not known.
    """

    def __init__(self, message: str | None = None, *, host: str | None = None, pid: int | None = None) -> None:
        super().__init__(message)
        self.host = host
        self.pid = pid


class SinkSchemaError(SinkError):
    """What is to be written has other columns than what is there."""
