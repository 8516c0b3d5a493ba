"""Errors of key-value buckets."""

from __future__ import annotations

__all__ = [
    "BadBucketError",
    "BucketExistsError",
    "BucketNotFoundError",
    "HistoryTooLargeError",
    "InvalidBucketNameError",
    "InvalidKeyError",
    "KeyExistsError",
    "KeyNotFoundError",
    "KeyValueError",
]


class KeyValueError(Exception):
    """Base class of the errors of key-value buckets."""


class KeyNotFoundError(KeyValueError):
    """The key has no value; the argument is the key."""


class KeyExistsError(KeyValueError):
    """The key has another revision than the expected one; the argument is the key."""


class InvalidKeyError(KeyValueError):
    """The key or pattern contains other characters than keys may have; the argument is the key."""


class InvalidBucketNameError(KeyValueError):
    """The name contains other characters than A-Z, a-z, 0-9, _ and -; the argument is the name."""


class BucketNotFoundError(KeyValueError):
    """The bucket does not exist; the argument is its name."""


class BadBucketError(KeyValueError):
    """The stream with the name of the bucket is no bucket; the argument is the stream's name."""


class BucketExistsError(KeyValueError):
    """The bucket exists with another configuration; the argument is its name."""


class HistoryTooLargeError(KeyValueError):
    """More than 64 revisions per key are configured."""
