"""A message."""

from jetarrow._jetarrow import Msg
from jetarrow.aio._metadata import Metadata, SequencePair

# What is imported as itself (`X as X`), nats-py has here, too.
from jetarrow.errors import Error as Error
from jetarrow.errors import MsgAlreadyAckdError as MsgAlreadyAckdError
from jetarrow.errors import NotJSMessageError as NotJSMessageError

__all__ = ["Metadata", "Msg", "SequencePair"]
