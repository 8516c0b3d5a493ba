"""Handles of streams; re-exports `jetarrow.jetstream.stream`."""

from __future__ import annotations

from jetarrow.jetstream.stream import Stream

__all__ = ["Stream"]
