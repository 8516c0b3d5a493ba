"""A message, under nats-py's module path."""

from __future__ import annotations

# Imports of the form `X as X` exist in nats-py's module, too.
from jetarrow._jetarrow import Msg
from jetarrow.core.errors import Error as Error
from jetarrow.core.errors import MsgAlreadyAckdError as MsgAlreadyAckdError
from jetarrow.core.errors import NotJSMessageError as NotJSMessageError
from jetarrow.core.metadata import Metadata, SequencePair

__all__ = ["Metadata", "Msg", "SequencePair"]
