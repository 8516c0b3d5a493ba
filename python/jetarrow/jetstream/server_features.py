"""Features that need a newer server, which are rejected at once: an older server ignores a setting without an error."""

from __future__ import annotations

from jetarrow.core.errors import UnsupportedError
from jetarrow.core.servers import ServerVersion
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi

Version = tuple[int, int]

_STREAM_FIELDS: dict[str, Version] = {
    "allow_msg_ttl": (2, 11),
    "subject_delete_marker_ttl": (2, 11),
    "allow_atomic": (2, 12),
    "allow_msg_counter": (2, 12),
    "allow_msg_schedules": (2, 12),
    "persist_mode": (2, 12),
    "allow_batched": (2, 14),
}
_CONSUMER_FIELDS: dict[str, Version] = {
    "pause_until": (2, 11),
    "priority_groups": (2, 11),
    "priority_policy": (2, 11),
    "priority_timeout": (2, 11),
}


def require_version(api: JetStreamApi, feature: str, version: Version) -> None:
    """Rejects a feature that the server does not have.

    Args:
        api: The API. With the default prefix, the version of the connected server is checked, without a request. With
            another prefix another server may answer, so nothing is checked.
        feature: The feature, for the error.
        version: Major and minor version of the first server with the feature.

    Raises:
        UnsupportedError: The server is older.
    """
    text = api.session.native.server_version
    try:
        server = ServerVersion(text)
        has = (server.major, server.minor)
    except ValueError:
        return
    if api.prefix == models.DEFAULT_PREFIX and has < version:
        raise UnsupportedError(feature, f"nats-server {version[0]}.{version[1]} or newer", f"this is {text}")


def require_fields(api: JetStreamApi, config: models.StreamConfig | models.ConsumerConfig) -> None:
    """Rejects settings that the server does not have; it would ignore them without an error.

    Raises:
        UnsupportedError: The server is too old for a setting.
    """
    for feature, version in features_of(config).items():
        require_version(api, feature, version)


def features_of(config: models.StreamConfig | models.ConsumerConfig) -> dict[str, Version]:
    """Return the settings in use that need a newer server, as `name=value`, with the first version that has them.

    Args:
        config: The configuration of a stream or a consumer.
    """
    fields = _STREAM_FIELDS if isinstance(config, models.StreamConfig) else _CONSUMER_FIELDS
    found = {}
    for name, version in fields.items():
        value = getattr(config, name)
        if value is models.PriorityPolicy.PRIORITIZED:
            version = (2, 12)
        if value and value != models.PersistMode.DEFAULT:
            found[f"{name}={value!s}"] = version
    return found
