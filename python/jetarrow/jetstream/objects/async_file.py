"""Asynchronous files: objects whose `read` or `write` is awaited, such as those of aiofiles and anyio."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, Protocol, TypeAlias

# Bytes of one read. Most asynchronous files run each read in a thread, so small reads would be slow.
READ_SIZE = 1024 * 1024


class AsyncReadable(Protocol):
    """An asynchronous binary file, or an object with the same `read`."""

    async def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end of the file."""


class AsyncWritable(Protocol):
    """An asynchronous binary file, or an object with the same `write`."""

    async def write(self, data: bytes, /) -> int | None:
        """Write bytes and return their number; None means all of them."""


AsyncRead: TypeAlias = Callable[[int], Awaitable[bytes]]
AsyncWrite: TypeAlias = Callable[[Any], Awaitable[int | None]]


def is_asynchronous(data: object) -> bool:
    """Return whether the data is read on an event loop: an asynchronous iterable or file."""
    return isinstance(data, AsyncIterable) or reader_of_async(data) is not None


def reader_of_async(data: object) -> AsyncRead | None:
    """Return a function that reads an asynchronous file; None for other data."""
    read, readinto = _awaited(data, "read"), _awaited(data, "readinto")
    if read is None and readinto is None:
        return None

    async def checked(size: int) -> bytes:
        if read is not None:
            return checked_bytes(await result_of(read(size)))
        assert readinto is not None
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: await result_of(readinto(buffer))])

    return checked


def writer_of_async(file: object) -> AsyncWrite | None:
    """Return a function that writes all of its argument to an asynchronous file; None for other files."""
    write = _awaited(file, "write")
    if write is None:
        return None

    async def write_all(data: bytes) -> None:
        rest: bytes | memoryview = data
        while rest:
            rest = unwritten(rest, await result_of(write(rest)))

    return write_all


async def result_of(found: Any) -> Any:
    """Return the result of a file's method, which is awaited if it has to be."""
    return await found if inspect.isawaitable(found) else found


def checked_bytes(found: object) -> bytes:
    """Return the result of a file's `read` as bytes.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(found, bytes | bytearray):
        return bytes(found)
    kind = "None (non-blocking)" if found is None else type(found).__name__
    raise TypeError(f"nats: invalid type for object store: the file returned {kind}, not bytes{_hint(found, 'read')}")


def unwritten(data: bytes | memoryview, count: object) -> memoryview:
    """Return the part of the data that a file's `write` left, by the number of bytes that it returned.

    Raises:
        TypeError: The number is neither an int nor None.
        OSError: The file took nothing.
    """
    view = memoryview(data)
    if count is None:
        return view[len(view) :]
    if not isinstance(count, int):
        raise TypeError(f"the file's write returned {type(count).__name__}, not a number{_hint(count, 'write')}")
    if count < 1:
        raise OSError(f"the file's write took {count} of {len(view)} bytes: it is full or non-blocking")
    return view[count:]


def _hint(found: object, verb: str) -> str:
    """Return the advice for a result that has to be awaited."""
    if not inspect.isawaitable(found):
        return ""
    if inspect.iscoroutine(found):
        # Without this, Python warns about a coroutine that was never awaited.
        found.close()
    return f"; define `{verb}` with `async def`, so that it is awaited"


def _awaited(file: object, name: str) -> Callable[[Any], Any] | None:
    """Return a method of a file if the file is asynchronous."""
    # A text file exposes its bytes as `buffer`, which is a plain file also if the text file is asynchronous.
    method = None if hasattr(file, "buffer") else getattr(file, name, None)
    if not callable(method):
        return None
    # Some libraries wrap methods, so that the functions do not look asynchronous; their classes do.
    kind = type(file)
    if inspect.iscoroutinefunction(method) or (hasattr(kind, "__aenter__") and not hasattr(kind, "__enter__")):
        found: Callable[[Any], Any] = method
        return found
    return None
