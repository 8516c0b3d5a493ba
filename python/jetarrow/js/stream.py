"""Handles of streams: the code is in `jetarrow.jetstream.stream`."""

from __future__ import annotations

from jetarrow.jetstream.stream import Stream

__all__ = ["Stream"]
