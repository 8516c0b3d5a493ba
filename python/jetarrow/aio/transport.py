"""nats-py's path of its transports. Nothing of it can be used here: the connection is native."""

from __future__ import annotations

from jetarrow.core.protocol import missing_names as _missing_names

__getattr__ = _missing_names(
    __name__,
    "the connection is native (TCP, TLS and WebSocket by the address's scheme); no other transport can take its place",
)
