"""Facts of all servers, from the system account."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jetarrow.core.errors import Error
from jetarrow.core.request import open_request
from jetarrow.core.session import Session
from jetarrow.jetstream.doctor.snapshot import Clock, ServerFacts, Usage
from jetarrow.jetstream.doctor.texts import server_name
from jetarrow.jetstream.models.values import from_rfc3339

VARZ = "$SYS.REQ.SERVER.PING.VARZ"
# Seconds without a further response after which all servers have answered, and for the first one.
_STALL = 0.5
_FIRST = 2.0
# Listeners with a certificate, by their key in the response; the client listener has none.
_LISTENERS = {
    "": "clients",
    "cluster": "routes",
    "gateway": "gateways",
    "leaf": "leaf nodes",
    "websocket": "websockets",
}


def client_now() -> datetime:
    """The time of this client."""
    return datetime.now(UTC)


async def servers(session: Session) -> tuple[ServerFacts, ...] | None:
    """Request the state of all servers.

    Args:
        session: A session of the system account.

    Returns:
        A fact sheet per server, sorted by name; None if no server answers, because the account is another one.
    """
    found: list[ServerFacts] = []
    try:
        sent = client_now()
        async with open_request(session, VARZ, b"") as sub:
            while True:
                msg = await sub.next_msg(_STALL if found else _FIRST)
                if not msg.data:
                    return None
                answer = json.loads(msg.data)
                if "data" in answer:
                    found.append(_facts(answer, sent, client_now()))
    except (Error, ValueError):
        # A timeout: no further server.
        return tuple(sorted(found, key=lambda server: server.name)) or None


def _facts(answer: Mapping[str, Any], sent: datetime, received: datetime) -> ServerFacts:
    varz = answer["data"]
    jetstream = varz.get("jetstream") or {}
    config, stats, meta = (jetstream.get(key) or {} for key in ("config", "stats", "meta"))
    return ServerFacts(
        name=server_name(varz.get("server_name", ""), varz.get("server_id", "")),
        version=varz.get("version", ""),
        clock=clock_of(_time(varz.get("now")), sent, received),
        uptime=varz.get("uptime", ""),
        jetstream=bool(config),
        api_level=(stats.get("api") or {}).get("level"),
        sync_interval=config["sync_interval"] / 1e9 if config.get("sync_interval") else None,
        sync_always=bool(config.get("sync_always")),
        file=_usage(stats, config, used="storage", limit="max_storage"),
        memory=_usage(stats, config, used="memory", limit="max_memory"),
        slow=_slow(varz),
        certificates=_certificates(varz),
        # The server reports `offline` after a shutdown only. A killed server is not current.
        late_peers=frozenset(
            one["name"] for one in meta.get("replicas") or () if one.get("offline") or not one.get("current")
        ),
        has_meta_leader=not meta or bool(meta.get("leader")),
    )


def clock_of(time: datetime | None, sent: datetime, received: datetime) -> Clock:
    """Return the bounds of a server's clock minus the client's.

    Args:
        time: The server's time in its response; None allows no statement.
        sent: The client's time before the request.
        received: The client's time after the response.
    """
    if time is None:
        return Clock(0.0, 0.0)
    return Clock((time - received).total_seconds(), (time - sent).total_seconds())


def _time(text: str | None) -> datetime | None:
    return from_rfc3339(text) if text else None


def _usage(stats: Mapping[str, Any], config: Mapping[str, Any], *, used: str, limit: str) -> Usage:
    allowed, reserved = int(config.get(limit) or 0), int(stats.get(f"reserved_{used}") or 0)
    # Servers before 2.11 reserve -1 for a stream without max_bytes, and send the sum as an unsigned number.
    return Usage(int(stats.get(used) or 0), reserved if reserved < 2**63 else 0, max(allowed, 0))


def _slow(varz: Mapping[str, Any]) -> dict[str, int]:
    by_kind = {kind: int(count) for kind, count in (varz.get("slow_consumer_stats") or {}).items()}
    return by_kind or {"clients": int(varz.get("slow_consumers") or 0)}


def _certificates(varz: Mapping[str, Any]) -> dict[str, datetime]:
    found = {}
    for key, listener in _LISTENERS.items():
        block = varz.get(key) if key else varz
        time = _time((block or {}).get("tls_cert_not_after"))
        # Year 1: the listener has no certificate.
        if time is not None and time.year > 1:
            found[listener] = time
    return found
