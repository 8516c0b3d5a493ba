"""Subscriptions, under nats-py's module path."""

from __future__ import annotations

# Imports of the form `X as X` exist in nats-py's module, too.
from jetarrow._jetarrow import Msg as Msg
from jetarrow.core import errors as errors
from jetarrow.core.errors import SlowConsumerError as SlowConsumerError
from jetarrow.core.subscription import (
    DEFAULT_SUB_PENDING_BYTES_LIMIT,
    DEFAULT_SUB_PENDING_MSGS_LIMIT,
    Messages,
    Subscription,
)

__all__ = ["DEFAULT_SUB_PENDING_BYTES_LIMIT", "DEFAULT_SUB_PENDING_MSGS_LIMIT", "Messages", "Subscription"]
