"""The result of `publish_batch`; re-exports `jetarrow.jetstream.publish_result` and `.progress`."""

from __future__ import annotations

from jetarrow.jetstream.progress import Progress, progress_bar
from jetarrow.jetstream.publish_result import PartialPublish, PublishResult, RowError

__all__ = ["PartialPublish", "Progress", "PublishResult", "RowError", "progress_bar"]
