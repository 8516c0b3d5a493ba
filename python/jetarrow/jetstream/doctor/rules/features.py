"""Rules: settings in use that a server, or this client, does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jetarrow.jetstream import models
from jetarrow.jetstream.doctor.finding import Finding, error, info
from jetarrow.jetstream.doctor.snapshot import Snapshot
from jetarrow.jetstream.doctor.texts import consumer_name, listed, stream_name
from jetarrow.jetstream.doctor.thresholds import Thresholds
from jetarrow.jetstream.server_features import Version, features_of

# Metadata in which a server keeps the API level that a stream or consumer needs (jetstream_versioning.go).
REQUIRED_LEVEL = "_nats.req.level"
# First version of each API level (same file).
_LEVELS: dict[int, Version] = {1: (2, 11), 2: (2, 12), 4: (2, 14)}


def _configs(snapshot: Snapshot) -> Iterator[tuple[str, models.StreamConfig | models.ConsumerConfig]]:
    for stream in snapshot.streams:
        yield stream_name(stream.info), stream.info.config
        for consumer in stream.consumers:
            yield consumer_name(consumer.info), consumer.info.config


def _version(text: str) -> Version | None:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def older_server(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Servers that are older than a setting in use."""
    servers = {server.name: (server.version, server.api_level) for server in snapshot.servers or () if server.jetstream}
    if not servers:
        level = snapshot.account.api.level if snapshot.account else None
        servers = {snapshot.server: (snapshot.version, level)}
    for thing, config in _configs(snapshot):
        needed = features_of(config)
        required = (config.metadata or {}).get(REQUIRED_LEVEL, "0")
        wanted = int(required) if required.isdecimal() else 0
        older = {}
        for name, (text, level) in servers.items():
            version = _version(text)
            lacks = [feature for feature, since in needed.items() if version and version < since]
            # Servers before 2.11 do not report a level, because they have none.
            has_level = level is not None or (version is not None and version < (2, 11))
            if lacks or (has_level and (level or 0) < wanted):
                older[name] = (text, lacks)
        if not older:
            continue
        lacking = sorted({feature for _, features in older.values() for feature in features})
        shown = f"settings {listed(lacking)}" if lacking else f"API level {wanted}"
        since = max([needed[feature] for feature in lacking] or [_LEVELS.get(wanted, (0, 0))])
        yield error(
            thing,
            f"it uses {shown}, which {listed(sorted(older))} does not have",
            evidence="; ".join(f"{name}: nats-server {text}" for name, (text, _) in sorted(older.items())),
            remedy=f"upgrade to nats-server {since[0]}.{since[1]} or newer" if any(since) else "upgrade these servers",
        )


def older_client(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Settings that this version of jetarrow does not have."""
    for thing, config in _configs(snapshot):
        unknown: dict[str, Any] = config.__dict__.get("_extra") or {}
        if unknown:
            yield info(
                thing,
                "it has settings that this version of jetarrow does not have; they are kept on updates",
                evidence=listed(sorted(unknown)),
                remedy="upgrade jetarrow",
            )


RULES = (older_server, older_client)
