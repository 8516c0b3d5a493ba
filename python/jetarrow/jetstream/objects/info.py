"""Reading of object metadata, and deletion of objects."""

from __future__ import annotations

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import BadObjectMetaError
from jetarrow.jetstream.objects.bucket import Bucket, Stored, now


class Info(Bucket):
    """The verbs `get_info` and `delete`."""

    async def get_info(self, name: str, show_deleted: bool | None = False) -> models.ObjectInfo:
        """Returns the metadata of an object. `mtime` is the time at which the server stored it.

        Args:
            name: The object.
            show_deleted: Include deleted objects, whose `deleted` is True.

        Raises:
            ObjectNotFoundError: The object does not exist, or was deleted.
            BucketNotFoundError: The bucket does not exist.
            BadObjectMetaError: The metadata cannot be parsed.
            InvalidObjectNameError: The name is empty.
        """
        found = await self._find(name)
        if found is None or (found.info.deleted and not show_deleted):
            self._raise_object_not_found(name)
        return found.info

    async def delete(self, name: str) -> None:
        """Deletes an object: purges its data and leaves a marker, which `list` and `watch` include.

        Args:
            name: The object. For a link only the link is deleted.

        Raises:
            ObjectNotFoundError: The object does not exist, or was deleted.
            BucketNotFoundError: The bucket does not exist.
            APIError: The bucket is sealed.
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
