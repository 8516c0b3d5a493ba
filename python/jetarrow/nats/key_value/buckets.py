"""Creation, list and deletion of buckets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from ..jetstream.errors import JetStreamError, StreamNotFoundError
from ..jetstream.stream import StreamConfig, StreamSource
from .entries import KeyValueConfig, KeyValueStatus, status_of
from .errors import BadBucketError, BucketExistsError, BucketNotFoundError, HistoryTooLargeError, KeyValueError
from .keys import KV_MAX_HISTORY, check_bucket
from .reader import STREAM_PREFIX
from .store import KeyValue

if TYPE_CHECKING:
    from ..jetstream import JetStream

_STREAM_NAME_IN_USE = 10058
_DUPLICATE_WINDOW = timedelta(minutes=2)
_ALL_SUBJECTS = "$KV.*.>"


async def create_key_value(js: JetStream, config: KeyValueConfig) -> KeyValue:
    """Create a bucket.

    Args:
        js: The JetStream context.
        config: The bucket's configuration.

    Returns:
        The bucket, also if it exists with the same configuration.

    Raises:
        InvalidBucketNameError: The name is not valid.
        HistoryTooLargeError: `history` is more than 64.
        BucketExistsError: The bucket exists with another configuration.
    """
    wanted = _stream_config(config)
    try:
        stream = await js.create_stream(wanted)
    except JetStreamError as error:
        if error.error_code == _STREAM_NAME_IN_USE:
            raise BucketExistsError(config.bucket) from error
        raise
    return KeyValue(config.bucket, stream, js)


async def update_key_value(js: JetStream, config: KeyValueConfig) -> KeyValue:
    """Change the configuration of a bucket.

    Args:
        js: The JetStream context.
        config: The whole new configuration.

    Returns:
        The bucket.

    Raises:
        InvalidBucketNameError: The name is not valid.
        HistoryTooLargeError: `history` is more than 64.
        BucketNotFoundError: The bucket does not exist.
    """
    wanted = _stream_config(config)
    try:
        await js.update_stream(**wanted.to_request())
        stream = await js.get_stream(_stream_name(config.bucket))
    except StreamNotFoundError as error:
        raise BucketNotFoundError(config.bucket) from error
    return KeyValue(config.bucket, stream, js)


async def create_or_update_key_value(js: JetStream, config: KeyValueConfig) -> KeyValue:
    """Create a bucket, or change its configuration if it exists.

    Args:
        js: The JetStream context.
        config: The whole configuration.

    Returns:
        The bucket.

    Raises:
        InvalidBucketNameError: The name is not valid.
        HistoryTooLargeError: `history` is more than 64.
    """
    try:
        return await create_key_value(js, config)
    except BucketExistsError:
        return await update_key_value(js, config)


async def key_value(js: JetStream, bucket: str) -> KeyValue:
    """Return an existing bucket.

    Args:
        js: The JetStream context.
        bucket: Name of the bucket.

    Returns:
        The bucket.

    Raises:
        InvalidBucketNameError: The name is not valid.
        BucketNotFoundError: The bucket does not exist.
        BadBucketError: The stream of that name keeps no limited number of revisions.
    """
    check_bucket(bucket)
    try:
        stream = await js.get_stream(_stream_name(bucket))
    except StreamNotFoundError as error:
        raise BucketNotFoundError(bucket) from error
    limit = stream.info.config.max_msgs_per_subject if stream.info else None
    if limit is not None and limit < 1:
        raise BadBucketError(stream.name)
    return KeyValue(bucket, stream, js)


async def key_value_bucket_names(js: JetStream) -> AsyncIterator[str]:
    """Iterate over the names of all buckets.

    Args:
        js: The JetStream context.

    Yields:
        Each name.
    """
    async for name in js.stream_names(subject=_ALL_SUBJECTS):
        if name.startswith(STREAM_PREFIX):
            yield name.removeprefix(STREAM_PREFIX)


async def key_value_buckets(js: JetStream) -> AsyncIterator[KeyValueStatus]:
    """Iterate over the states of all buckets.

    Args:
        js: The JetStream context.

    Yields:
        Each bucket's state.
    """
    async for info in js.list_streams(subject=_ALL_SUBJECTS):
        name = info.config.name or ""
        if name.startswith(STREAM_PREFIX):
            yield status_of(name.removeprefix(STREAM_PREFIX), info)


async def delete_key_value(js: JetStream, bucket: str) -> None:
    """Delete a bucket with all its keys.

    Args:
        js: The JetStream context.
        bucket: Name of the bucket.

    Raises:
        InvalidBucketNameError: The name is not valid.
        BucketNotFoundError: The bucket does not exist.
    """
    check_bucket(bucket)
    try:
        await js.delete_stream(_stream_name(bucket))
    except StreamNotFoundError as error:
        raise BucketNotFoundError(bucket) from error


def _stream_name(bucket: str) -> str:
    return f"{STREAM_PREFIX}{bucket}"


def _stream_config(config: KeyValueConfig) -> StreamConfig:
    """Return the configuration of the bucket's stream."""
    check_bucket(config.bucket)
    if config.history > KV_MAX_HISTORY:
        raise HistoryTooLargeError(f"history {config.history} exceeds maximum of {KV_MAX_HISTORY}")
    marker_ttl = config.limit_marker_ttl
    if marker_ttl is not None and marker_ttl <= timedelta(seconds=1):
        raise KeyValueError("limit_marker_ttl must be longer than 1 second")
    mirror = config.mirror
    return StreamConfig(
        name=_stream_name(config.bucket),
        description=config.description,
        # A mirror has the subjects of its origin.
        subjects=None if mirror else [f"$KV.{config.bucket}.>"],
        max_msgs_per_subject=max(config.history, 1),
        max_bytes=config.max_bytes,
        max_age=config.ttl,
        max_msg_size=config.max_value_size,
        storage=config.storage or "file",
        num_replicas=config.replicas,
        discard="new",
        allow_rollup_hdrs=True,
        allow_msg_ttl=marker_ttl is not None,
        deny_delete=True,
        allow_direct=True,
        # The server rejects a window that is longer than the age.
        duplicate_window=min(config.ttl or _DUPLICATE_WINDOW, _DUPLICATE_WINDOW),
        compression="s2" if config.compression else None,
        placement=config.placement,
        republish=config.republish,
        mirror=None if mirror is None else replace(mirror, name=_bucket_stream(mirror.name)),
        mirror_direct=True if mirror else None,
        sources=None if config.sources is None else [_source(source, config.bucket) for source in config.sources],
        subject_delete_marker_ttl=marker_ttl,
        metadata=config.metadata,
    )


def _bucket_stream(name: str) -> str:
    return name if name.startswith(STREAM_PREFIX) else f"{STREAM_PREFIX}{name}"


def _source(source: StreamSource, bucket: str) -> StreamSource:
    """Return a source whose keys become keys of the bucket; one with transforms of its own is left as it is."""
    if source.subject_transforms is not None:
        return source
    stream = _bucket_stream(source.name)
    origin = stream.removeprefix(STREAM_PREFIX)
    transform = {"src": f"$KV.{origin}.>", "dest": f"$KV.{bucket}.>"}
    return replace(source, name=stream, subject_transforms=[transform])
