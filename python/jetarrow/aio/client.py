"""The client, under nats-py's module path."""

from __future__ import annotations

# Imports of the form `X as X` exist in nats-py's module, too.
from jetarrow._jetarrow import Msg as Msg
from jetarrow._jetarrow import __version__ as __version__
from jetarrow.client import Client
from jetarrow.core import errors as errors
from jetarrow.core.errors import InvalidUserCredentialsError as ErrInvalidUserCredentials
from jetarrow.core.errors import StaleConnectionError as ErrStaleConnection
from jetarrow.core.events import Callback, ErrorCallback
from jetarrow.core.nuid import NUID as NUID
from jetarrow.core.options import (
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_DRAIN_TIMEOUT,
    DEFAULT_INBOX_PREFIX,
    DEFAULT_MAX_FLUSHER_QUEUE_SIZE,
    DEFAULT_MAX_OUTSTANDING_PINGS,
    DEFAULT_MAX_RECONNECT_ATTEMPTS,
    DEFAULT_PENDING_SIZE,
    DEFAULT_PING_INTERVAL,
    DEFAULT_RECONNECT_TIME_WAIT,
    CredentialCallback,
    Credentials,
    JWTCallback,
    SignatureCallback,
    TokenCallback,
)
from jetarrow.core.protocol import AUTHORIZATION_VIOLATION as AUTHORIZATION_VIOLATION
from jetarrow.core.protocol import CTRL_STATUS as CTRL_STATUS
from jetarrow.core.protocol import NO_RESPONDERS_STATUS as NO_RESPONDERS_STATUS
from jetarrow.core.protocol import PERMISSIONS_ERR as PERMISSIONS_ERR
from jetarrow.core.protocol import STALE_CONNECTION as STALE_CONNECTION
from jetarrow.core.publish import DEFAULT_FLUSH_TIMEOUT
from jetarrow.core.servers import RawCredentials, ReconnectToServerHandler, Server, ServerVersion, Srv
from jetarrow.core.subscription import DEFAULT_SUB_PENDING_BYTES_LIMIT as DEFAULT_SUB_PENDING_BYTES_LIMIT
from jetarrow.core.subscription import DEFAULT_SUB_PENDING_MSGS_LIMIT as DEFAULT_SUB_PENDING_MSGS_LIMIT
from jetarrow.core.subscription import Subscription as Subscription

__all__ = [
    "DEFAULT_CONNECT_TIMEOUT",
    "DEFAULT_DRAIN_TIMEOUT",
    "DEFAULT_FLUSH_TIMEOUT",
    "DEFAULT_INBOX_PREFIX",
    "DEFAULT_MAX_FLUSHER_QUEUE_SIZE",
    "DEFAULT_MAX_OUTSTANDING_PINGS",
    "DEFAULT_MAX_RECONNECT_ATTEMPTS",
    "DEFAULT_PENDING_SIZE",
    "DEFAULT_PING_INTERVAL",
    "DEFAULT_RECONNECT_TIME_WAIT",
    "Callback",
    "Client",
    "CredentialCallback",
    "Credentials",
    "ErrInvalidUserCredentials",
    "ErrStaleConnection",
    "ErrorCallback",
    "JWTCallback",
    "RawCredentials",
    "ReconnectToServerHandler",
    "Server",
    "ServerVersion",
    "SignatureCallback",
    "Srv",
    "TokenCallback",
]
