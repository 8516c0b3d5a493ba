"""Storing of objects."""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from jetarrow.core.docstrings import with_entries_of
from jetarrow.jetstream import models
from jetarrow.jetstream.errors import APIError, BadObjectMetaError, InvalidObjectNameError
from jetarrow.jetstream.objects.async_file import is_asynchronous
from jetarrow.jetstream.objects.bucket import Bucket, Stored, new_nuid, now
from jetarrow.jetstream.objects.chunk_upload import ChunkUpload
from jetarrow.jetstream.objects.chunks import Chunker, Data, chunk_groups, size_of
from jetarrow.jetstream.objects.names import OBJ_DEFAULT_CHUNK_SIZE, checked_meta, chunk_subject, digest_text
from jetarrow.jetstream.objects.worker_thread import WorkerThread
from jetarrow.jetstream.progress import Progress, ThrottledProgress

# Seconds that a cancelled put waits for the removal of its chunks; on an event loop the removal continues afterwards.
CANCEL_TIMEOUT = 0.25
_cleanups: set[asyncio.Task[bool]] = set()


@dataclass
class Attempt:
    """Progress of one put."""

    upload: ChunkUpload
    info: models.ObjectInfo
    # The object that has the name, as last read.
    former: Stored | None
    # Whether the metadata message may have been stored.
    committing: bool = False

    def commit(self, found: Stored | None) -> models.ObjectInfo:
        """Return the metadata that replaces `found`."""
        self.former, self.committing = found, True
        return self.info


