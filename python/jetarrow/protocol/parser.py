"""The names of the server's protocol messages, under nats-py's module path. The native core parses them."""

from __future__ import annotations

from jetarrow.core.errors import ProtocolError
from jetarrow.core.protocol import AUTHORIZATION_VIOLATION, PERMISSIONS_ERR, STALE_CONNECTION
from jetarrow.core.protocol import missing_names as _missing_names

__all__ = ["AUTHORIZATION_VIOLATION", "PERMISSIONS_ERR", "STALE_CONNECTION", "ErrProtocol"]

INFO_OP = b"INFO"
CONNECT_OP = b"CONNECT"
PUB_OP = b"PUB"
MSG_OP = b"MSG"
HMSG_OP = b"HMSG"
SUB_OP = b"SUB"
UNSUB_OP = b"UNSUB"
PING_OP = b"PING"
PONG_OP = b"PONG"
OK_OP = b"+OK"
ERR_OP = b"-ERR"

# Raised for server data that is not NATS protocol.
ErrProtocol = ProtocolError

__getattr__ = _missing_names(__name__, "the native core parses the server's data")
