"""A message with blocking methods."""

from __future__ import annotations

from jetarrow._jetarrow import SyncMsg as Msg

__all__ = ["Msg"]
