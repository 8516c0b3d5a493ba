"""Errors of streams, consumers and buckets that do not exist, with the nearest existing name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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


def names_in_verb(verb: str) -> tuple[str, str]:
    """Stream and consumer in the subject of an API request; empty if it has none."""
    tokens = verb.split(".")
    # STREAM.INFO.<stream>, but STREAM.MSG.GET.<stream>.
    names = tokens[3 if tokens[1:2] == ["MSG"] else 2 :]
    return names[0] if names else "", names[1] if tokens[0] == "CONSUMER" and len(names) > 1 else ""


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The most similar name; None if none is similar."""
    import difflib  # imported here, because it is rarely needed

    by_fold = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(name.casefold(), by_fold, 1)
    return by_fold[found[0]] if found else None


def did_you_mean(name: str | None) -> str:
    """The suggestion at the end of an error text."""
    return "" if name is None else f"; did you mean {name!r}?"


def not_found_error(error: NotFoundError, stream: str, consumer: str, near: str | None) -> NotFoundError:
    """The server's error, with the name of the missing stream or consumer.

    Args:
        error: The server's error.
        stream: The stream, or the stream of the consumer.
        consumer: The consumer; empty if the stream does not exist.
        near: The nearest existing name.
    """
    text = f"stream {stream!r} has no consumer {consumer!r}" if consumer else f"stream {stream!r} does not exist"
    result = NotFoundError(
        error.code, error.description, error.err_code, error.stream, error.seq, message=text + did_you_mean(near)
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
