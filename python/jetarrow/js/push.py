"""Push subscriptions; re-exports `jetarrow.jetstream.push`."""

from __future__ import annotations

from jetarrow.jetstream.push import PushSubscription

__all__ = ["PushSubscription"]
