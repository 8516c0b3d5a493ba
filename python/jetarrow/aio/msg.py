"""A message."""

from jetarrow._jetarrow import Msg
from jetarrow.aio._metadata import Metadata, SequencePair

__all__ = ["Metadata", "Msg", "SequencePair"]
