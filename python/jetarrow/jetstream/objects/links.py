"""Links to objects and buckets."""

from __future__ import annotations

from jetarrow.jetstream import models
from jetarrow.jetstream.errors import (
    BadObjectMetaError,
    LinkToLinkError,
    NotFoundError,
    ObjectAlreadyExists,
    ObjectDeletedError,
)
from jetarrow.jetstream.objects.bucket import Bucket, Stored, new_nuid, now
from jetarrow.jetstream.objects.info import Info


class Links(Info):
    """The verbs `add_link` and `add_bucket_link`."""

    async def add_link(self, name: str, target: models.ObjectInfo | str) -> models.ObjectInfo:
        """Creates a link to an object: `get(name)` returns the target as it is at that time.

        Args:
            name: The link; replaces an existing link of this name.
            target: The object: its metadata, which may be of another bucket, or its name in this bucket.

        Returns:
            The metadata of the link.

        Raises:
            ObjectNotFoundError: The target does not exist.
            ObjectDeletedError: The target was deleted.
            LinkToLinkError: The target is a link.
            ObjectAlreadyExists: An object has the link's name.
            BucketNotFoundError: One of the buckets does not exist.
            InvalidObjectNameError: A name is empty.
        """
        if isinstance(target, str):
            bucket, of = self._name, target
        elif target.bucket:
            bucket, of = target.bucket, target.name
        else:
            raise BadObjectMetaError(
                f"could not create link {name!r}: the metadata of object {target.name!r} has no bucket; set `bucket`"
            )
        # Read again, because the metadata of the caller may be outdated.
        info = await self._other(bucket).get_info(of, show_deleted=True)
        if info.deleted:
            raise ObjectDeletedError(
                message=f"could not create link {name!r}: object {of!r} of bucket {bucket!r} was deleted"
            )
        if info.is_link():
            raise LinkToLinkError(
                f"could not create link {name!r}: {of!r} of bucket {bucket!r} is a link; link to its target"
            )
        return await self._link(name, models.ObjectLink(bucket, of))

    async def add_bucket_link(self, name: str, bucket: Bucket | str) -> models.ObjectInfo:
        """Creates a link to a bucket; `get(name)` then raises `LinkIsABucketError`.

        Args:
            name: The link; replaces an existing link of this name.
            bucket: The bucket, or its name.

        Returns:
            The metadata of the link.

        Raises:
            BucketNotFoundError: The bucket does not exist.
            ObjectAlreadyExists: An object has the link's name.
            InvalidObjectNameError: The name is empty.
        """
        other = self._other(bucket) if isinstance(bucket, str) else bucket
        try:
            await self._js.stream_info(other._stream)
        except NotFoundError as error:
            raise other._bucket_not_found(error) from None
        return await self._link(name, models.ObjectLink(other._name))

    async def _link(self, name: str, to: models.ObjectLink) -> models.ObjectInfo:
        link = models.ObjectInfo(
            name=name,
            bucket=self._name,
            nuid=new_nuid(),
            size=0,
            chunks=0,
            mtime=now(),
            options=models.ObjectMetaOptions(link=to),
        )

        def made(found: Stored | None) -> models.ObjectInfo:
            if found is not None and not found.info.deleted and not found.info.is_link():
                raise ObjectAlreadyExists(
                    f"could not create link {name!r} in bucket {self._name!r}: an object has this name"
                )
            return link

        await self._commit(name, await self._find_any(name), made, self._find_any)
        return await self._with_server_time(link)
