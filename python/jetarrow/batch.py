"""Batches of messages in Arrow columns; re-exports `jetarrow.jetstream.batch`."""

from __future__ import annotations

from jetarrow.jetstream.batch import Columns, MessageBatch

__all__ = ["Columns", "MessageBatch"]
