"""Configuration, state and protocols of consumers."""

from jetarrow.nats.jetstream.consumer_config import (
    AckPolicy,
    ConsumerConfig,
    ConsumerInfo,
    ConsumerReset,
    DeliverPolicy,
    OrderedConsumerConfig,
    ReplayPolicy,
)
from jetarrow.nats.jetstream.consumer_protocols import Consumer, MessageBatch, MessageStream

__all__ = [
    "AckPolicy",
    "Consumer",
    "ConsumerConfig",
    "ConsumerInfo",
    "ConsumerReset",
    "DeliverPolicy",
    "MessageBatch",
    "MessageStream",
    "OrderedConsumerConfig",
    "ReplayPolicy",
]
