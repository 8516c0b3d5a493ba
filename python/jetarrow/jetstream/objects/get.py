"""Reading of objects."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

from jetarrow.core.docstrings import with_entries_of
from jetarrow.jetstream import models
from jetarrow.jetstream.errors import (
    BadObjectMetaError,
    DigestMismatchError,
    LinkIsABucketError,
    NotFoundError,
)
from jetarrow.jetstream.objects.async_file import AsyncWritable, AsyncWrite, unwritten, writer_of_async
from jetarrow.jetstream.objects.info import Info
from jetarrow.jetstream.objects.metadata_checks import checked_nuid
from jetarrow.jetstream.objects.names import OBJ_DEFAULT_CHUNK_SIZE, chunk_subject, same_digest
from jetarrow.jetstream.objects.status import ObjectResult
from jetarrow.jetstream.objects.target_file import replacing
from jetarrow.jetstream.objects.worker_thread import WorkerThread
from jetarrow.jetstream.progress import Progress, ThrottledProgress


class Writable(Protocol):
    """A binary file, or an object with the same `write`."""

    def write(self, data: bytes, /) -> int | None:
        """Write bytes and return their number; None means all of them."""


class _Sink:
    """Writes the data of an object, and computes its size and digest."""

    def __init__(self, write: Callable[[Any], int | None] | None) -> None:
        # None computes only size and digest.
        self._write = write
        self._hash = hashlib.sha256()
        self._size = 0

    def take(self, payload: bytes) -> None:
        self._hash.update(payload)
        self._size += len(payload)
        if self._write is None:
            return
        view = memoryview(payload)
        # An unbuffered file may write only a part of the data.
        while view:
            view = unwritten(view, self._write(view))

    def check(self, info: models.ObjectInfo) -> None:
        check_digest(info, self._size, self._hash.digest())


def check_digest(info: models.ObjectInfo, size: int, digest: bytes) -> None:
    """Compare the data read with an object's metadata.

    Raises:
        DigestMismatchError: Size or digest differ.
    """
    if size != info.size or not same_digest(info.digest, digest):
        raise DigestMismatchError(
            f"digest mismatch: object {info.name!r} of bucket {info.bucket!r} is damaged, or was replaced during the"
            f" read ({size} of {info.size} bytes received); read it again"
        )


def is_small(info: models.ObjectInfo) -> bool:
    """Return whether the object is one chunk of at most the default size."""
    return info.chunks == 1 and (info.size or 0) <= OBJ_DEFAULT_CHUNK_SIZE


class Get(Info):
    """The verbs `get` and `get_file`."""

    async def get(
        self,
        name: str,
        writeinto: Writable | AsyncWritable | None = None,
        show_deleted: bool | None = False,
        *,
        progress: Progress | bool | None = None,
    ) -> ObjectResult:
        """Reads an object and follows a link once.

        Args:
            name: The object.
            writeinto: A binary file, or an object with the same `write`: receives the data, in another thread, instead
                of the result, so memory is bounded by some megabytes. On an event loop also an asynchronous file (of
                aiofiles or anyio, or an object with `async def write`). It is neither flushed nor closed. The data is
                complete only after this method has returned; if it raises, the file may hold a part of the data.
            show_deleted: Include deleted objects, which have no data.
            progress: Called with (bytes read, total bytes) at most ten times per second; True shows a progress bar if
                stderr is a terminal.

        Returns:
            The metadata of the object, and its data.

        Raises:
            ObjectNotFoundError: The object, or the target of a link, does not exist or was deleted.
            DigestMismatchError: The data is damaged, or was replaced during the read.
            LinkIsABucketError: The object is a link to a bucket.
            BadObjectMetaError: The metadata cannot be parsed, or the object is a link to a link.
            BucketNotFoundError: The bucket, or that of the link's target, does not exist.
        """
        if writeinto is not None and not callable(getattr(writeinto, "write", None)):
            raise TypeError(f"writeinto must be a binary file, not {type(writeinto).__name__}; for a path use get_file")
        awaited = None if writeinto is None else writer_of_async(writeinto)
        if awaited is not None and self._js._api.session.is_blocking:
            raise TypeError("writeinto is an asynchronous file, which needs an event loop; pass a binary file")
        info = await self.get_info(name, show_deleted)
        source: Get = self
        if info.is_link():
            source, info = await self._follow(info)
        if not info.nuid:
            raise BadObjectMetaError
        if not info.size:
            return ObjectResult(info)
        if writeinto is not None:
            file: Any = getattr(writeinto, "buffer", writeinto)
            await source._read(info, file.write if awaited is None else None, progress, awaited)
            return ObjectResult(info)
        held = io.BytesIO()
        await source._read(info, held.write, progress)
        return ObjectResult(info, held.getvalue())

    @with_entries_of(get)
    async def get_file(
        self,
        name: str,
        path: str | os.PathLike[str] | None = None,
        *,
        progress: Progress | bool | None = None,
    ) -> models.ObjectInfo:
        """Reads an object into a file, which is replaced atomically once the data is complete.

        The data is written to a temporary file in the same folder (mode 0600), which then replaces the file. An
        existing file keeps its mode; a new file gets the mode of the umask.

        Args:
            name: The object.
            path: The file. Default: the one at `name`.
            progress: As `get`.

        Returns:
            The metadata of the object.

        Raises:
            OSError: The file cannot be written.
            ObjectNotFoundError: As `get`, like the other errors of `get`.
        """
        target = os.path.realpath(name if path is None else path)  # noqa: ASYNC240  # short
        with replacing(target) as file:
            result = await self.get(name, file, progress=progress)
        return result.info

    async def _follow(self, link: models.ObjectInfo) -> tuple[Get, models.ObjectInfo]:
        """Return the bucket of a link's target, and the target's metadata."""
        to = None if link.options is None else link.options.link
        if to is None or not to.name:
            raise LinkIsABucketError
        bucket = self._other(to.bucket)
        info = await bucket.get_info(to.name)
        if info.is_link():
            raise BadObjectMetaError(
                f"could not read object {link.name!r} of bucket {self._name!r}: it links to {to.name!r} of bucket"
                f" {to.bucket!r}, which is a link itself; link to an object"
            )
        return bucket, info

    async def _read(
        self,
        info: models.ObjectInfo,
        write: Callable[[Any], int | None] | None,
        progress: Progress | bool | None,
        awaited: AsyncWrite | None = None,
    ) -> None:
        """Read the chunks; a worker thread hashes and writes each batch while the next one is received.

        `awaited`: writes each batch on the event loop instead.
        """
        sink, reported = _Sink(write), ThrottledProgress(progress, "getting", info.size)
        if is_small(info):
            sink.take(payload := await self._only_chunk(info))
            if awaited is not None:
                await awaited(payload)
            sink.check(info)
            reported.add(info.size or 0)
            return
        with WorkerThread(self._js._api.session) as worker:
            taken = None
            async with aclosing(self._payloads(info)) as payloads:
                async for payload in payloads:
                    if taken is not None:
                        await worker.done(taken)
                    taken = worker.start(sink.take, payload)
                    if awaited is not None:
                        await awaited(payload)
                    reported.add(len(payload))
            if taken is not None:
                await worker.done(taken)
        sink.check(info)

    async def _only_chunk(self, info: models.ObjectInfo) -> bytes:
        """Read a small object by one request, without a consumer."""
        subject = chunk_subject(self._name, checked_nuid(info.nuid, self._name))
        try:
            return (await self._js.get_last_msg(self._stream, subject)).data or b""
        except NotFoundError:
            return b""

    async def _payloads(self, info: models.ObjectInfo) -> AsyncGenerator[bytes]:
        """Yield the data of an object in order, a batch of chunks at a time; incomplete if chunks were removed."""
        left = info.chunks or 0
        subject = chunk_subject(self._name, checked_nuid(info.nuid, self._name))
        # With a limit, the reader does not wait for messages after the last chunk.
        async with (
            self._open_read(subject, ("data",), info.chunks or None) as reader,
            aclosing(self._batches(reader)) as batches,
        ):
            async for batch in batches:
                yield batch.payload()
                left -= len(batch)
                if left <= 0:
                    return
