"""The verbs of a context that open, create and list object stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Unpack

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.objects.bucket import StoreContext, bucket_not_found
from jetarrow.jetstream.objects.names import (
    ANY_BUCKET,
    OBJ_ALL_CHUNKS_PRE_TEMPLATE,
    OBJ_ALL_META_PRE_TEMPLATE,
    STREAM_PREFIX,
    VALID_BUCKET_RE,
    bucket_stream,
)

if TYPE_CHECKING:
    from jetarrow.jetstream.objects.object_store import ObjectStore
    from jetarrow.jetstream.objects.option_types import ObjectStoreOptions
    from jetarrow.jetstream.objects.status import ObjectStoreStatus


class ObjectStores(StoreContext):
    """The verbs on object stores."""

    async def object_store(self, bucket: str) -> ObjectStore:
        """Opens an existing object store.

        Args:
            bucket: Its name.

        Raises:
            BucketNotFoundError: The bucket does not exist.
            InvalidBucketNameError: The name has characters other than letters, digits, `-` and `_`.
        """
        from jetarrow.jetstream.objects.object_store import ObjectStore

        stream = bucket_stream(bucket)
        try:
            await self.stream_info(stream)
        except NotFoundError as error:
            raise bucket_not_found(bucket, error) from None
        return ObjectStore(bucket, stream, self)

    async def create_object_store(
        self,
        /,
        bucket: str | None = None,
        config: models.ObjectStoreConfig | None = None,
        **params: Unpack[ObjectStoreOptions],
    ) -> ObjectStore:
        """Creates an object store; opens it if it exists with the same configuration.

        Args:
            bucket: Its name; None uses the name in `config`.
            config: The configuration.
            **params: Fields of `ObjectStoreConfig`, by name; they override those of `config`.

        Raises:
            InvalidBucketNameError: There is no name, or it has characters other than letters, digits, `-` and `_`.
            BadRequestError: The server rejects the configuration, or the bucket exists with another one.
        """
        from jetarrow.jetstream.objects.object_store import ObjectStore

        config = (config or models.ObjectStoreConfig()).evolve(**params)
        name = bucket or config.bucket or ""
        stream = bucket_stream(name)
        await self.add_stream(
            models.StreamConfig(
                name=stream,
                description=config.description,
                subjects=[
                    each.format(bucket=name) for each in (OBJ_ALL_CHUNKS_PRE_TEMPLATE, OBJ_ALL_META_PRE_TEMPLATE)
                ],
                max_age=config.ttl,
                max_bytes=config.max_bytes or -1,
                storage=config.storage,
                num_replicas=config.replicas,
                placement=config.placement,
                compression=models.StoreCompression.S2 if config.compression else None,
                metadata=config.metadata,
                discard=models.DiscardPolicy.NEW,
                allow_rollup_hdrs=True,
                allow_direct=True,
            )
        )
        return ObjectStore(name, stream, self)

    async def delete_object_store(self, bucket: str) -> bool:
        """Deletes an object store with all of its objects.

        Args:
            bucket: Its name.

        Returns:
            True.

        Raises:
            BucketNotFoundError: The bucket does not exist.
            InvalidBucketNameError: The name has characters other than letters, digits, `-` and `_`.
        """
        try:
            return await self.delete_stream(bucket_stream(bucket))
        except NotFoundError as error:
            raise bucket_not_found(bucket, error) from None

    async def object_store_names(self) -> AsyncIterator[str]:
        """Yields the names of all object stores, sorted: `async for name in js.object_store_names()`."""
        async for stream in self.stream_names(ANY_BUCKET):
            bucket = stream.removeprefix(STREAM_PREFIX)
            if bucket != stream and VALID_BUCKET_RE.fullmatch(bucket):
                yield bucket

    async def object_stores(self) -> AsyncIterator[ObjectStoreStatus]:
        """Yields state and configuration of all object stores, in the order of their names."""
        from jetarrow.jetstream.objects.status import ObjectStoreStatus

        async for info in self.streams(ANY_BUCKET):
            name = info.config.name or ""
            bucket = name.removeprefix(STREAM_PREFIX)
            if bucket != name and VALID_BUCKET_RE.fullmatch(bucket):
                yield ObjectStoreStatus(info, bucket)
