"""Rules: limits that are nearly full, with the server's action at the limit."""

from __future__ import annotations

from collections.abc import Iterator

from jetarrow.jetstream import models
from jetarrow.jetstream.doctor.finding import Finding, error, info, warning
from jetarrow.jetstream.doctor.snapshot import Snapshot, StreamFacts
from jetarrow.jetstream.doctor.texts import consumer_name, counted, listed, size, stream_name
from jetarrow.jetstream.doctor.thresholds import Thresholds

# Part of `max_waiting` and of other hard limits at which requests are rejected.
FULL = 1.0
# The first unsigned number of 64 bits that is a negative signed one.
UNSIGNED = 2**63


def _percent(part: float) -> str:
    return f"{part:.0%}"


def stream_limits(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams near `max_msgs` or `max_bytes`."""
    for facts in snapshot.streams:
        config, state = facts.info.config, facts.info.state
        values = (
            ("max_msgs", state.messages, config.max_msgs, counted(state.messages, "message")),
            ("max_bytes", state.bytes, config.max_bytes, size(state.bytes)),
        )
        for name, used, limit, shown in values:
            if limit and limit > 0 and used / limit >= limits.full:
                of = size(limit) if name == "max_bytes" else f"{limit:,}"
                yield _nearly_full(facts, name, part=used / limit, evidence=f"{shown} of {name} {of}")


def _nearly_full(facts: StreamFacts, name: str, *, part: float, evidence: str) -> Finding:
    config, state, thing = facts.info.config, facts.info.state, stream_name(facts.info)
    title = f"{name} is {_percent(part)} full"
    if config.discard == models.DiscardPolicy.NEW:
        problem = f"{title}: at the limit messages are rejected (discard new)"
        by_ack = config.retention != models.RetentionPolicy.LIMITS
        remedy = f"raise {name}, or {'acknowledge' if by_ack else 'delete'} messages"
        # A message may be larger than the remaining bytes, so 100 % of max_bytes is rarely reached.
        severity = error if part >= FULL else warning
        return severity(thing, problem, evidence=evidence, remedy=remedy)
    behind = [one.info.name for one in facts.consumers if one.info.num_pending or one.info.num_ack_pending]
    keeps = config.retention in (models.RetentionPolicy.WORK_QUEUE, models.RetentionPolicy.INTEREST)
    if behind or (keeps and state.messages):
        waiting = f"; unprocessed by {listed(behind)}" if behind else ""
        problem = f"{title}: at the limit the oldest messages are deleted (discard old), also unprocessed ones"
        remedy = f"raise {name}, add consumers, or set discard to new so that publishers receive an error"
        return warning(thing, problem, evidence=evidence + waiting, remedy=remedy)
    remedy = f"no action if {name} is the intended retention, otherwise raise it"
    if state.first_seq > (config.first_seq or 1):
        problem = f"{title}: the oldest messages are deleted (discard old)"
        return info(thing, problem, evidence=f"{evidence}, first sequence {state.first_seq:,}", remedy=remedy)
    problem = f"{title}: at the limit the oldest messages will be deleted (discard old)"
    return warning(thing, problem, evidence=f"{evidence}, none deleted yet", remedy=remedy)


def subject_limits(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Subjects near `max_msgs_per_subject`, in streams that reject messages by subject."""
    for facts in snapshot.streams:
        limit = facts.info.config.max_msgs_per_subject
        if limit <= 0 or not facts.info.config.discard_new_per_subject:
            continue
        near = sorted((-count, name) for name, count in facts.subjects.items() if count / limit >= limits.full)
        if not near:
            continue
        most = -near[0][0]
        severity = error if most >= limit else warning
        names = listed([name for _, name in near])
        yield severity(
            stream_name(facts.info),
            f"max_msgs_per_subject is {_percent(most / limit)} full: at the limit messages of the subject are rejected"
            " (discard new per subject)",
            evidence=f"up to {counted(most, 'message')} of {limit:,} in {counted(len(near), 'subject')}: {names}",
            remedy="raise max_msgs_per_subject, or delete messages of these subjects",
        )


def consumer_count(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams near `max_consumers`."""
    for facts in snapshot.streams:
        limit, used = facts.info.config.max_consumers or 0, facts.info.state.consumer_count
        if limit > 0 and used / limit >= limits.full:
            yield warning(
                stream_name(facts.info),
                f"max_consumers is {_percent(used / limit)} full: at the limit new consumers are rejected",
                evidence=f"{used:,} of {counted(limit, 'consumer')}",
                remedy="remove unused consumers, or create a stream with a higher max_consumers",
            )


def waiting_requests(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Pull consumers near `max_waiting`."""
    for consumer in (one.info for facts in snapshot.streams for one in facts.consumers):
        limit, used = consumer.config.max_waiting or 0, consumer.num_waiting or 0
        if limit > 0 and not consumer.config.deliver_subject and used / limit >= limits.full:
            yield warning(
                consumer_name(consumer),
                f"max_waiting is {_percent(used / limit)} full: at the limit pull requests are rejected (status 409)",
                evidence=f"{used:,} of {counted(limit, 'waiting request')}",
                remedy="raise max_waiting, or run fewer concurrent fetches",
            )


def account(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Limits of the account, in all or by tier."""
    if snapshot.account is None:
        return
    levels: dict[str, models.AccountInfo | models.Tier] = {"account": snapshot.account}
    for name, tier in (snapshot.account.tiers or {}).items():
        levels[f"account, tier {name}"] = tier
    for thing, level in levels.items():
        yield from _of_level(thing, level, limits)


def _of_level(thing: str, level: models.AccountInfo | models.Tier, limits: Thresholds) -> Iterator[Finding]:
    values = (
        ("max_storage", level.storage, level.limits.max_storage, "publishes to file streams fail (err_code 10047)"),
        ("max_memory", level.memory, level.limits.max_memory, "publishes to memory streams fail (err_code 10028)"),
        ("max_streams", level.streams, level.limits.max_streams, "new streams are rejected"),
        ("max_consumers", level.consumers, level.limits.max_consumers, "new consumers are rejected"),
        ("max_storage", level.reserved_storage, level.limits.max_storage, "new streams with max_bytes are rejected"),
        ("max_memory", level.reserved_memory, level.limits.max_memory, "new streams with max_bytes are rejected"),
    )
    for number, (name, used, limit, then) in enumerate(values):
        # Servers before 2.11 reserve -1 for a stream without max_bytes, and send the sum as an unsigned number.
        if not used or used >= UNSIGNED or limit <= 0 or used / limit < limits.full:
            continue
        is_size, is_reserved = name in ("max_storage", "max_memory"), number >= 4
        show = size if is_size else "{:,}".format
        severity = error if used >= limit and not is_reserved else warning
        yield severity(
            thing,
            f"{name} is {_percent(used / limit)} {'reserved' if is_reserved else 'full'}: at the limit {then}",
            evidence=f"{show(used)} of {show(limit)}",
            remedy="raise the limit of the account, or delete streams, messages or consumers",
        )


RULES = (stream_limits, subject_limits, consumer_count, waiting_requests, account)
