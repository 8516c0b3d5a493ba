"""Rules: time between delivery and acknowledgement, compared with `ack_wait`.

The server reports that time only for consumers with `sample_freq`; such a sample is proof. For others the mean is
estimated as unacknowledged messages divided by acknowledgements per second (Little's law). Redeliveries count as
acknowledgements there, so the estimate is a lower bound. Redelivered messages alone are a sign: a rejected message or a
failed client causes them, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from jetarrow.jetstream import models
from jetarrow.jetstream.doctor.finding import Finding, info, warning
from jetarrow.jetstream.doctor.snapshot import AckTimes, Snapshot
from jetarrow.jetstream.doctor.texts import consumer_name, counted, span
from jetarrow.jetstream.doctor.thresholds import Thresholds

# Fewest acknowledgements for an estimate.
FEWEST_ACKS = 10
# Part and number of redelivered messages, among the unacknowledged, from which they are a warning.
MANY_REDELIVERED = 0.1
FEWEST_REDELIVERED = 10
# The server's default of `ack_wait`, in seconds (JsAckWaitDefault in its consumer.go).
DEFAULT_ACK_WAIT = 30.0

_REMEDY = "raise ack_wait, fetch smaller batches, or send in_progress() while messages are processed"


def ack_wait_of(config: models.ConsumerConfig) -> float:
    """Return the seconds after which the first redelivery is due."""
    return float(min([*(config.backoff or ()), config.ack_wait or DEFAULT_ACK_WAIT]))


def estimated_time(first: models.ConsumerInfo, acks: AckTimes) -> tuple[float, int] | None:
    """Estimate the mean time from delivery to acknowledgement.

    Args:
        first: The consumer at the beginning of the measurement.
        acks: The measurement.

    Returns:
        Seconds and the number of acknowledgements; None with too few of them.
    """
    if first.delivered is None or acks.later.delivered is None:
        return None
    before, after = first.num_ack_pending or 0, acks.later.num_ack_pending or 0
    delivered = acks.later.delivered.consumer_seq - first.delivered.consumer_seq
    count = delivered + before - after
    if count < FEWEST_ACKS or acks.elapsed <= 0:
        return None
    return (before + after) / 2 / (count / acks.elapsed), count


def ack_wait(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Consumers that acknowledge later than `ack_wait`."""
    for facts in (consumer for stream in snapshot.streams for consumer in stream.consumers):
        one, acks = facts.info, facts.acks
        if one.config.ack_policy == models.AckPolicy.NONE:
            continue
        wait = ack_wait_of(one.config)
        estimate = estimated_time(one, acks) if acks else None
        if acks and acks.slowest > wait:
            evidence = f"slowest of {counted(acks.samples, 'ack sample')}: {span(acks.slowest)}; ack_wait {span(wait)}"
            problem = "messages are acknowledged after ack_wait, so they are redelivered while they are processed"
            yield warning(consumer_name(one), problem, evidence=evidence, remedy=_REMEDY)
        elif acks and estimate and estimate[0] > wait:
            seconds, count = estimate
            evidence = (
                f"at least {span(seconds)} in the mean, estimated from {counted(count, 'ack')} in {span(acks.elapsed)}"
                f" and {counted(one.num_ack_pending or 0, 'unacknowledged message')}; ack_wait {span(wait)}"
            )
            problem = "ack_wait is shorter than the time between delivery and acknowledgement: messages are redelivered"
            yield warning(consumer_name(one), problem, evidence=evidence, remedy=_REMEDY)
        else:
            yield from _redelivered(one, wait)


def _redelivered(one: models.ConsumerInfo, wait: float) -> Iterator[Finding]:
    count, unacked = one.num_redelivered or 0, one.num_ack_pending or 0
    if not count or not unacked:
        return
    many = count >= FEWEST_REDELIVERED and count >= MANY_REDELIVERED * unacked
    yield (warning if many else info)(
        consumer_name(one),
        "messages were redelivered: ack_wait may be too short, clients may fail, or they reject messages",
        evidence=f"{count:,} redelivered, {unacked:,} unacknowledged; ack_wait {span(wait)}",
        remedy="set sample_freq on the consumer to measure the time to its acks, and see its clients' errors",
    )


RULES = (ack_wait,)
