"""Putting objects."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import APIError, BadObjectMetaError, InvalidObjectNameError
from jetarrow.jetstream.objects.bucket import Bucket, Stored, new_nuid, now
from jetarrow.jetstream.objects.chunk_upload import ChunkUpload
from jetarrow.jetstream.objects.chunks import Chunker, Data, chunk_groups, size_of
from jetarrow.jetstream.objects.names import OBJ_DEFAULT_CHUNK_SIZE, checked_meta, chunk_subject, digest_text
from jetarrow.jetstream.objects.worker_thread import WorkerThread
from jetarrow.jetstream.progress import Progress, ThrottledProgress

# Seconds that whoever gives a put up waits for what it has sent to be removed; on a loop that goes on afterwards.
CANCEL_TIMEOUT = 0.25
_cleanups: set[asyncio.Task[bool]] = set()


@dataclass
class Attempt:
    """A put, and how far it has come."""

    upload: ChunkUpload
    info: models.ObjectInfo
    # What has the name, as far as is known.
    former: Stored | None
    # The object's message may be there.
    committing: bool = False

    def commit(self, found: Stored | None) -> models.ObjectInfo:
        """What is written in the place of `found`."""
        self.former, self.committing = found, True
        return self.info


class Put(Bucket):
    """The verbs `put` and `put_file`."""

    async def put(
        self,
        name: str,
        data: Data,
        meta: models.ObjectMeta | None = None,
        *,
        progress: Progress | bool | None = None,
    ) -> models.ObjectInfo:
        """Stores an object, in the place of what had its name.

        Who reads has the old object until the new one is whole. A put that fails, or is cancelled, takes back what it
        has sent, and the old object stays. Memory stays at some megabytes whatever the size; over a long link at 32 MiB
        more.

        Args:
            name: The object's name, any text. Empty takes the one in `meta`.
            data: Bytes-like; str, which is stored as UTF-8; a binary file or what reads like one, which is read to its
                end in another thread; or an iterable (on an event loop also an asynchronous one) of bytes or str.
            meta: Description, headers and metadata, and the size of a chunk in its `options`; default 128 KiB.
            progress: Called with (bytes sent, bytes in all or None) at most ten times a second; True shows a bar on
                stderr where that is a terminal.

        Returns:
            What is stored about it.

        Raises:
            InvalidObjectNameError: No name.
            BadObjectMetaError: `meta` has a link: use `add_link`.
            BucketNotFoundError: The bucket is gone.
            APIError: The bucket refuses it: it is full, or sealed.
            MaxPayloadError: A chunk is larger than the server takes.
            PublishUnconfirmedError: The connection was lost meanwhile.
            TypeError: The data is of a wrong type.
        """
        meta = replace(checked_meta(meta)) if meta is not None else models.ObjectMeta()
        options = meta.options or models.ObjectMetaOptions()
        if options.link is not None:
            raise BadObjectMetaError("an object with data is no link: use add_link")
        chunk_size = options.max_chunk_size or OBJ_DEFAULT_CHUNK_SIZE
        if chunk_size < 0:
            raise ValueError(f"max_chunk_size must be 1 or more, not {chunk_size}")
        if not (name := name or meta.name or ""):
            raise InvalidObjectNameError
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, AsyncIterable) and self._js._api.session.is_blocking:
            raise TypeError("nats: invalid type for object store: an asynchronous iterable needs an event loop")
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

    async def put_file(
        self,
        name: str,
        path: str | os.PathLike[str] | None = None,
        meta: models.ObjectMeta | None = None,
        *,
        progress: Progress | bool | None = None,
    ) -> models.ObjectInfo:
        """Stores a file.

        Args:
            name: The object's name.
            path: The file; None is the one at `name`.
            meta: As `put`.
            progress: As `put`.

        Returns:
            What is stored about it.

        Raises:
            OSError: The file cannot be read.
            APIError: As `put`, and so are the others.
        """
        with open(name if path is None else path, "rb", buffering=0) as file:  # noqa: ASYNC230  # read elsewhere
            return await self.put(name, file, meta, progress=progress)

    async def _send(self, data: Data, chunker: Chunker, upload: ChunkUpload, progress: Progress | bool | None) -> None:
        """Publishes the chunks, in order."""
        reported, begun = ThrottledProgress(progress, "putting", size_of(data)), False
        with WorkerThread(self._js._api.session) as worker:
            async with upload, aclosing(chunk_groups(data, chunker, worker)) as cut:
                async for chunks in cut:
                    if begun := begun or len(chunks) >= chunker.per_read:
                        await upload.send(chunks)
                    elif chunks:
                        await upload.send_few(chunks)
                    reported.add(sum(map(len, chunks)))

    async def _roll_back(self, attempt: Attempt, error: BaseException) -> bool:
        """Removes what a put that failed has stored; True where the object is there after all.

        Who cancels, or presses Ctrl-C, does not wait for a server that is away.
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
        """As `_roll_back`. The object is there where the answer was lost, and not what was written."""
        last, nuid = new_nuid(), attempt.info.nuid
        try:
            # Nothing comes in behind the purge: no chunk waits for its turn any more, and the message is answered
            # after all that was sent before, whatever the answer.
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
        except Exception as trouble:
            error.add_note(f"chunks of it may still be in bucket {self._name!r}: {trouble}")
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
                raise TimeoutError("some were still on their way")
        except Exception as trouble:
            error.add_note(f"chunks of it may still be in bucket {self._name!r}: {trouble}")

    async def _purge_former(self, former: Stored | None) -> None:
        # Metadata without a nuid has no chunks that could be named.
        if former is not None and not former.info.deleted and former.info.nuid:
            await self._purge(former.info.nuid)
