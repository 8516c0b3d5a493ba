"""A stream or a consumer that is not there: its name, and the nearest that there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jetarrow.jetstream.errors import BucketNotFoundError, NotFoundError

_expected: ContextVar[bool] = ContextVar("_expected", default=False)


@contextmanager
def expect_not_found() -> Iterator[None]:
    """In here it is no surprise that something is not there: nothing near it is looked for."""
    token = _expected.set(True)
    try:
        yield
    finally:
        _expected.reset(token)


def is_not_found_expected() -> bool:
    """Whether this runs within `expect_not_found`."""
    return _expected.get()


def names_in_verb(verb: str) -> tuple[str, str]:
    """Stream and consumer of a request to the API, by its subject; empty where it has none."""
    tokens = verb.split(".")
    # STREAM.INFO.<stream>, but STREAM.MSG.GET.<stream>.
    names = tokens[3 if tokens[1:2] == ["MSG"] else 2 :]
    return names[0] if names else "", names[1] if tokens[0] == "CONSUMER" and len(names) > 1 else ""


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The one that was probably meant."""
    import difflib  # here, as it is rarely needed

    by_fold = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(name.casefold(), by_fold, 1)
    return by_fold[found[0]] if found else None


def did_you_mean(name: str | None) -> str:
    """The end of a text that names what is missing."""
    return "" if name is None else f"; did you mean {name!r}?"


def not_found_error(error: NotFoundError, stream: str, consumer: str, near: str | None) -> NotFoundError:
    """The server's error, with the name of what is not there.

    Args:
        error: What the server answered.
        stream: The stream, or whose consumer is missing.
        consumer: The consumer; empty where the stream is missing.
        near: The nearest name that there is.
    """
    text = f"stream {stream!r} has no consumer {consumer!r}" if consumer else f"there is no stream {stream!r}"
    result = NotFoundError(
        error.code, error.description, error.err_code, error.stream, error.seq, message=text + did_you_mean(near)
    )
    result._nearest = near
    return result


def bucket_not_found_error(error: NotFoundError, name: str, prefix: str) -> BucketNotFoundError:
    """The error for a bucket whose stream is not there: the nearest stream may be that of a bucket.

    Args:
        error: What the server answered.
        name: The bucket.
        prefix: What the names of such buckets' streams begin with.
    """
    near = error._nearest
    near = near.removeprefix(prefix) if near is not None and near.startswith(prefix) else None
    text = f"there is no bucket {name!r}" + did_you_mean(near)
    return BucketNotFoundError(error.code, error.description, error.err_code, message=text)
