"""Getting objects."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import (
    BadObjectMetaError,
    DigestMismatchError,
    LinkIsABucketError,
    NotFoundError,
)
from jetarrow.jetstream.objects.info import Info
from jetarrow.jetstream.objects.metadata_checks import checked_nuid
from jetarrow.jetstream.objects.names import OBJ_DEFAULT_CHUNK_SIZE, chunk_subject, same_digest
from jetarrow.jetstream.objects.status import ObjectResult
from jetarrow.jetstream.objects.target_file import replacing
from jetarrow.jetstream.objects.worker_thread import WorkerThread
from jetarrow.jetstream.progress import Progress, ThrottledProgress


class Writable(Protocol):
    """A binary file, or what is written like one."""

    def write(self, data: bytes, /) -> int | None:
        """Takes bytes; how many it took, None is all."""


class _Sink:
    """Takes an object's bytes: hashes them, counts them, writes them."""

    def __init__(self, write: Callable[[Any], int | None]) -> None:
        self._write = write
        self._hash = hashlib.sha256()
        self._size = 0

    def take(self, payload: bytes) -> None:
        self._hash.update(payload)
        self._size += len(payload)
        view = memoryview(payload)
        # A file without a buffer may take less than it is given.
        while view and (taken := self._write(view)) is not None:
            view = view[taken:]

    def check(self, info: models.ObjectInfo) -> None:
        check_digest(info, self._size, self._hash.digest())


def check_digest(info: models.ObjectInfo, size: int, digest: bytes) -> None:
    """Compares what was read with an object's metadata.

    Raises:
        DigestMismatchError: It has another size or digest.
    """
    if size != info.size or not same_digest(info.digest, digest):
        raise DigestMismatchError(
            f"digest mismatch: object {info.name!r} of bucket {info.bucket!r} is not what was stored, or was"
            f" replaced while it was read ({size} of {info.size} bytes came); read it again"
        )


def is_small(info: models.ObjectInfo) -> bool:
    """Whether the object is one chunk of the default size at most."""
    return info.chunks == 1 and (info.size or 0) <= OBJ_DEFAULT_CHUNK_SIZE


class Get(Info):
    """The verbs `get` and `get_file`."""

    async def get(
        self,
        name: str,
        writeinto: Writable | None = None,
        show_deleted: bool | None = False,
        *,
        progress: Progress | bool | None = None,
    ) -> ObjectResult:
        """Reads an object; a link is followed, once.

        Args:
            name: The object.
            writeinto: A binary file, or what is written like one: the bytes go there, in another thread, and not into
                the result; memory stays at some megabytes whatever the size. What stands there is the object only once
                this has returned: it is neither flushed nor closed, and where it raises it may hold a part.
            show_deleted: Also one that was deleted, which has no data.
            progress: Called with (bytes read, bytes in all) at most ten times a second; True shows a bar on stderr
                where that is a terminal.

        Returns:
            What is said about the object, and its data.

        Raises:
            ObjectNotFoundError: There is no such object, or it was deleted; or it is a link to none.
            DigestMismatchError: What was read is not what was stored: it is damaged, or was replaced meanwhile.
            LinkIsABucketError: It is a link to a bucket.
            BadObjectMetaError: What is said about it cannot be read, or it is a link to a link.
            BucketNotFoundError: The bucket is gone, or the link leads to one that is.
        """
        if writeinto is not None and not callable(getattr(writeinto, "write", None)):
            raise TypeError(f"writeinto must be a binary file, not {type(writeinto).__name__}; for a path use get_file")
        info = await self.get_info(name, show_deleted)
        source: Get = self
        if info.is_link():
            source, info = await self._follow(info)
        if not info.nuid:
            raise BadObjectMetaError
        if not info.size:
            return ObjectResult(info)
        if writeinto is not None:
            await source._read(info, getattr(writeinto, "buffer", writeinto).write, progress)
            return ObjectResult(info)
        held = io.BytesIO()
        await source._read(info, held.write, progress)
        return ObjectResult(info, held.getvalue())

    async def get_file(
        self,
        name: str,
        path: str | os.PathLike[str] | None = None,
        *,
        progress: Progress | bool | None = None,
    ) -> models.ObjectInfo:
        """Reads an object into a file, which is there once it is whole: a file that had the name stays until then.

        The data is written to a temporary file in the same folder (mode 0600), which then replaces the file. A file
        that was there keeps its mode; a new one gets the mode that the umask leaves.

        Args:
            name: The object.
            path: The file; None is the one at `name`.
            progress: As `get`.

        Returns:
            What is said about the object.

        Raises:
            OSError: The file cannot be written.
            ObjectNotFoundError: As `get`, and so are the others.
        """
        target = os.path.realpath(name if path is None else path)  # noqa: ASYNC240  # short
        with replacing(target) as file:
            result = await self.get(name, file, progress=progress)
        return result.info

    async def _follow(self, link: models.ObjectInfo) -> tuple[Get, models.ObjectInfo]:
        """The bucket that a link leads to, and what is said about the object there."""
        to = None if link.options is None else link.options.link
        if to is None or not to.name:
            raise LinkIsABucketError
        bucket = self._other(to.bucket)
        info = await bucket.get_info(to.name)
        if info.is_link():
            raise BadObjectMetaError(f"object {link.name!r} is a link to a link, {to.name!r} of bucket {to.bucket!r}")
        return bucket, info

    async def _read(
        self, info: models.ObjectInfo, write: Callable[[Any], int | None], progress: Progress | bool | None
    ) -> None:
        """Reads an object's chunks; each payload is hashed and written while the next one comes."""
        sink, reported = _Sink(write), ThrottledProgress(progress, "getting", info.size)
        if is_small(info):
            sink.take(await self._only_chunk(info))
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
                    reported.add(len(payload))
            if taken is not None:
                await worker.done(taken)
        sink.check(info)

    async def _only_chunk(self, info: models.ObjectInfo) -> bytes:
        """A small object: one request, and no consumer."""
        subject = chunk_subject(self._name, checked_nuid(info.nuid, self._name))
        try:
            return (await self._js.get_last_msg(self._stream, subject)).data or b""
        except NotFoundError:
            return b""

    async def _payloads(self, info: models.ObjectInfo) -> AsyncGenerator[bytes]:
        """An object's bytes in order, some chunks at a time; less than all where chunks are gone."""
        left = info.chunks or 0
        subject = chunk_subject(self._name, checked_nuid(info.nuid, self._name))
        # Known to be all, the last ones come without a question whether there are more.
        async with (
            self._open_read(subject, ("data",), info.chunks or None) as reader,
            aclosing(self._batches(reader)) as batches,
        ):
            async for batch in batches:
                yield batch.payload()
                left -= len(batch)
                if left <= 0:
                    return
