"""What is said about objects: read, marked as deleted."""

from __future__ import annotations

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import BadObjectMetaError
from jetarrow.jetstream.objects.bucket import Bucket, Stored, now


class Info(Bucket):
    """The verbs `get_info` and `delete`."""

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
            self._raise_object_not_found(name)
        return found.info

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
                self._raise_object_not_found(name)
            if not found.info.nuid:
                raise BadObjectMetaError
            return found.info.evolve(deleted=True, size=0, chunks=0, digest="", mtime=now())

        former = await self._commit(name, await self._find(name), deleted)
        if former is not None:
            await self._purge(former.info.nuid)
