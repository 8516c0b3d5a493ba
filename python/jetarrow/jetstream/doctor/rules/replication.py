"""Rules: replicas, leaders, mirrors, sources, and the subjects of streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from jetarrow.jetstream import models
from jetarrow.jetstream.doctor.finding import Finding, error, info, warning
from jetarrow.jetstream.doctor.snapshot import Snapshot
from jetarrow.jetstream.doctor.texts import consumer_name, counted, listed, span, stream_name
from jetarrow.jetstream.doctor.thresholds import Thresholds

# Fewest streams for a finding about their distribution.
FEWEST_STREAMS = 3


def unavailable(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams that no server answers for, or that a server keeps offline."""
    if snapshot.unavailable:
        yield error(
            "JetStream",
            "the JetStream cluster has no leader: streams and consumers cannot be read, created or changed",
            evidence=snapshot.unavailable,
            remedy="start servers until more than half of the cluster is online",
        )
    for name in snapshot.missing:
        yield error(
            f"stream {name}",
            "the stream is unavailable: no server answered for it",
            evidence="listed as missing by the server",
            remedy="start the servers of its replicas; a stream needs more than half of them to elect a leader",
        )
    for thing, reason in snapshot.offline.items():
        yield error(
            thing,
            "the server keeps it offline, because it cannot load its configuration",
            evidence=reason,
            remedy="upgrade the server to the version that stored it, or to a newer one",
        )


def replicas(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams and consumers without a leader, and streams with replicas that are offline or not current."""
    for facts in snapshot.streams:
        yield from _replicas_of(facts.info, limits)
        for consumer in (one.info for one in facts.consumers):
            if consumer.cluster and consumer.cluster.name and not consumer.cluster.leader:
                yield error(
                    consumer_name(consumer),
                    "the consumer has no leader: nothing is delivered",
                    evidence="no leader in its information",
                    remedy="start the servers of its replicas",
                )


def _replicas_of(stream: models.StreamInfo, limits: Thresholds) -> Iterator[Finding]:
    cluster = stream.cluster
    if cluster is None or not cluster.name:
        return
    if not cluster.leader:
        yield error(
            stream_name(stream),
            "the stream has no leader: it stores and delivers nothing",
            evidence="no leader in its information",
            remedy="start the servers of its replicas",
        )
    silent = limits.replica_silence
    others = cluster.replicas or []
    down = [str(one.name) for one in others if one.offline or (one.active or 0) / 1e9 >= silent]
    late = [one for one in others if not one.current and str(one.name) not in down]
    count = len(others) + 1
    if down:
        left = count - len(down)
        # One more failure stops the stream if no majority is left after it.
        severity = error if left <= count // 2 else warning
        yield severity(
            stream_name(stream),
            f"{counted(len(down), 'replica')} of {count} offline",
            evidence=f"offline: {listed(down)}; a majority is {count // 2 + 1}",
            remedy="start these servers, or remove them for good: nats server cluster peer-remove",
        )
    if late:
        behind = max(one.lag or 0 for one in late)
        yield warning(
            stream_name(stream),
            f"{counted(len(late), 'replica')} of {count} not current: it lags, or is offline since the last election",
            evidence=f"{listed([str(one.name) for one in late])}, up to {counted(behind, 'operation')} behind",
            remedy="run the diagnosis again; a replica that does not become current has a full disk or a slow network",
        )


def one_peer(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """A cluster in which one server leads all streams."""
    if not snapshot.is_whole_account:
        return
    clusters = [facts.info.cluster for facts in snapshot.streams if facts.info.cluster and facts.info.cluster.name]
    leaders = Counter(str(cluster.leader) for cluster in clusters if cluster.leader)
    if len(leaders) != 1 or sum(leaders.values()) < FEWEST_STREAMS:
        return
    (leader, count), *_ = leaders.items()
    alone = sum(not cluster.replicas for cluster in clusters)
    yield warning(
        f"server {leader}",
        "all streams are led by one server, which has all the load of publishes and consumers",
        evidence=f"{counted(count, 'stream')}, {alone:,} of them without another replica",
        remedy="distribute the leaders: nats stream cluster balance; place single replicas with placement tags",
    )


def sources(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Mirrors and sources that fail, are disconnected or are behind."""
    for stream in (facts.info for facts in snapshot.streams):
        copied = ([stream.mirror] if stream.mirror else []) + list(stream.sources or ())
        for source in copied:
            kind = "mirror" if source is stream.mirror else "source"
            active = -1.0 if source.active is None or source.active < 0 else source.active / 1e9
            evidence = f"{kind} of {source.name}, {counted(source.lag or 0, 'message')} behind, "
            evidence += "never active" if active < 0 else f"last active {span(active)} ago"
            age = (snapshot.now - stream.created).total_seconds() if stream.created else limits.source_silence
            if source.error:
                yield error(
                    stream_name(stream),
                    f"copying from stream {source.name} fails",
                    evidence=f"{evidence}: {source.error.get('description', source.error)}",
                    remedy=f"create stream {source.name}, or correct its name, domain or permissions",
                )
            elif active >= limits.source_silence or (active < 0 and age >= limits.source_silence):
                yield warning(
                    stream_name(stream),
                    f"copying from stream {source.name} is interrupted: the copy does not receive new messages",
                    evidence=evidence,
                    remedy=f"see that stream {source.name} exists and that its server is reachable",
                )


def subjects(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams that store nothing, because they have no subjects or are sealed."""
    for stream in (facts.info for facts in snapshot.streams):
        config = stream.config
        if config.sealed:
            yield info(
                stream_name(stream),
                "the stream is sealed: messages can be neither added nor deleted",
                evidence="sealed true",
                remedy="no action if this is intended; a sealed stream cannot be opened again",
            )
        elif not config.subjects and not config.mirror and not config.sources:
            yield warning(
                stream_name(stream),
                "the stream has no subjects, no mirror and no sources: it stores nothing",
                evidence="subjects empty",
                remedy="add subjects: js.update_stream(subjects=[...])",
            )


RULES = (unavailable, replicas, one_peer, sources, subjects)
