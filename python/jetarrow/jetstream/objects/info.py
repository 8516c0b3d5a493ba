"""What is said about objects: read, changed, marked as deleted."""

from __future__ import annotations

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import (
    BadObjectMetaError,
    ObjectAlreadyExists,
    ObjectDeletedError,
    ObjectNotFoundError,
)
from jetarrow.jetstream.objects.base import Bucket, Stored, now
from jetarrow.jetstream.objects.names import checked_meta, meta_of


class Info(Bucket):
    """The verbs `get_info`, `update_meta` and `delete`."""

    async def get_info(self, name: str, show_deleted: bool | None = False) -> models.ObjectInfo:
        """What is said about an object. `mtime` is the time at which the server stored it.

        Args:
            name: The object.
            show_deleted: Also of one that was deleted; its `deleted` is then True.

        Raises:
            ObjectNotFoundError: There is no such object, or it was deleted.
            BucketNotFoundError: The bucket is gone.
            BadObjectMetaError: What is stored there cannot be read.
            InvalidObjectNameError: The name is empty.
        """
        found = await self._find(name)
        if found is None or (found.info.deleted and not show_deleted):
            self._no_object(name)
        return found.info

    async def update_meta(self, name: str, meta: models.ObjectMeta) -> None:
        """Changes an object's name, description, headers and metadata; its data stays where it is.

        Args:
            name: The object.
            meta: What is said about it from now on; its `options` are left out of account, and without a `name` the
                object keeps its own.

        Raises:
            ObjectDeletedError: There is no such object, or it was deleted.
            ObjectAlreadyExists: Another object has the new name.
            BucketNotFoundError: The bucket is gone.
        """
        new_name = checked_meta(meta).name or name
        try:
            old = await self.get_info(name)
        except ObjectNotFoundError as error:
            raise ObjectDeletedError(message=f"bucket {self._name!r} has no object {name!r} to change") from error

        def changed(found: Stored | None) -> models.ObjectInfo:
            if new_name == name:
                # Another client may have put a new version meanwhile.
                if found is None or found.info.deleted:
                    raise ObjectDeletedError
                info = found.info
            elif found is not None and not found.info.deleted:
                raise ObjectAlreadyExists(f"bucket {self._name!r} has an object {new_name!r} already")
            else:
                info = old
            return info.evolve(
                name=new_name, description=meta.description, headers=meta.headers, metadata=meta.metadata, mtime=now()
            )

        await self._commit(new_name, await self._find(new_name), changed)
        if new_name != name:
            await self._js.purge_stream(self._stream, subject=meta_of(self._name, name))

    async def delete(self, name: str) -> None:
        """Deletes an object: its data goes, and a marker stays, which `list` and `watch` show.

        Args:
            name: The object; of a link, the link alone goes.

        Raises:
            ObjectNotFoundError: There is no such object, or it was deleted.
            BucketNotFoundError: The bucket is gone.
            APIError: The server refuses it: the bucket is sealed.
        """

        def deleted(found: Stored | None) -> models.ObjectInfo:
            if found is None or found.info.deleted:
                self._no_object(name)
            if not found.info.nuid:
                raise BadObjectMetaError
            return found.info.evolve(deleted=True, size=0, chunks=0, digest="", mtime=now())

        former = await self._commit(name, await self._find(name), deleted)
        if former is not None:
            await self._purge(former.info.nuid)
