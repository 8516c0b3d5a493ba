"""What `publish_batch` returns: the code is in `jetarrow.jetstream.publish_result`."""

from __future__ import annotations

from jetarrow.jetstream.publish_result import PublishResult, RowError
from jetarrow.jetstream.progress import Progress, progress_bar

__all__ = ["Progress", "PublishResult", "RowError", "progress_bar"]
