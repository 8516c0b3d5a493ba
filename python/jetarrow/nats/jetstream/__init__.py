"""JetStream with the names, arguments, results and errors of nats-jetstream, on jetarrow's connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetarrow.nats.jetstream import api as api
from jetarrow.nats.jetstream.account import AccountInfo, AccountLimits, APIStats, Tier
from jetarrow.nats.jetstream.consumer import Consumer, ConsumerInfo, ConsumerReset, OrderedConsumerConfig
from jetarrow.nats.jetstream.errors import (
    ConsumerDeletedError,
    ConsumerInvalidResetError,
    ConsumerNotFoundError,
    ErrorCode,
    JetStreamError,
    JetStreamNotEnabledError,
    JetStreamNotEnabledForAccountError,
    MaximumConsumersLimitError,
    MessageNotFoundError,
    OrderedConsumerClosedError,
    OrderedConsumerResetError,
    StreamNameAlreadyInUseError,
    StreamNotFoundError,
)
from jetarrow.nats.jetstream.jetstream import JetStream
from jetarrow.nats.jetstream.publish_ack import PublishAck
from jetarrow.nats.jetstream.stream import (
    ClusterInfo,
    ExternalStreamSource,
    PeerInfo,
    Placement,
    Republish,
    Stream,
    StreamConfig,
    StreamConsumerLimits,
    StreamConsumerSource,
    StreamInfo,
    StreamMessage,
    StreamSource,
    StreamSourceInfo,
    StreamState,
    SubjectTransform,
)

if TYPE_CHECKING:
    from jetarrow.nats.client import Client

__all__ = [
    "APIStats",
    "AccountInfo",
    "AccountLimits",
    "ClusterInfo",
    "Consumer",
    "ConsumerDeletedError",
    "ConsumerInfo",
    "ConsumerInvalidResetError",
    "ConsumerNotFoundError",
    "ConsumerReset",
    "ErrorCode",
    "ExternalStreamSource",
    "JetStream",
    "JetStreamError",
    "JetStreamNotEnabledError",
    "JetStreamNotEnabledForAccountError",
    "MaximumConsumersLimitError",
    "MessageNotFoundError",
    "OrderedConsumerClosedError",
    "OrderedConsumerConfig",
    "OrderedConsumerResetError",
    "PeerInfo",
    "Placement",
    "PublishAck",
    "Republish",
    "Stream",
    "StreamConfig",
    "StreamConsumerLimits",
    "StreamConsumerSource",
    "StreamInfo",
    "StreamMessage",
    "StreamNameAlreadyInUseError",
    "StreamNotFoundError",
    "StreamSource",
    "StreamSourceInfo",
    "StreamState",
    "SubjectTransform",
    "Tier",
    "new",
]


def new(client: Client, prefix: str = "$JS.API", domain: str | None = None, strict: bool = False) -> JetStream:
    """Returns a JetStream context on a connection. Makes no request.

    Args:
        client: The NATS client.
        prefix: First tokens of the API's subjects, default `$JS.API`.
        domain: JetStream domain, instead of a prefix.
        strict: Raises ValueError for unknown keys of responses. Default: False, which ignores them.
    """
    return JetStream(client, prefix, domain, strict)
