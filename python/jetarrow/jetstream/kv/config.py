"""Conversion of a bucket's configuration to that of its stream (ADR-8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jetarrow.core.arguments import whole
from jetarrow.core.errors import UnsupportedError
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import KeyHistoryTooLargeError
from jetarrow.jetstream.kv.names import KV_MAX_HISTORY, KV_PRE_TEMPLATE, STREAM_PREFIX, bucket_stream
from jetarrow.jetstream.server_features import require_version

# Duplicate window of the stream in seconds, unless values have a shorter maximum age (ADR-8).
DUPLICATE_WINDOW = 120.0


def stream_config(api: JetStreamApi, config: models.KeyValueConfig) -> models.StreamConfig:
    """Return the stream configuration of a bucket.

    Raises:
        InvalidBucketNameError: The name is not valid.
        KeyHistoryTooLargeError: `history` is larger than 64.
    """
    name = bucket_stream(config.bucket)
    if (whole("history", config.history) or 1) > KV_MAX_HISTORY:
        raise KeyHistoryTooLargeError
    mirror = None if config.mirror is None else config.mirror.evolve(name=_stream_name(config.mirror.name))
    sources = None if config.sources is None else [_source(source, config.bucket) for source in config.sources]
    compression = models.StoreCompression.S2 if config.compression is True else config.compression or None
    return models.StreamConfig(
        name=name,
        description=config.description,
        # A mirror has the subjects of its origin.
        subjects=None if mirror else [KV_PRE_TEMPLATE.format(bucket=config.bucket) + ">"],
        max_msgs_per_subject=config.history or 1,
        max_bytes=config.max_bytes or None,
        max_msg_size=config.max_value_size or None,
        max_age=config.ttl,
        max_consumers=-1,
        max_msgs=-1,
        duplicate_window=min(config.ttl or DUPLICATE_WINDOW, DUPLICATE_WINDOW),
        discard=models.DiscardPolicy.NEW,
        storage=config.storage,
        num_replicas=config.replicas or 1,
        placement=config.placement,
        compression=compression,
        metadata=config.metadata,
        republish=config.republish,
        mirror=mirror,
        mirror_direct=True if mirror else None,
        sources=sources,
        allow_rollup_hdrs=True,
        deny_delete=True,
        allow_direct=config.direct is not False,
        # As in nats-py, so that `create(msg_ttl=)` works in every bucket.
        allow_msg_ttl=_has_ttl(api) or None,
        subject_delete_marker_ttl=config.limit_marker_ttl or None,
    )


def changed_config(
    api: JetStreamApi, bucket: str, there: models.StreamConfig, fields: Mapping[str, Any]
) -> models.StreamConfig:
    """Return the stream configuration of an existing bucket with some fields of the bucket changed."""
    before = models.KeyValueConfig(
        bucket=bucket,
        description=there.description,
        max_value_size=there.max_msg_size,
        history=there.max_msgs_per_subject,
        ttl=there.max_age,
        max_bytes=there.max_bytes,
        storage=there.storage,
        replicas=there.num_replicas or 1,
        placement=there.placement,
        republish=there.republish,
        direct=there.allow_direct,
        limit_marker_ttl=there.subject_delete_marker_ttl,
        compression=there.compression,
        metadata=there.metadata,
        mirror=there.mirror,
    )
    one, other = stream_config(api, before), stream_config(api, before.evolve(**fields))
    names = vars(other).keys() - {"_extra", "_raw"}
    return there.evolve(**{name: getattr(other, name) for name in names if getattr(one, name) != getattr(other, name)})


def same_bucket(config: models.KeyValueConfig, asked: models.StreamConfig, there: models.StreamConfig) -> bool:
    """Return whether an existing bucket has the requested configuration. Clients add different fields of their own."""
    one, other = asked.as_dict(), there.as_dict()
    names = one.keys() - {"allow_msg_ttl", "duplicate_window", "metadata"}
    if config.direct is None:
        names -= {"allow_direct"}
    unset: tuple[object, ...] = (None, 0, -1, False, "none", [])
    same = all(one[name] == other.get(name) or (one[name] in unset and other.get(name) in unset) for name in names)
    return same and (asked.metadata or {}).items() <= (there.metadata or {}).items()


def _has_ttl(api: JetStreamApi) -> bool:
    try:
        require_version(api, "allow_msg_ttl", (2, 11))
    except UnsupportedError:
        return False
    return True


def _stream_name(bucket: str) -> str:
    return bucket if bucket.startswith(STREAM_PREFIX) else bucket_stream(bucket)


def _source(source: models.StreamSource, bucket: str) -> models.StreamSource:
    """Return a bucket as a source whose keys are mapped to keys of this bucket."""
    name = _stream_name(source.name)
    origin = name.removeprefix(STREAM_PREFIX)
    if source.subject_transforms is not None or origin == bucket:
        return source.evolve(name=name)
    pre = KV_PRE_TEMPLATE.format
    transform = models.SubjectTransform(src=pre(bucket=origin) + ">", dest=pre(bucket=bucket) + ">")
    return source.evolve(name=name, subject_transforms=[transform])
