"""The object store."""

from __future__ import annotations

from typing import ClassVar

from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.objects import status
from jetarrow.jetstream.objects.clean import Clean
from jetarrow.jetstream.objects.links import Links
from jetarrow.jetstream.objects.rename import Rename
from jetarrow.jetstream.objects.watch import ObjectWatcher


class ObjectStore(Rename, Links, Clean):
    """A bucket of objects. Made by `js.object_store(bucket)` or `js.create_object_store(bucket)`.

    An object has a name, data of any size and metadata. A handle holds no resources, and tasks may share it.
    """

    ObjectResult: ClassVar = status.ObjectResult
    ObjectStoreStatus: ClassVar = status.ObjectStoreStatus
    ObjectWatcher: ClassVar = ObjectWatcher

    def __repr__(self) -> str:
        return f"<ObjectStore: bucket {self._name!r}>"

    async def status(self) -> status.ObjectStoreStatus:
        """Returns state and configuration of the bucket.

        Raises:
            BucketNotFoundError: The bucket was deleted.
        """
        try:
            return status.ObjectStoreStatus(await self._js.stream_info(self._stream), self._name)
        except NotFoundError as error:
            raise self._bucket_not_found(error) from None

    async def seal(self) -> None:
        """Seals the bucket permanently: no client can put or delete objects afterwards.

        Raises:
            BucketNotFoundError: The bucket was deleted.
        """
        await self._js.update_stream((await self.status()).stream_info.config.evolve(sealed=True))
