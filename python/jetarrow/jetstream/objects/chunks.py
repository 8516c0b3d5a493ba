"""What is put, cut into chunks and hashed, a group of some megabytes at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from typing import Any, Protocol, TypeAlias

from jetarrow.jetstream.objects.worker_thread import WorkerThread

# Bytes that are read and hashed at a time, while others are on their way to the server.
READ_SIZE = 8 * 1024 * 1024


class Readable(Protocol):
    """A file, or what reads like one."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


Bytes: TypeAlias = bytes | bytearray | memoryview | str
Read: TypeAlias = Callable[[int], bytes]
Data: TypeAlias = Bytes | Readable | Iterable[Bytes] | AsyncIterable[Bytes]


class Chunker:
    """Cuts chunks, and knows how many there were, of how many bytes, and their digest."""

    def __init__(self, chunk_size: int) -> None:
        self.chunk_size = chunk_size
        self.chunks = 0
        self.size = 0
        self.hash = hashlib.sha256()
        self.per_read = max(1, READ_SIZE // chunk_size)

    def cut(self, read: Read) -> list[bytes]:
        """The next chunks, hashed; none at the end. Every chunk but the last is full."""
        chunks = []
        for _ in range(self.per_read):
            chunk = read(self.chunk_size)
            if not chunk:
                break
            # A pipe gives less than it is asked for.
            while len(chunk) < self.chunk_size and (more := read(self.chunk_size - len(chunk))):
                chunk += more
            self.hash.update(chunk)
            self.size += len(chunk)
            chunks.append(chunk)
        self.chunks += len(chunks)
        return chunks


def size_of(data: object) -> int | None:
    """How many bytes there are to put; None where that is not known before."""
    if isinstance(data, bytes | bytearray | memoryview):
        return memoryview(data).nbytes
    try:
        file: Any = data
        size: int = os.fstat(file.fileno()).st_size - file.tell()
        return max(size, 0)
    except (AttributeError, OSError, ValueError):
        return None


async def chunk_groups(data: object, chunker: Chunker, worker: WorkerThread) -> AsyncGenerator[list[bytes]]:
    """Chunks, a group at a time: the next group is made while the caller sends the last one."""
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
        # A thread is more than it is worth.
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
    """What reads bytes out of memory or a file; None for anything that is iterated."""
    if not hasattr(data, "read") and not hasattr(data, "readinto"):
        try:
            view = memoryview(data)  # type: ignore[arg-type]
        except TypeError:
            return None
        return _from_memory(view.cast("B") if view.nbytes else memoryview(b""))
    # A file that was opened as text has its bytes beside it.
    file: Any = getattr(data, "buffer", data)
    read = getattr(file, "read", None) or _into(file.readinto)

    def checked(size: int) -> bytes:
        found = read(size)
        if not isinstance(found, bytes | bytearray):
            what = "nothing, as it does not wait" if found is None else type(found).__name__
            raise TypeError(f"nats: invalid type for object store: the file gives {what}, not bytes")
        return bytes(found)

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
    """What an iterable yields, a group at a time. It runs in the caller's thread: it may belong there."""
    held: list[bytes] = []
    async for part in _each(data):
        held.append(_bytes(part))
        if sum(map(len, held)) >= READ_SIZE:
            yield b"".join(held)
            held = []
    yield b"".join(held)


async def _each(data: object) -> AsyncGenerator[object]:
    if isinstance(data, AsyncIterable):
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
