"""Pull subscriptions; re-exports `jetarrow.jetstream.fetch`."""

from __future__ import annotations

from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.messages import Messages

__all__ = ["Messages", "PullSubscription"]
