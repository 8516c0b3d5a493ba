"""Reading a range of a stream; re-exports `jetarrow.jetstream.reader`."""

from __future__ import annotations

from typing import get_args

from jetarrow.jetstream.literals import OnDataLoss, TimestampUnit
from jetarrow.jetstream.read_spec import DEFAULT_FETCH_BYTES, MOST_FETCH_BYTES
from jetarrow.jetstream.reader import Reader

ON_DATA_LOSS = get_args(OnDataLoss)
TIMESTAMP_UNITS = get_args(TimestampUnit)

__all__ = ["DEFAULT_FETCH_BYTES", "MOST_FETCH_BYTES", "ON_DATA_LOSS", "TIMESTAMP_UNITS", "Reader"]
