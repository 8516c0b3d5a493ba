"""Changes of metadata, and renaming.

A nuid belongs to one name, from the put that created it until its chunks are purged. A rename therefore copies the data
to chunks with a new nuid, writes the metadata of the new name (only if that name is still free), removes the metadata
of the old name (only if it is still the message that was read), and then purges the old chunks. A client that replaces
or deletes a name purges the chunks of that name alone. No other name refers to them, so it need not search for one, and
an interrupted rename leaves two complete objects.

In the alternative design two names share chunks during a rename. It needs either a search through all metadata before
every purge, or a field in the metadata that other clients neither write nor respect. The cost of the copy is that the
data passes through the client, and that the bucket needs space for it. Other clients read the result like any object.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.errors import (
    DigestMismatchError,
    ObjectAlreadyExists,
    ObjectDeletedError,
)
from jetarrow.jetstream.objects.bucket import Stored, new_nuid, now
from jetarrow.jetstream.objects.chunk_upload import ChunkUpload
from jetarrow.jetstream.objects.chunks import Chunker
from jetarrow.jetstream.objects.get import Get, check_digest, is_small
from jetarrow.jetstream.objects.names import OBJ_DEFAULT_CHUNK_SIZE, checked_meta, chunk_subject
from jetarrow.jetstream.objects.put import Attempt, Put


class Rename(Get, Put):
    """The verb `update_meta`."""

    async def update_meta(self, name: str, meta: models.ObjectMeta) -> None:
        """Changes an object's description, headers and metadata, and its name.

        With the same name, or none, the data is unchanged. With another name the data is copied through this client.
        The old name is then removed, unless another client has put it in the meantime. An interrupted rename may leave
        both names, each with its own data.

        Args:
            name: The object.
            meta: The new description, headers and metadata, and the new name, if any. Its `options` are ignored.

        Raises:
            ObjectDeletedError: The object does not exist, or was deleted.
            ObjectAlreadyExists: Another object has the new name.
            DigestMismatchError: The data of a renamed object is damaged.
            BucketNotFoundError: The bucket does not exist.
            APIError: The bucket is sealed, or has no space for the copy.
        """
        new_name = checked_meta(meta).name or name
        if new_name == name:
            await self._commit(
                name,
                self._checked_live(name, await self._find(name)),
                lambda found: self._changed_info(name, found, meta),
            )
        else:
            await self._rename(name, new_name, meta)

    def _checked_live(self, name: str, found: Stored | None) -> Stored:
        if found is None or found.info.deleted:
            raise ObjectDeletedError(
                message=f"could not change object {name!r} of bucket {self._name!r}: it does not exist"
            )
        return found

    def _changed_info(self, name: str, found: Stored | None, meta: models.ObjectMeta) -> models.ObjectInfo:
        """Return the metadata of `found` with the changed fields."""
        return self._checked_live(name, found).info.evolve(
            description=meta.description, headers=meta.headers, metadata=meta.metadata, mtime=now()
        )

    async def _rename(self, name: str, new_name: str, meta: models.ObjectMeta) -> None:
        old = self._checked_live(name, await self._find(name))
        while True:
            target = self._checked_free(name, new_name, await self._find(new_name))
            info = self._changed_info(name, old, meta).evolve(name=new_name, nuid=new_nuid())
            chunks = chunk_subject(self._name, info.nuid)
            attempt = Attempt(ChunkUpload(self._js, self._stream, chunks), info, target)

            def new_info(found: Stored | None, attempt: Attempt = attempt) -> models.ObjectInfo:
                return attempt.commit(self._checked_free(name, new_name, found))

            try:
                attempt.info = await self._copy(old.info, info, attempt.upload)
                await self._commit(new_name, target, new_info)
            except BaseException as error:
                if not await self._roll_back(attempt, error):
                    if not isinstance(error, DigestMismatchError):
                        raise
                    latest = self._checked_live(name, await self._find(name))
                    if latest.info.nuid == old.info.nuid:
                        # Damaged, and not replaced during the read.
                        raise
                    old = latest
                    continue
            await self._remove_old(name, old, attempt.info)
            return

    def _checked_free(self, name: str, new_name: str, found: Stored | None) -> Stored | None:
        if found is not None and not found.info.deleted:
            raise ObjectAlreadyExists(
                f"could not rename object {name!r} of bucket {self._name!r}: {new_name!r} exists already;"
                " delete it, or choose another name"
            )
        return found

    async def _copy(self, old: models.ObjectInfo, new: models.ObjectInfo, upload: ChunkUpload) -> models.ObjectInfo:
        """Copy the chunks of `old` and return the metadata `new` with their number.

        Raises:
            DigestMismatchError: The data does not match the metadata `old`.
        """
        if not old.size:
            return new
        options = new.options or models.ObjectMetaOptions()
        chunker = Chunker(options.max_chunk_size or OBJ_DEFAULT_CHUNK_SIZE)
        if is_small(old):
            await self._send(await self._only_chunk(old), chunker, upload, None)
        else:
            async with aclosing(self._payloads(old)) as data:
                await self._send(data, chunker, upload, None)
        check_digest(old, chunker.size, chunker.hash.digest())
        return replace(new, chunks=chunker.chunks)

    async def _remove_old(self, name: str, old: Stored, new: models.ObjectInfo) -> None:
        """Remove the old name and its chunks, unless another client has replaced it."""
        while not await self._is_removed(name, old):
            latest = await self._find(name)
            if latest is None or latest.info.deleted:
                # Deleted data must not reappear under another name.
                await self._undo(new)
                raise ObjectDeletedError(
                    message=f"could not rename object {name!r} of bucket {self._name!r}: it was deleted in the meantime"
                )
            if latest.info.nuid != old.info.nuid:
                # A put after the rename is kept; it has purged the old chunks.
                return
            # Another client changed the metadata alone.
            old = latest
        if old.info.nuid:
            await self._purge(old.info.nuid)

    async def _is_removed(self, name: str, old: Stored) -> bool:
        try:
            return await self._remove_meta(name, old.seq)
        except Error as error:
            # The response may be lost. If the name was removed, no metadata refers to the old chunks.
            try:
                if await self._find(name) is None:
                    return True
            except Error:
                pass
            error.add_note(f"object {name!r} of bucket {self._name!r} may be left beside its copy")
            raise

    async def _undo(self, new: models.ObjectInfo) -> None:
        """Remove the new name if it is still the copy."""
        stored = await self._find_any(new.name)
        if stored is not None and stored.info.nuid == new.nuid and await self._remove_meta(new.name, stored.seq):
            await self._purge(new.nuid)
