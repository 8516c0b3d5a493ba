"""Errors of streams, consumers and buckets that do not exist, with the nearest existing name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jetarrow.core.suggestions import did_you_mean
from jetarrow.jetstream.errors import BucketNotFoundError, NotFoundError

_expected: ContextVar[bool] = ContextVar("_expected", default=False)


@contextmanager
def expect_not_found() -> Iterator[None]:
    """Context in which "not found" is an expected response, so that no names are requested for a suggestion."""
    token = _expected.set(True)
    try:
        yield
    finally:
        _expected.reset(token)


def is_not_found_expected() -> bool:
    """Whether this runs within `expect_not_found`."""
    return _expected.get()


def not_found_error(error: NotFoundError, stream: str, consumer: str, near: str | None) -> NotFoundError:
    """The server's error, with the name of the missing stream or consumer.

    Args:
        error: The server's error.
        stream: The stream, or the stream of the consumer.
        consumer: The consumer; empty if the stream does not exist.
        near: The nearest existing name.
    """
    text = f"stream {stream!r} has no consumer {consumer!r}" if consumer else f"stream {stream!r} does not exist"
    result = type(error)(
        error.code,
        error.description,
        error.err_code,
        stream,
        error.seq,
        message=text + did_you_mean(near),
        consumer=consumer or None,
    )
    result._nearest = near
    return result


def bucket_not_found_error(error: NotFoundError, name: str, prefix: str) -> BucketNotFoundError:
    """The error of a bucket whose stream does not exist; suggests a bucket if the nearest stream is one of a bucket.

    Args:
        error: The server's error.
        name: The bucket.
        prefix: Prefix of the names of such buckets' streams.
    """
    near = error._nearest
    near = near.removeprefix(prefix) if near is not None and near.startswith(prefix) else None
    text = f"bucket {name!r} does not exist" + did_you_mean(near)
    return BucketNotFoundError(error.code, error.description, error.err_code, message=text)
