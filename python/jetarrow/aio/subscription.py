"""Subscriptions, under nats-py's path."""

from __future__ import annotations

# What is imported as itself (`X as X`), nats-py has here, too.
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
