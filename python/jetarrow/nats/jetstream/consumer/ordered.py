"""Ordered consumers, under the path of nats-jetstream."""

from jetarrow.nats.jetstream.errors import OrderedConsumerClosedError, OrderedConsumerResetError
from jetarrow.nats.jetstream.ordered import OrderedConsumer

__all__ = ["OrderedConsumer", "OrderedConsumerClosedError", "OrderedConsumerResetError"]
