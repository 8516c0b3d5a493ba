"""Gathering of the facts: the only requests of a diagnosis."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from jetarrow.core.errors import Error, PermissionsViolationError, TimeoutError
from jetarrow.core.session import Session
from jetarrow.core.subscription import Subscription
from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.doctor import system
from jetarrow.jetstream.doctor.snapshot import AckTimes, ConsumerFacts, Snapshot, StreamFacts
from jetarrow.jetstream.doctor.texts import server_name
from jetarrow.jetstream.doctor.thresholds import Thresholds
from jetarrow.jetstream.errors import NotFoundError, ServiceUnavailableError
from jetarrow.jetstream.lag import behind_of

# Concurrent requests.
_AT_ONCE = 32
# Seconds to flush the subscription of ack samples.
_FLUSH = 2.0
_SAMPLES = "$JS.EVENT.METRIC.CONSUMER.ACK"


async def gather(api: JetStreamApi, stream: str | None, *, account: Session, thresholds: Thresholds) -> Snapshot:
    """Gather the facts of one stream or of all streams.

    Args:
        api: The API.
        stream: The stream; None is all.
        account: Session of the system account, or any session to try.
        thresholds: The thresholds, for the duration of the measurement.

    Raises:
        NotFoundError: The stream does not exist.
    """
    snapshot = _connected(api, Snapshot(now=system.client_now(), is_whole_account=stream is None))
    try:
        snapshot = await _contents(api, snapshot, stream, duration=thresholds.measure)
    except ServiceUnavailableError as error:
        # Other codes: JetStream is disabled.
        if error.err_code != models.ErrorCode.CLUSTER_NOT_AVAIL:
            raise
        snapshot = replace(snapshot, unavailable=f"{error.description} (err_code {error.err_code})")
    return replace(snapshot, servers=await system.servers(account))


async def _contents(api: JetStreamApi, snapshot: Snapshot, stream: str | None, *, duration: float) -> Snapshot:
    """The snapshot with the account, the streams and their consumers."""
    # Streams may be readable without permission for this request.
    with suppress(TimeoutError, PermissionsViolationError):
        snapshot = replace(snapshot, account=models.AccountInfo.from_response(await api.request("INFO")))
    snapshot = await (_streams(api, snapshot) if stream is None else _stream(api, snapshot, stream))

    async def completed(facts: StreamFacts) -> tuple[StreamFacts, dict[str, str]]:
        return await _with_consumers(api, await _with_subjects(api, facts))

    found = await api.session.gather(completed, snapshot.streams, _AT_ONCE)
    offline = dict(snapshot.offline)
    for _, names in found:
        offline |= names
    streams = await _with_acks(api, [facts for facts, _ in found], duration)
    return replace(snapshot, streams=tuple(streams), offline=offline)


def _connected(api: JetStreamApi, snapshot: Snapshot) -> Snapshot:
    """The snapshot with the connected server; with a domain or another prefix another server answers."""
    if api.prefix != models.DEFAULT_PREFIX:
        return replace(snapshot, server="of the JetStream domain")
    native = api.session.native
    return replace(
        snapshot,
        server=server_name(native.server_info.get("server_name", ""), native.server_info.get("server_id", "")),
        version=native.server_version,
        clustered=bool(native.server_info.get("cluster")),
    )


async def _stream(api: JetStreamApi, snapshot: Snapshot, name: str) -> Snapshot:
    sent = system.client_now()
    try:
        info = models.StreamInfo.from_response(await api.request(f"STREAM.INFO.{name}"))
    except NotFoundError:
        raise
    except Error:
        # A stream that is offline, or without a leader, is in the list only.
        listed = await _streams(api, snapshot)
        offline = {thing: reason for thing, reason in listed.offline.items() if thing == f"stream {name}"}
        missing = tuple(lost for lost in listed.missing if lost == name)
        if not offline and not missing:
            raise
        return replace(snapshot, missing=missing, offline=offline)
    clock = system.clock_of(info.ts, sent, system.client_now())
    return replace(snapshot, clock=clock, streams=(StreamFacts(info),))


async def _streams(api: JetStreamApi, snapshot: Snapshot) -> Snapshot:
    entries, missing, reasons = await _listed(api, "STREAM.LIST", "streams")
    infos = [models.StreamInfo.from_response(entry) for entry in entries]
    offline = {f"stream {name}": reason for name, reason in reasons.items()}
    infos = [info for info in infos if info.config.name not in reasons]
    snapshot = replace(snapshot, missing=tuple(missing), offline=offline)
    for info in infos[:1]:
        # One short request, because the list of a large cluster takes seconds.
        with suppress(Error):
            snapshot = replace(snapshot, clock=(await _stream(api, snapshot, str(info.config.name))).clock)
    return replace(snapshot, streams=tuple(StreamFacts(info) for info in infos))


async def _listed(api: JetStreamApi, verb: str, key: str) -> tuple[list[Any], list[str], dict[str, str]]:
    """The entries of a list, the names for which no server answered, and those that are offline with the reason."""
    entries: list[Any] = []
    missing: list[str] = []
    offline: dict[str, str] = {}
    total = 1
    while len(entries) + len(missing) + len(offline) < total:
        answer = await api.request(verb, {"offset": len(entries) + len(missing) + len(offline)})
        page, reasons = answer.get(key) or [], answer.get("offline") or {}
        lost = [name for name in answer.get("missing") or () if name not in reasons]
        entries, missing, offline = entries + page, missing + lost, offline | reasons
        if not page and not lost and not reasons:
            break
        total = answer.get("total", 0)
    return entries, missing, offline


async def _with_subjects(api: JetStreamApi, stream: StreamFacts) -> StreamFacts:
    """The stream, with the number of messages by subject if it rejects messages by subject."""
    config = stream.info.config
    if not config.discard_new_per_subject or config.max_msgs_per_subject <= 0:
        return stream
    try:
        # The first page of subjects, at most 100,000.
        answer = await api.request(f"STREAM.INFO.{config.name}", {"subjects_filter": ">"})
        return replace(stream, subjects=models.StreamInfo.from_response(answer).state.subjects or {})
    except NotFoundError:
        # The stream was deleted meanwhile.
        return stream
    except Error as error:
        return replace(stream, failure=str(error))


async def _with_consumers(api: JetStreamApi, stream: StreamFacts) -> tuple[StreamFacts, dict[str, str]]:
    """The stream with its consumers, and the consumers that are offline, with the reason."""
    name = stream.info.config.name
    if not stream.info.state.consumer_count:
        return stream, {}
    try:
        entries, _, reasons = await _listed(api, f"CONSUMER.LIST.{name}", "consumers")
        infos = [models.ConsumerInfo.from_response(entry) for entry in entries]
        facts = [ConsumerFacts(info, await behind_of(api, info)) for info in infos if info.name not in reasons]
    except NotFoundError:
        # The stream was deleted meanwhile.
        return stream, {}
    except Error as error:
        # One stream without a leader, or without permission, does not end the diagnosis of the others.
        return replace(stream, failure=str(error)), {}
    offline = {f"consumer {name} > {one}": reason for one, reason in reasons.items()}
    return replace(stream, consumers=tuple(facts)), offline


async def _with_acks(api: JetStreamApi, streams: Sequence[StreamFacts], duration: float) -> list[StreamFacts]:
    """The streams, with a measurement of the consumers that have unacknowledged messages."""
    busy = [one.info for stream in streams for one in stream.consumers if _can_measure(one.info)]
    if not busy or duration <= 0:
        return list(streams)
    session = api.session

    async def info_of(one: models.ConsumerInfo) -> tuple[models.ConsumerInfo | None, float]:
        answer = None
        with suppress(Error):
            answer = await api.request(f"CONSUMER.INFO.{one.stream_name}.{one.name}")
        return models.ConsumerInfo.from_response(answer) if answer else None, session.now()

    async with _samples(session, any(one.config.sample_freq for one in busy)) as sub:
        first = await session.gather(info_of, busy, _AT_ONCE)
        await session.sleep(duration)
        last = await session.gather(info_of, busy, _AT_ONCE)
        times = await _read_samples(sub) if sub else {}
    measured: dict[tuple[str, str], tuple[models.ConsumerInfo, AckTimes]] = {}
    for (before, began), (after, ended) in zip(first, last, strict=True):
        if before and after:
            key = (before.stream_name, before.name)
            slow = times.get(key, [])
            acks = AckTimes(after, ended - began, samples=len(slow), slowest=max(slow, default=0.0))
            measured[key] = (before, acks)
    return [
        replace(stream, consumers=tuple(_measured(one, measured) for one in stream.consumers)) for stream in streams
    ]


def _can_measure(one: models.ConsumerInfo) -> bool:
    return bool(one.num_ack_pending) and one.config.ack_policy != models.AckPolicy.NONE


def _measured(
    facts: ConsumerFacts, measured: dict[tuple[str, str], tuple[models.ConsumerInfo, AckTimes]]
) -> ConsumerFacts:
    key = (facts.info.stream_name, facts.info.name)
    if key not in measured:
        return facts
    info, acks = measured[key]
    return replace(facts, info=info, acks=acks)


@asynccontextmanager
async def _samples(session: Session, wanted: bool) -> AsyncIterator[Subscription | None]:
    """A subscription of the servers' ack samples, if a consumer has them."""
    if not wanted:
        yield None
        return
    sub = Subscription(session, session.next_sid(), f"{_SAMPLES}.>")
    await sub._open()
    try:
        await session.run(session.native.flush(_FLUSH))
        yield sub
    finally:
        sub._end()


async def _read_samples(sub: Subscription) -> dict[tuple[str, str], list[float]]:
    """Seconds from delivery to acknowledgement, by stream and consumer, of the samples received so far."""
    times: dict[tuple[str, str], list[float]] = {}
    with suppress(TimeoutError):
        while True:
            msg = await sub.next_msg(0.01)
            # Any client may publish on this subject.
            with suppress(ValueError, KeyError, TypeError):
                sample = json.loads(msg.data)
                times.setdefault((sample["stream"], sample["consumer"]), []).append(float(sample["ack_time"]) / 1e9)
    return times
