"""Pull consumers, under the path of nats-jetstream."""

from jetarrow.nats.jetstream.pull import PullConsumer
from jetarrow.nats.jetstream.pull_batch import PullMessageBatch
from jetarrow.nats.jetstream.pull_stream import PullMessageStream

__all__ = ["PullConsumer", "PullMessageBatch", "PullMessageStream"]
