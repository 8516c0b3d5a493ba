"""Pull consumers, under the path of nats-jetstream."""

from jetarrow.nats.jetstream.pull import PullConsumer

__all__ = ["PullConsumer"]
