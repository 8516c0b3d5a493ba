"""Lag of a sink: the messages of its stream that are not in its table."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from jetarrow.core.errors import Error
from jetarrow.core.nuid import NUID
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import NotFoundError, StreamRecreatedError
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.models.values import moment
from jetarrow.jetstream.rollback import error_without_marks
from jetarrow.jetstream.sinks.state import State

# Seconds after which the server removes a consumer that only counts, if this process is killed.
_COUNTER_EXPIRES = 5.0


class Start(NamedTuple):
    """Messages that a sink without a position would archive.

    Attributes:
        seq: First sequence; None is the first one of the stream.
        time: Instead of `seq`: time of the first message.
        subjects: Subject filters; empty for all.
        durable: Name of the durable consumer, if the sink uses one.
    """

    seq: int | None = None
    time: datetime | timedelta | str | None = None
    subjects: tuple[str, ...] = ()
    durable: str | None = None


async def count_lag(api: JetStreamApi, stream: str, start: Start, state: State | None) -> int:
    """Return the number of messages that are not archived, as the server counts them.

    Args:
        api: The API.
        stream: Name of the stream.
        start: Range of the sink.
        state: Its position; None if it has none.

    Raises:
        StreamRecreatedError: The stream was created again since the position.
        StreamRolledBackError: The stream ends before the position.
        NotFoundError: The stream does not exist.
    """
    manage = Management(api)
    info = await manage.stream_info(stream)
    if state is not None and state.created != (info.created_raw or ""):
        raise StreamRecreatedError
    if start.durable is not None:
        with suppress(NotFoundError):
            consumer = await manage.consumer_info(stream, start.durable)
            return (consumer.num_pending or 0) + (consumer.num_ack_pending or 0)
    last, done = info.state.last_seq, 0 if state is None else state.last_seq
    if done > last:
        raise error_without_marks(stream, last, done)
    if done == last:
        return 0
    options: dict[str, Any] = {"deliver_policy": "by_start_sequence", "opt_start_seq": max(done + 1, start.seq or 1)}
    if not done and start.time is not None:
        options = {"deliver_policy": "by_start_time", "opt_start_time": moment(start.time)}
    counter = f"jetarrow-lag-{NUID().next().decode()}"
    try:
        found = await manage.add_consumer(
            stream,
            models.ConsumerConfig(
                name=counter,
                ack_policy=models.AckPolicy.NONE,
                filter_subjects=list(start.subjects) or None,
                inactive_threshold=_COUNTER_EXPIRES,
                mem_storage=True,
                num_replicas=1,
                **options,
            ),
        )
    finally:
        with suppress(Error, TimeoutError):
            await manage.delete_consumer(stream, counter)
    return found.num_pending or 0


async def oldest_age(api: JetStreamApi, stream: str, after: int, subjects: Sequence[str]) -> timedelta | None:
    """Return the age of the first message after a sequence; None if there is none.

    Args:
        api: The API.
        stream: Name of the stream.
        after: The sequence.
        subjects: Subject filters; empty for all.
    """
    times = []
    for subject in subjects or (">",):
        with suppress(NotFoundError):
            answer = await api.request(f"STREAM.MSG.GET.{stream}", {"seq": after + 1, "next_by_subj": subject})
            times.append(models.RawStreamMsg.from_response({**answer["message"], "data": None}).time)
    found = [time for time in times if time is not None]
    return max(datetime.now(UTC) - min(found), timedelta(0)) if found else None
