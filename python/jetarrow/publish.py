"""What `publish_batch` returns: the code is in `jetarrow.jetstream.publish`."""

from __future__ import annotations

from jetarrow.jetstream.publish import Progress, PublishResult, RowError, progress_bar

__all__ = ["Progress", "PublishResult", "RowError", "progress_bar"]