class Put(Bucket):
    """The verbs `put` and `put_file`."""

    async def put(
        self,
        name: str | None,
        data: Data,
        meta: models.ObjectMeta | None = None,
        *,
        progress: Progress | bool | None = None,
    ) -> models.ObjectInfo:
        """Stores an object and replaces an object of the same name.

        Readers see the old object until the new one is complete. A put that fails or is cancelled removes its chunks
        and keeps the old object. Memory is bounded by some megabytes, plus at most 32 MiB in flight.

        Args:
            name: The object's name, any text. If None or empty, the name in `meta` is used.
            data: Bytes-like; str, which is stored as UTF-8; a binary file or an object with the same `read`, which is
                read to its end in another thread; or an iterable of bytes or str. On an event loop also an asynchronous
                iterable, and an asynchronous file (of aiofiles or anyio, or an object with `async def read`).
            meta: Description, headers and metadata, and in its `options` the size of a chunk; default 128 KiB.
            progress: Called with (bytes sent, total bytes or None) at most ten times per second; True shows a progress
                bar if stderr is a terminal.

        Returns:
            The metadata of the object.

        Raises:
            InvalidObjectNameError: There is no name.
            BadObjectMetaError: `meta` has a link: use `add_link`.
            BucketNotFoundError: The bucket does not exist.
            APIError: The bucket is full or sealed.
            MaxPayloadError: A chunk is larger than the server's maximum payload.
            PublishUnconfirmedError: The connection was lost before all chunks were acknowledged.
            TypeError: The data has a wrong type.
        """
        meta = replace(checked_meta(meta)) if meta is not None else models.ObjectMeta()
        options = meta.options or models.ObjectMetaOptions()
        if options.link is not None:
            raise BadObjectMetaError(f"could not put object {name!r}: `meta` has a link; use add_link")
        chunk_size = options.max_chunk_size or OBJ_DEFAULT_CHUNK_SIZE
        if chunk_size < 0:
            raise ValueError(f"max_chunk_size must be 1 or more, not {chunk_size}")
        if not (name := name or meta.name or ""):
            raise InvalidObjectNameError
        if isinstance(data, str):
            data = data.encode()
        if self._js._api.session.is_blocking and is_asynchronous(data):
            raise TypeError(
                "nats: invalid type for object store: an asynchronous file or iterable needs an event loop; pass a"
                " binary file, or bytes"
            )
        former = await self._find_any(name)
        info = models.ObjectInfo(
            name=name,
            description=meta.description,
            headers=meta.headers,
            metadata=meta.metadata,
            options=replace(options, max_chunk_size=chunk_size),
            bucket=self._name,
            nuid=new_nuid(),
        )
        attempt = Attempt(ChunkUpload(self._js, self._stream, chunk_subject(self._name, info.nuid)), info, former)
        try:
            chunker = Chunker(chunk_size)
            await self._send(data, chunker, attempt.upload, progress)
            attempt.info = replace(
                info, size=chunker.size, chunks=chunker.chunks, digest=digest_text(chunker.hash.digest()), mtime=now()
            )
            await self._commit(name, former, attempt.commit, self._find_any)
        except BaseException as error:
            if not await self._roll_back(attempt, error):
                raise
        else:
            await self._purge_former(attempt.former)
        return await self._with_server_time(attempt.info)

    @with_entries_of(put)
    async def put_file(
        self,
        name: str | os.PathLike[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        meta: models.ObjectMeta | None = None,
        *,
        progress: Progress | bool | None = None,
    ) -> models.ObjectInfo:
        """Stores a file.

        Args:
            name: The object's name, which is also the path if `path` is not given. If None or empty, the name in `meta`
                is used; default the base name of `path`. A `Path` here is the path.
            path: The file. Default: the one at `name`.
            meta: As `put`.
            progress: As `put`.

        Returns:
            The metadata of the object.

        Raises:
            OSError: The file cannot be read.
            TypeError: There is neither a name nor a path.
            APIError: As `put`, like the other errors of `put`.
        """
        name, path = _name_and_path(name, path, meta)
        with open(path, "rb", buffering=0) as file:  # noqa: ASYNC230  # read elsewhere
            return await self.put(name, file, meta, progress=progress)

    async def _send(self, data: Data, chunker: Chunker, upload: ChunkUpload, progress: Progress | bool | None) -> None:
        """Publish the chunks in order."""
        reported, begun = ThrottledProgress(progress, "putting", await size_of(data)), False
        with WorkerThread(self._js._api.session) as worker:
            async with upload, aclosing(chunk_groups(data, chunker, worker)) as cut:
                async for chunks in cut:
                    if begun := begun or len(chunks) >= chunker.per_read:
                        await upload.send(chunks)
                    elif chunks:
                        await upload.send_few(chunks)
                    reported.add(sum(map(len, chunks)))

    async def _roll_back(self, attempt: Attempt, error: BaseException) -> bool:
        """Remove the chunks of a failed put; return True if the object was stored after all.

        A cancelled put does not wait for an unavailable server.
        """
        if isinstance(error, Exception):
            return await self._remove_chunks(attempt, error)
        session = self._js._api.session
        if session.is_blocking:
            if not attempt.committing:
                await self._remove_chunks_quickly(attempt, error)
            return False
        task = asyncio.ensure_future(self._remove_chunks(attempt, error))
        _cleanups.add(task)
        task.add_done_callback(_cleanups.discard)
        await asyncio.wait([task], timeout=CANCEL_TIMEOUT)
        return False

    async def _remove_chunks(self, attempt: Attempt, error: BaseException) -> bool:
        """Remove the chunks as `_roll_back`. The object is stored if only the response to the commit was lost."""
        last, nuid = new_nuid(), attempt.info.nuid
        try:
            # No chunk may be stored after the purge: none is queued any more, and the server answers this publish after
            # all messages sent before it.
            await attempt.upload.wait_for_acks()
            with suppress(APIError):
                await self._js.publish(chunk_subject(self._name, last), stream=self._stream)
                await self._purge(last)
            if attempt.committing:
                stored = await self._find_any(attempt.info.name)
                if stored is not None and stored.info.nuid == nuid:
                    await self._purge_former(attempt.former)
                    return True
            await self._purge(nuid)
        except Exception as failure:
            error.add_note(self._leftover_note(failure))
        return False

    async def _remove_chunks_quickly(self, attempt: Attempt, error: BaseException) -> None:
        last, api = new_nuid(), self._js._api
        try:
            answered = await attempt.upload.wait_for_acks(CANCEL_TIMEOUT / 4)
            await self._js.publish(chunk_subject(self._name, last), timeout=CANCEL_TIMEOUT / 4, stream=self._stream)
            for nuid in (last, attempt.info.nuid):
                body = {"filter": chunk_subject(self._name, nuid)}
                await api.request(f"STREAM.PURGE.{self._stream}", body, timeout=CANCEL_TIMEOUT / 4)
            if not answered:
                raise TimeoutError("some chunks were still in flight")
        except Exception as failure:
            error.add_note(self._leftover_note(failure))

    def _leftover_note(self, failure: Exception) -> str:
        return f"chunks of it may still be in bucket {self._name!r}: {failure}; clean() removes them"

    async def _purge_former(self, former: Stored | None) -> None:
        # Without a nuid the chunks cannot be identified.
        if former is not None and not former.info.deleted and former.info.nuid:
            await self._purge(former.info.nuid)


def _name_and_path(
    name: str | os.PathLike[str] | None, path: str | os.PathLike[str] | None, meta: models.ObjectMeta | None
) -> tuple[str, str | os.PathLike[str]]:
    """Return the object's name and the path for the arguments of `put_file`."""
    if name is not None and not isinstance(name, str):
        if path is not None:
            raise TypeError(f"name must be str, not {type(name).__name__}: the object's name is a text")
        name, path = None, name
    if path is None:
        if name is None:
            raise TypeError("put_file needs a name or a path: put_file('report.pdf'), put_file(path='data/report.pdf')")
        path = name
    return name or (meta and meta.name) or os.path.basename(os.fsdecode(path)), path
