"""The durable consumer of a sink, and the columns of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.errors import NotFoundError, SinkError
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.json_rules import JsonRules
from jetarrow.jetstream.literals import RowFormat
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.models.values import moment

if TYPE_CHECKING:
    import pyarrow

# Ack wait in seconds of a consumer that a sink creates.
_ACK_WAIT = 60.0
# Key in the consumer's metadata: the place of the archive.
OWNER = "jetarrow.sink"


async def open_consumer(
    api: JetStreamApi,
    stream: str,
    name: str,
    *,
    target: str,
    subjects: Sequence[str],
    start_seq: int | None,
    start_time: datetime | timedelta | str | None,
    rows: int,
) -> PullSubscription:
    """Return a subscription to the durable consumer, which is created if it does not exist.

    Args:
        api: The API.
        stream: Name of the stream.
        name: Name of the consumer.
        target: Place of the archive, stored in the metadata of a created consumer.
        subjects: Subject filters; empty for all.
        start_seq: First sequence of a created consumer.
        start_time: Instead of `start_seq`: time of its first message.
        rows: Maximum number of rows per commit.

    Raises:
        SinkError: The consumer is not a pull consumer with explicit acks.
    """
    manage = Management(api)
    info = None
    with suppress(NotFoundError):
        info = await manage.consumer_info(stream, name)
    if info is None:
        config = models.ConsumerConfig(
            durable_name=name,
            ack_policy=models.AckPolicy.EXPLICIT,
            ack_wait=_ACK_WAIT,
            max_ack_pending=max(rows, 1000),
            filter_subjects=list(subjects) or None,
            metadata={OWNER: target},
        )
        if start_seq is not None:
            config = config.evolve(deliver_policy="by_start_sequence", opt_start_seq=start_seq)
        elif start_time is not None:
            config = config.evolve(deliver_policy="by_start_time", opt_start_time=moment(start_time))
        info = await manage.add_consumer(stream, config)
    if info.config.deliver_subject or info.config.ack_policy != models.AckPolicy.EXPLICIT:
        raise SinkError(
            f"could not use consumer {name!r} of stream {stream!r}: it must be a pull consumer with ack_policy explicit"
        )
    return PullSubscription(api, stream=stream, consumer=name, info=info)


def decode_batch(
    batch: MessageBatch, *, schema: Any, format: RowFormat, rules: JsonRules, unit: str
) -> pyarrow.RecordBatch:
    """Return a fetched batch with the columns of a read."""
    pa = needs_pyarrow("a sink")
    rows = pa.record_batch(batch if schema is None else batch._decode(schema, "PERMISSIVE", rules, format=format))
    if unit == "us":
        index = rows.schema.get_field_index("timestamp")
        field = rows.schema.field(index).with_type(pa.timestamp("us", "UTC"))
        rows = rows.set_column(index, field, rows.column(index).cast(field.type, safe=False))
    return rows
