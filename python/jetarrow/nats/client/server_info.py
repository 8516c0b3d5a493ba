"""State of a connection: its status, its counters, and what the server announced."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any


class ClientStatus(Enum):
    """Phase of a connection."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    DRAINING = "draining"
    DRAINED = "drained"
    CLOSING = "closing"
    CLOSED = "closed"


# Values of fields that the server leaves out, and the names that differ in its INFO.
_ABSENT = {"auth_required": False, "tls_required": False, "tls_verify": False, "max_payload": 1024 * 1024, "proto": 1}
_NAMES = {"go_version": "go"}


@dataclass
class ServerInfo:
    """The INFO of the server."""

    server_id: str
    version: str
    go_version: str
    host: str
    port: int
    headers: bool
    auth_required: bool
    tls_required: bool
    tls_verify: bool
    max_payload: int
    proto: int
    client_id: int | None = None
    connect_urls: list[str] | None = None
    jetstream: bool | None = None
    nonce: str | None = None

    @classmethod
    def from_protocol(cls, info: dict[str, Any]) -> ServerInfo:
        """Converts the INFO of the protocol.

        Args:
            info: Its fields by name.

        Raises:
            KeyError: A field is missing that each server has.
        """
        given: dict[str, Any] = {}
        for field in fields(cls):
            name = _NAMES.get(field.name, field.name)
            optional = field.name in _ABSENT or field.default is not MISSING
            # A server leaves out what is empty.
            given[field.name] = info.get(name) or _ABSENT.get(field.name) if optional else info[name]
        return cls(**given)


@dataclass(slots=True)
class ClientStatistics:
    """Counters of a connection.

    Args:
        in_messages: Received messages.
        out_messages: Published messages.
        in_bytes: Their payload bytes.
        out_bytes: Likewise.
        reconnects: Reconnects so far.
    """

    in_messages: int = 0
    out_messages: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    reconnects: int = 0
