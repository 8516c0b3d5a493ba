"""Handles of consumers: the code is in `jetarrow.jetstream.consumer`."""

from __future__ import annotations

from jetarrow.jetstream.consumer import Consumer

__all__ = ["Consumer"]
