"""The verbs of a context that make, open and list buckets."""

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
from jetarrow.jetstream.kv.key_value import BucketStatus, KeyValue
from jetarrow.jetstream.kv.names import KV_PRE_TEMPLATE, STREAM_PREFIX, VALID_BUCKET_RE, bucket_stream
from jetarrow.jetstream.models import DEFAULT_PREFIX

if TYPE_CHECKING:
    from jetarrow.jetstream.kv.option_types import KeyValueOptions


class KeyValues(BucketContext):
    """The verbs on buckets."""

    async def key_value(self, bucket: str) -> KeyValue:
        """Opens a bucket.

        Args:
            bucket: Its name.

        Raises:
            BucketNotFoundError: There is no such bucket.
            BadBucketError: A stream has this name that is no bucket.
            InvalidBucketNameError: The name is not valid.
        """
        stream = bucket_stream(bucket)
        try:
            info = await self.stream_info(stream)
        except NotFoundError as error:
            raise bucket_not_found(bucket, error) from None
        if info.config.max_msgs_per_subject < 1:
            raise BadBucketError(message=f"stream {stream!r} is no bucket: it has max_msgs_per_subject < 1")
        return self._bucket(bucket, info)

    async def create_key_value(
        self, /, config: models.KeyValueConfig | None = None, **params: Unpack[KeyValueOptions]
    ) -> KeyValue:
        """Creates a bucket; opens it where it is there with the same configuration.

        Args:
            config: The configuration.
            **params: Fields of `KeyValueConfig`, by name; they win over `config`.

        Raises:
            BadRequestError: The server refuses the configuration, or a bucket of that name has another one.
            InvalidBucketNameError: The name is not valid.
            KeyHistoryTooLargeError: More than 64 revisions of a key.
            KeyValueLimitMarkerTTLNotSupportedError: `limit_marker_ttl`, and the server is older than 2.11.
            TypeError: No name.
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
        """Changes a bucket that is there.

        Args:
            config: The new configuration, which takes the place of the old one as a whole. None keeps the old one but
                for the fields given: `update_key_value(bucket="B", history=5)`.
            **params: Fields of `KeyValueConfig`, by name; they win over `config`. `bucket` says which.

        Raises:
            BucketNotFoundError: There is no such bucket.
            BadRequestError: The server refuses the configuration; some fields can never change.
            ServerError: The server refuses the configuration; some fields can never change.
            InvalidBucketNameError: The name is not valid.
            KeyHistoryTooLargeError: More than 64 revisions of a key.
            KeyValueLimitMarkerTTLNotSupportedError: `limit_marker_ttl`, and the server is older than 2.11.
            TypeError: No name.
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
        """Deletes a bucket with all that is in it.

        Args:
            bucket: Its name.

        Returns:
            True.

        Raises:
            BucketNotFoundError: There is no such bucket.
            InvalidBucketNameError: The name is not valid.
        """
        try:
            return await self.delete_stream(bucket_stream(bucket))
        except NotFoundError as error:
            raise bucket_not_found(bucket, error) from None

    async def key_value_names(self) -> AsyncIterator[str]:
        """The names of all buckets, sorted: `async for name in js.key_value_names()`."""
        async for stream in self.stream_names():
            bucket = stream.removeprefix(STREAM_PREFIX)
            if bucket != stream and VALID_BUCKET_RE.fullmatch(bucket):
                yield bucket

    async def key_values(self) -> AsyncIterator[BucketStatus]:
        """State and configuration of all buckets, in the order of their names."""
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
        """A handle: where a bucket's keys are read, and where they are written."""
        prefix = self._api.prefix
        pre = KV_PRE_TEMPLATE.format(bucket=bucket)
        # With a domain, the server finds the keys behind the prefix of its API.
        put_pre = pre if prefix == DEFAULT_PREFIX else f"{prefix}.{pre}"
        mirror = info.config.mirror
        if mirror is not None:
            # It has the keys of its origin, and is written there.
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
            raise TypeError("the bucket's name is missing: bucket=")
        return models.KeyValueConfig(**params)
    return config.evolve(**params) if params else config
