"""Reading a range of a stream: the code is in `jetarrow.jetstream.read` and `.reader`."""

from __future__ import annotations

from jetarrow.jetstream.reader import DEFAULT_FETCH_BYTES, MOST_FETCH_BYTES, ON_DATA_LOSS, TIMESTAMP_UNITS, Reader

__all__ = ["DEFAULT_FETCH_BYTES", "MOST_FETCH_BYTES", "ON_DATA_LOSS", "TIMESTAMP_UNITS", "Reader"]
