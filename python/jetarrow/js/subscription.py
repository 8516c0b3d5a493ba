"""Pull subscriptions: the code is in `jetarrow.jetstream.fetch`."""

from __future__ import annotations

from jetarrow.jetstream.fetch import Messages, PullSubscription

__all__ = ["Messages", "PullSubscription"]
