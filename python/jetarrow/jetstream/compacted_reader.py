"""Reader of a stream that keeps the last messages of each subject."""

from __future__ import annotations

from typing import Any

from jetarrow import _jetarrow
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.reader import Reader


class CompactedReader(Reader):
    """Reader of a compacted stream, whose losses are no warnings. Its spec has `on_data_loss="warn"`."""

    def _process(self, native: Any, item: Any) -> MessageBatch | None:
        return None if isinstance(item, _jetarrow.Loss) else super()._process(native, item)
