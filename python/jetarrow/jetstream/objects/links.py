"""Links: names that stand for an object, or a bucket."""

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
        """Makes a name that stands for an object: `get(name)` gives that one, as it is then.

        Args:
            name: The link; an older link of that name is replaced.
            target: The object: its information, also of another bucket, or its name in this one.

        Returns:
            What is stored about the link.

        Raises:
            ObjectNotFoundError: There is no such object.
            ObjectDeletedError: It was deleted.
            LinkToLinkError: It is a link itself.
            ObjectAlreadyExists: An object has the link's name.
            BucketNotFoundError: One of the buckets is gone.
            InvalidObjectNameError: A name is empty.
        """
        if isinstance(target, str):
            bucket, of = self._name, target
        elif target.bucket:
            bucket, of = target.bucket, target.name
        else:
            raise BadObjectMetaError("the object to link to has no bucket")
        # As it is now: what the caller holds may be old.
        info = await self._other(bucket).get_info(of, show_deleted=True)
        if info.deleted:
            raise ObjectDeletedError(message=f"object {of!r} of bucket {bucket!r} was deleted: nothing to link to")
        if info.is_link():
            raise LinkToLinkError(f"object {of!r} of bucket {bucket!r} is a link: link to what it leads to")
        return await self._link(name, models.ObjectLink(bucket, of))

    async def add_bucket_link(self, name: str, bucket: Bucket | str) -> models.ObjectInfo:
        """Makes a name that stands for a whole bucket; `get(name)` then raises `LinkIsABucketError`.

        Args:
            name: The link; an older link of that name is replaced.
            bucket: The bucket, or its name.

        Returns:
            What is stored about the link.

        Raises:
            BucketNotFoundError: There is no such bucket.
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
                raise ObjectAlreadyExists(f"bucket {self._name!r} has an object {name!r} already")
            return link

        await self._commit(name, await self._find_any(name), made, self._find_any)
        return await self._with_server_time(link)
