"""The error names of nats-py before version 2, which are deprecated: use `jetarrow.errors`.

The names refer to the same classes, so `except ErrTimeout` catches a `TimeoutError`.
"""

from __future__ import annotations

import warnings

from jetarrow.core.errors import AuthorizationError as ErrAuthorization
from jetarrow.core.errors import BadSubjectError as ErrBadSubject
from jetarrow.core.errors import BadSubscriptionError as ErrBadSubscription
from jetarrow.core.errors import BadTimeoutError as ErrBadTimeout
from jetarrow.core.errors import ConnectionClosedError as ErrConnectionClosed
from jetarrow.core.errors import ConnectionDrainingError as ErrConnectionDraining
from jetarrow.core.errors import ConnectionReconnectingError as ErrConnectionReconnecting
from jetarrow.core.errors import DrainTimeoutError as ErrDrainTimeout
from jetarrow.core.errors import Error as NatsError
from jetarrow.core.errors import InvalidCallbackTypeError as ErrInvalidCallbackType
from jetarrow.core.errors import InvalidUserCredentialsError as ErrInvalidUserCredentials
from jetarrow.core.errors import JsonParseError as ErrJsonParse
from jetarrow.core.errors import MaxPayloadError as ErrMaxPayload
from jetarrow.core.errors import NoServersError as ErrNoServers
from jetarrow.core.errors import SecureConnFailedError as ErrSecureConnFailed
from jetarrow.core.errors import SecureConnRequiredError as ErrSecureConnRequired
from jetarrow.core.errors import SecureConnWantedError as ErrSecureConnWanted
from jetarrow.core.errors import SlowConsumerError as ErrSlowConsumer
from jetarrow.core.errors import StaleConnectionError as ErrStaleConnection
from jetarrow.core.errors import TimeoutError as ErrTimeout

__all__ = [
    "ErrAuthorization",
    "ErrBadSubject",
    "ErrBadSubscription",
    "ErrBadTimeout",
    "ErrConnectionClosed",
    "ErrConnectionDraining",
    "ErrConnectionReconnecting",
    "ErrDrainTimeout",
    "ErrInvalidCallbackType",
    "ErrInvalidUserCredentials",
    "ErrJsonParse",
    "ErrMaxPayload",
    "ErrNoServers",
    "ErrSecureConnFailed",
    "ErrSecureConnRequired",
    "ErrSecureConnWanted",
    "ErrSlowConsumer",
    "ErrStaleConnection",
    "ErrTimeout",
    "NatsError",
]

warnings.warn(
    "jetarrow.aio.errors has the names of nats-py before version 2: use the names of jetarrow.errors"
    " (ErrTimeout is TimeoutError there, and so on)",
    DeprecationWarning,
    stacklevel=2,
)
