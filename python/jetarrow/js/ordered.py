"""Ordered consumers: the code is in `jetarrow.jetstream.ordered`."""

from __future__ import annotations

from jetarrow.jetstream.ordered import OrderedConsumer

__all__ = ["OrderedConsumer"]
