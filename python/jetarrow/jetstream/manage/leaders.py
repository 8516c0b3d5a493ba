"""Leaders and replicas of streams and consumers."""

from __future__ import annotations

from typing import Any

from jetarrow.core.arguments import text
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.models.values import checked_name
from jetarrow.jetstream.server_features import require_version


def _placement(api: JetStreamApi, preferred: str | None) -> dict[str, Any] | None:
    if preferred is None:
        return None
    if not text("preferred", preferred):
        raise ValueError("preferred must not be empty: leave it out to let the servers elect a leader")
    require_version(api, f"step_down(preferred={preferred!r})", (2, 11))
    return {"placement": {"preferred": preferred}}


async def step_down_stream(api: JetStreamApi, stream: str, preferred: str | None) -> None:
    """Makes the leader of a stream step down; see `Stream.step_down`."""
    await api.request(f"STREAM.LEADER.STEPDOWN.{checked_name('stream', stream)}", _placement(api, preferred))


async def step_down_consumer(api: JetStreamApi, stream: str, consumer: str, *, preferred: str | None) -> None:
    """Makes the leader of a consumer step down; see `Consumer.step_down`."""
    verb = f"CONSUMER.LEADER.STEPDOWN.{checked_name('stream', stream)}.{checked_name('consumer', consumer)}"
    await api.request(verb, _placement(api, preferred))


async def remove_stream_peer(api: JetStreamApi, stream: str, peer: str) -> None:
    """Removes a replica of a stream; see `Stream.remove_peer`."""
    if not text("peer", peer):
        raise ValueError("peer must not be empty: pass the name of a server, as in info().cluster.replicas")
    await api.request(f"STREAM.PEER.REMOVE.{checked_name('stream', stream)}", {"peer": peer})
