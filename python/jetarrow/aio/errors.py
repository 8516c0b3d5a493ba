"""The error names of nats-py before version 2, deprecated there too: use `jetarrow.errors`.

They are the same classes, so `except ErrTimeout` catches a `TimeoutError`.
"""

from __future__ import annotations

import warnings

from jetarrow.errors import AuthorizationError as ErrAuthorization
from jetarrow.errors import BadSubjectError as ErrBadSubject
from jetarrow.errors import BadSubscriptionError as ErrBadSubscription
from jetarrow.errors import BadTimeoutError as ErrBadTimeout
from jetarrow.errors import ConnectionClosedError as ErrConnectionClosed
from jetarrow.errors import ConnectionDrainingError as ErrConnectionDraining
from jetarrow.errors import ConnectionReconnectingError as ErrConnectionReconnecting
from jetarrow.errors import DrainTimeoutError as ErrDrainTimeout
from jetarrow.errors import Error as NatsError
from jetarrow.errors import InvalidCallbackTypeError as ErrInvalidCallbackType
from jetarrow.errors import InvalidUserCredentialsError as ErrInvalidUserCredentials
from jetarrow.errors import JsonParseError as ErrJsonParse
from jetarrow.errors import MaxPayloadError as ErrMaxPayload
from jetarrow.errors import NoServersError as ErrNoServers
from jetarrow.errors import SecureConnFailedError as ErrSecureConnFailed
from jetarrow.errors import SecureConnRequiredError as ErrSecureConnRequired
from jetarrow.errors import SecureConnWantedError as ErrSecureConnWanted
from jetarrow.errors import SlowConsumerError as ErrSlowConsumer
from jetarrow.errors import StaleConnectionError as ErrStaleConnection
from jetarrow.errors import TimeoutError as ErrTimeout

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
    "jetarrow.aio.errors has the names of nats-py before version 2: use those of jetarrow.errors"
    " (ErrTimeout is TimeoutError there, and so on)",
    DeprecationWarning,
    stacklevel=2,
)
