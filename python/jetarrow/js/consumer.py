"""Handles of consumers; re-exports `jetarrow.jetstream.consumer`."""

from __future__ import annotations

from jetarrow.jetstream.consumer import Consumer

__all__ = ["Consumer"]
