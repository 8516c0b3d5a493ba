"""Ordered consumers; re-exports `jetarrow.jetstream.ordered`."""

from __future__ import annotations

from jetarrow.jetstream.ordered import OrderedConsumer

__all__ = ["OrderedConsumer"]
