"""Splitting of data into chunks: read and hashed in groups of at most 8 MiB."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from typing import Any, Protocol, TypeAlias

from jetarrow.jetstream.objects.async_file import READ_SIZE as ASYNC_READ_SIZE
from jetarrow.jetstream.objects.async_file import AsyncReadable, checked_bytes, reader_of_async, result_of
from jetarrow.jetstream.objects.worker_thread import WorkerThread

# Bytes of a group, which is read and hashed while the group before it is in flight.
READ_SIZE = 8 * 1024 * 1024


class Readable(Protocol):
    """A file, or an object with the same `read`."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end of the file."""


Bytes: TypeAlias = bytes | bytearray | memoryview | str
Read: TypeAlias = Callable[[int], bytes]
Data: TypeAlias = Bytes | Readable | AsyncReadable | Iterable[Bytes] | AsyncIterable[Bytes]


class Chunker:
    """Splits data into chunks, and keeps their number, total size and digest."""

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size
        self.chunks = 0
        self.size = 0
        self.hash = hashlib.sha256()
        self.per_read = max(1, READ_SIZE // chunk_size)

    def cut(self, read: Read) -> list[bytes]:
        """Return the next group of chunks, hashed; none at the end. Every chunk except the last is full."""
        chunks = []
        for _ in range(self.per_read):
            chunk = read(self.chunk_size)
            if not chunk:
                break
            # A pipe may return fewer bytes than requested.
            while len(chunk) < self.chunk_size and (more := read(self.chunk_size - len(chunk))):
                chunk += more
            self.hash.update(chunk)
            self.size += len(chunk)
            chunks.append(chunk)
        self.chunks += len(chunks)
        return chunks


async def size_of(data: object) -> int | None:
    """Return the size of the data in bytes; None if it is not known in advance."""
    if isinstance(data, bytes | bytearray | memoryview):
        return memoryview(data).nbytes
    try:
        file: Any = data
        # The methods of an asynchronous file may have to be awaited.
        number, position = await result_of(file.fileno()), await result_of(file.tell())
        size: int = os.fstat(number).st_size - position
        return max(size, 0)
    except (AttributeError, OSError, ValueError):
        return None


async def chunk_groups(data: object, chunker: Chunker, worker: WorkerThread) -> AsyncGenerator[list[bytes]]:
    """Yield groups of chunks; a worker thread prepares the next group while the caller sends the present one."""
    read = reader_of(data)
    if read is None:
        rest = b""
        async for part in _parts(data):
            rest += part
            whole = len(rest) - len(rest) % chunker.chunk_size
            async for group in _ahead(_from_memory(memoryview(rest)[:whole]), chunker, worker):
                yield group
            rest = rest[whole:]
        yield chunker.cut(_from_memory(memoryview(rest)))
    elif isinstance(data, bytes | bytearray) and len(data) <= chunker.chunk_size:
        # One chunk: the overhead of a thread would be larger than the work.
        yield chunker.cut(read)
    else:
        async for group in _ahead(read, chunker, worker):
            yield group


async def _ahead(read: Read, chunker: Chunker, worker: WorkerThread) -> AsyncGenerator[list[bytes]]:
    ahead = worker.start(chunker.cut, read)
    while chunks := await worker.done(ahead):
        ahead = worker.start(chunker.cut, read)
        yield chunks


def reader_of(data: object) -> Read | None:
    """Return a function that reads bytes from memory or a file; None for iterables and asynchronous files."""
    if reader_of_async(data) is not None:
        return None
    if not hasattr(data, "read") and not hasattr(data, "readinto"):
        try:
            view = memoryview(data)  # type: ignore[arg-type]
        except TypeError:
            return None
        return _from_memory(view.cast("B") if view.nbytes else memoryview(b""))
    # A text file exposes its bytes as `buffer`.
    file: Any = getattr(data, "buffer", data)
    read = getattr(file, "read", None) or _into(file.readinto)

    def checked(size: int) -> bytes:
        return checked_bytes(read(size))

    return checked


def _from_memory(view: memoryview) -> Read:
    at = 0

    def read(size: int) -> bytes:
        nonlocal at
        at += size
        return bytes(view[at - size : at])

    return read


def _into(readinto: Callable[[bytearray], int]) -> Read:
    def read(size: int) -> bytes:
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: readinto(buffer)])

    return read


async def _parts(data: object) -> AsyncGenerator[bytes]:
    """Yield the items of an iterable or the parts of an asynchronous file, joined to groups.

    It runs in the caller's thread, to which the data may be bound.
    """
    held: list[bytes] = []
    async for part in _each(data):
        held.append(_bytes(part))
        if sum(map(len, held)) >= READ_SIZE:
            yield b"".join(held)
            held = []
    yield b"".join(held)


async def _each(data: object) -> AsyncGenerator[object]:
    if (read := reader_of_async(data)) is not None:
        while part := await read(ASYNC_READ_SIZE):
            yield part
    elif isinstance(data, AsyncIterable):
        async for part in data:
            yield part
    elif isinstance(data, Iterable):
        for part in data:
            yield part
    else:
        raise TypeError(f"nats: invalid type for object store: {type(data).__name__}")


def _bytes(part: object) -> bytes:
    if isinstance(part, str):
        return part.encode()
    try:
        return bytes(memoryview(part))  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"nats: invalid type for object store: it yields {type(part).__name__}, not bytes") from None
