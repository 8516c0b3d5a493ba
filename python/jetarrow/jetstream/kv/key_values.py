"""The verbs of a context that create, open and list buckets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Unpack

from jetarrow.jetstream import models
from jetarrow.jetstream.api import STREAM_NAME_IN_USE
from jetarrow.jetstream.errors import (
    BadBucketError,
    BadRequestError,
    KeyValueLimitMarkerTTLNotSupportedError,
    NotFoundError,
)
from jetarrow.jetstream.kv.bucket import BucketContext, bucket_not_found
from jetarrow.jetstream.kv.config import changed_config, same_bucket, stream_config
from jetarrow.jetstream.kv.names import KV_PRE_TEMPLATE, STREAM_PREFIX, VALID_BUCKET_RE, bucket_stream
from jetarrow.jetstream.models import DEFAULT_PREFIX

if TYPE_CHECKING:
    from jetarrow.jetstream.kv.key_value import BucketStatus, KeyValue
    from jetarrow.jetstream.kv.option_types import KeyValueOptions


class KeyValues(BucketContext):
    """The verbs on buckets."""

    async def key_value(self, bucket: str) -> KeyValue:
        """Opens a bucket.

        Args:
            bucket: Its name.

        Raises:
            BucketNotFoundError: The bucket does not exist.
            BadBucketError: The stream of this name is not a bucket.
            InvalidBucketNameError: The name is not valid.
        """
        stream = bucket_stream(bucket)
        try:
            info = await self.stream_info(stream)
        except NotFoundError as error:
            raise bucket_not_found(bucket, error) from None
        if info.config.max_msgs_per_subject < 1:
            raise BadBucketError(
                message=f"could not open bucket {bucket!r}: stream {stream!r} has max_msgs_per_subject < 1"
            )
        return self._bucket(bucket, info)

    async def create_key_value(
        self, /, config: models.KeyValueConfig | None = None, **params: Unpack[KeyValueOptions]
    ) -> KeyValue:
        """Creates a bucket; opens it if it exists with the same configuration.

        Args:
            config: The configuration.
            **params: Fields of `KeyValueConfig`, by name; they override those of `config`.

        Raises:
            BadRequestError: The server rejects the configuration, or the bucket exists with another one.
            InvalidBucketNameError: The name is not valid.
            KeyHistoryTooLargeError: `history` is larger than 64.
            KeyValueLimitMarkerTTLNotSupportedError: `limit_marker_ttl` is given, and the server is older than 2.11.
            TypeError: The name is missing.
        """
        config = _config(config, params)
        wanted = await self._stream_config(config)
        try:
            info = await self.add_stream(wanted)
        except BadRequestError as error:
            if error.err_code != STREAM_NAME_IN_USE:
                raise
            info = await self.stream_info(bucket_stream(config.bucket))
            if not same_bucket(config, wanted, info.config):
                raise error from None
        return self._bucket(config.bucket, info)

    async def update_key_value(
        self, /, config: models.KeyValueConfig | None = None, **params: Unpack[KeyValueOptions]
    ) -> KeyValue:
        """Changes the configuration of a bucket.

        Args:
            config: The new configuration, which replaces the old one. None changes only the given fields:
                `update_key_value(bucket="B", history=5)`.
            **params: Fields of `KeyValueConfig`, by name; they override those of `config`. `bucket` is the name.

        Raises:
            BucketNotFoundError: The bucket does not exist.
            BadRequestError: The server rejects the configuration; some fields cannot be changed.
            ServerError: The server rejects the configuration; some fields cannot be changed.
            InvalidBucketNameError: The name is not valid.
            KeyHistoryTooLargeError: `history` is larger than 64.
            KeyValueLimitMarkerTTLNotSupportedError: `limit_marker_ttl` is given, and the server is older than 2.11.
            TypeError: The name is missing.
        """
        given: dict[str, Any] = {**params}
        whole = _config(config, params)
        wanted = await self._stream_config(whole)
        try:
            if config is None:
                there = (await self.stream_info(bucket_stream(whole.bucket))).config
                wanted = changed_config(self._api, whole.bucket, there, given)
            info = await self.update_stream(wanted)
        except NotFoundError as error:
            raise bucket_not_found(whole.bucket, error) from None
        return self._bucket(whole.bucket, info)

    async def delete_key_value(self, bucket: str) -> bool:
        """Deletes a bucket with all of its keys.

        Args:
            bucket: Its name.

        Returns:
            True.

        Raises:
            BucketNotFoundError: The bucket does not exist.
            InvalidBucketNameError: The name is not valid.
        """
        try:
            return await self.delete_stream(bucket_stream(bucket))
        except NotFoundError as error:
            raise bucket_not_found(bucket, error) from None

    async def key_value_names(self) -> AsyncIterator[str]:
        """Yields the names of all buckets, sorted: `async for name in js.key_value_names()`."""
        async for stream in self.stream_names():
            bucket = stream.removeprefix(STREAM_PREFIX)
            if bucket != stream and VALID_BUCKET_RE.fullmatch(bucket):
                yield bucket

    async def key_values(self) -> AsyncIterator[BucketStatus]:
        """Yields state and configuration of all buckets, in the order of their names."""
        from jetarrow.jetstream.kv.key_value import BucketStatus

        async for info in self.streams():
            stream = info.config.name or ""
            bucket = stream.removeprefix(STREAM_PREFIX)
            if bucket != stream and VALID_BUCKET_RE.fullmatch(bucket) and info.config.max_msgs_per_subject >= 1:
                yield BucketStatus(info, bucket)

    async def _stream_config(self, config: models.KeyValueConfig) -> models.StreamConfig:
        wanted = stream_config(self._api, config)
        if wanted.subject_delete_marker_ttl:
            level = models.AccountInfo.from_response(await self._api.request("INFO")).api.level
            if not level:
                raise KeyValueLimitMarkerTTLNotSupportedError
        return wanted

    def _bucket(self, bucket: str, info: models.StreamInfo) -> KeyValue:
        """Return a handle with the subjects from which the bucket's keys are read, and to which they are written."""
        from jetarrow.jetstream.kv.key_value import KeyValue

        prefix = self._api.prefix
        pre = KV_PRE_TEMPLATE.format(bucket=bucket)
        # With a domain, keys are published under the prefix of its API.
        put_pre = pre if prefix == DEFAULT_PREFIX else f"{prefix}.{pre}"
        mirror = info.config.mirror
        if mirror is not None:
            # A mirror has the keys of its origin, and writes go to the origin.
            pre = KV_PRE_TEMPLATE.format(bucket=mirror.name.removeprefix(STREAM_PREFIX))
            external = mirror.external
            put_pre = f"{external.api}.{pre}" if external is not None and external.api else pre
        return KeyValue(
            bucket,
            f"{STREAM_PREFIX}{bucket}",
            pre,
            self,
            bool(info.config.allow_direct),
            put_pre=put_pre,
            created=info.created,
        )


def _config(config: models.KeyValueConfig | None, params: Any) -> models.KeyValueConfig:
    if config is None:
        if "bucket" not in params:
            raise TypeError("the name of the bucket is missing: give bucket=")
        return models.KeyValueConfig(**params)
    return config.evolve(**params) if params else config
