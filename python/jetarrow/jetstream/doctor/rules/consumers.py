"""Rules: consumers that are unused, late, paused or limited."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from jetarrow.jetstream import models
from jetarrow.jetstream.doctor.finding import Finding, error, info, warning
from jetarrow.jetstream.doctor.snapshot import ConsumerFacts, Snapshot, StreamFacts
from jetarrow.jetstream.doctor.texts import command, consumer_name, counted, listed, span, stream_name
from jetarrow.jetstream.doctor.thresholds import Thresholds


def _all(snapshot: Snapshot) -> Iterator[tuple[StreamFacts, ConsumerFacts]]:
    for stream in snapshot.streams:
        for consumer in stream.consumers:
            yield stream, consumer


def _idle(snapshot: Snapshot, consumer: models.ConsumerInfo) -> float:
    """Seconds since the last delivery, acknowledgement, or its creation, by the server's clock."""
    times = [at.last_active for at in (consumer.delivered, consumer.ack_floor) if at and at.last_active]
    last = max([_aware(consumer.created), *(_aware(time) for time in times)])
    return (_aware(consumer.ts or snapshot.now) - last).total_seconds()


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.astimezone()


def _is_used(consumer: models.ConsumerInfo) -> bool:
    """Whether a client waits for messages."""
    return bool(consumer.push_bound if consumer.config.deliver_subject else consumer.num_waiting)


def without_interest(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Durable consumers from which no client receives messages."""
    for stream, consumer in _all(snapshot):
        one = consumer.info
        if not one.config.durable_name or one.paused or _is_used(one):
            continue
        idle = _idle(snapshot, one)
        is_push = bool(one.config.deliver_subject)
        if not is_push and idle < limits.idle:
            continue
        keeps = stream.info.config.retention != models.RetentionPolicy.LIMITS
        then = "; the stream keeps messages for it" if keeps else ""
        problem = "push consumer without a subscriber" if is_push else "pull consumer without activity"
        where = f"no subscription on {one.config.deliver_subject}" if is_push else "no waiting requests"
        left = counted((one.num_pending or 0) + (one.num_ack_pending or 0), "unprocessed message")
        yield warning(
            consumer_name(one),
            f"{problem}{then}",
            evidence=f"{where}, last activity {span(idle)} ago, {left}",
            remedy=f"start its client, or remove it: {command('rm', one)}",
        )


def ephemeral(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Ephemeral consumers whose client is gone."""
    for stream in snapshot.streams:
        left = [
            one.info
            for one in stream.consumers
            if not one.info.config.durable_name
            and not _is_used(one.info)
            and not one.info.paused
            and _idle(snapshot, one.info) >= limits.ephemeral_idle
        ]
        if not left:
            continue
        oldest = max(_idle(snapshot, one) for one in left)
        kept = max(one.config.inactive_threshold or 0.0 for one in left)
        yield warning(
            stream_name(stream.info),
            f"{counted(len(left), 'ephemeral consumer')} left behind by clients that ended",
            evidence=f"{listed([one.name for one in left])}; idle for up to {span(oldest)},"
            f" inactive_threshold up to {span(kept)}",
            remedy=f"remove them, as {command('rm', left[0])}; end subscriptions with unsubscribe(), and set a"
            " shorter inactive_threshold",
        )


def lag(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Consumers whose oldest unprocessed message is old."""
    for stream, consumer in _all(snapshot):
        behind = (consumer.behind or timedelta(0)).total_seconds()
        max_age = stream.info.config.max_age or 0.0
        expires = bool(max_age) and behind >= limits.full * max_age
        if behind < limits.lag and not expires:
            continue
        one = consumer.info
        evidence = (
            f"oldest unprocessed message {span(behind)} old, {one.num_pending or 0:,} to deliver,"
            f" {one.num_ack_pending or 0:,} unacknowledged"
        )
        if expires:
            yield error(
                consumer_name(one),
                "the consumer lags, and its oldest messages are about to be deleted by max_age",
                evidence=f"{evidence}, max_age {span(max_age)}",
                remedy="add clients to the consumer, or raise max_age of the stream",
            )
        else:
            yield warning(
                consumer_name(one),
                f"the consumer lags by more than {span(limits.lag)}",
                evidence=evidence,
                remedy="add clients to the consumer, or see its clients' errors: a message that is never acknowledged"
                " counts as unprocessed",
            )


def paused(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Paused consumers."""
    for _, consumer in _all(snapshot):
        one = consumer.info
        if one.paused:
            yield info(
                consumer_name(one),
                "the consumer is paused",
                evidence=f"paused for another {span((one.pause_remaining or 0) / 1e9)}",
                remedy=f"resume it: {command('resume', one)}",
            )


def max_ack_pending(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Consumers whose `max_ack_pending` is reached, or smaller than a batch."""
    for _, consumer in _all(snapshot):
        one, config = consumer.info, consumer.info.config
        limit, unacked = config.max_ack_pending or 0, one.num_ack_pending or 0
        if limit <= 0 or config.ack_policy == models.AckPolicy.NONE:
            continue
        batch = config.max_request_batch or 0
        # At the beginning and at the end of the measurement, because a busy consumer reaches it for moments.
        later = consumer.acks.later if consumer.acks else one
        if min(unacked, later.num_ack_pending or 0) >= limit and one.num_pending:
            yield warning(
                consumer_name(one),
                "max_ack_pending is reached: nothing is delivered until messages are acknowledged",
                evidence=f"{unacked:,} unacknowledged of {limit:,}, {one.num_pending:,} to deliver",
                remedy="acknowledge sooner, add clients, or raise max_ack_pending",
            )
        elif not config.deliver_subject and limit < (batch or limits.batch):
            source = "its max_request_batch" if batch else "the batch of a fetch"
            yield warning(
                consumer_name(one),
                f"max_ack_pending is smaller than {source}: such a batch is delivered in parts, as messages are"
                " acknowledged",
                evidence=f"max_ack_pending {limit:,}, batch {batch or limits.batch:,}",
                remedy=f"js.update_consumer({one.stream_name!r}, name={one.name!r}, max_ack_pending=N), with N the"
                " messages of all concurrent batches, or fetch smaller batches",
            )


RULES = (without_interest, ephemeral, lag, paused, max_ack_pending)
