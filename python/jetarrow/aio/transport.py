"""nats-py's module path of transports. It has no names, because the connection is native."""

from __future__ import annotations

from jetarrow.core.protocol import missing_names as _missing_names

__getattr__ = _missing_names(
    __name__,
    "the connection is native (TCP, TLS and WebSocket, by the scheme of the address); transports cannot be replaced",
)
