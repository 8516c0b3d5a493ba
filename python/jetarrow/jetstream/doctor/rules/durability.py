"""Rules: acknowledged messages that a failure can lose."""

from __future__ import annotations

from collections.abc import Iterator

from jetarrow.jetstream import models
from jetarrow.jetstream.doctor.finding import Finding, info, warning
from jetarrow.jetstream.doctor.snapshot import Snapshot, StreamFacts
from jetarrow.jetstream.doctor.texts import consumer_name, listed, span, stream_name
from jetarrow.jetstream.doctor.thresholds import Thresholds

# The server's default of `sync_interval`, in seconds (defaultSyncInterval in its filestore.go).
DEFAULT_SYNC_INTERVAL = 120.0


def is_clustered(snapshot: Snapshot, stream: models.StreamInfo) -> bool:
    """Return whether a stream is in a cluster: the server names the cluster in the stream's information."""
    return bool(stream.cluster and stream.cluster.name) or snapshot.clustered


def replicas(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams of a cluster with one replica, or with two."""
    for stream in (facts.info for facts in snapshot.streams):
        count = stream.config.num_replicas or 1
        if count > 2 or not is_clustered(snapshot, stream):
            continue
        leader = stream.cluster.leader if stream.cluster else None
        evidence = f"replicas {count}, on server {leader or 'unknown'}"
        remedy = "set the number of replicas to 3: js.update_stream(num_replicas=3)"
        if count == 1:
            problem = (
                "one replica in a cluster: the stream is unavailable while its server is down, and lost with its disk"
            )
            yield warning(stream_name(stream), problem, evidence=evidence, remedy=remedy)
        else:
            problem = "two replicas: the stream rejects messages while either server is down"
            yield warning(stream_name(stream), problem, evidence=evidence, remedy=remedy)


def memory(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams in memory."""
    for stream in (facts.info for facts in snapshot.streams):
        if stream.config.storage != models.StorageType.MEMORY:
            continue
        count = stream.config.num_replicas or 1
        when = "its server restarts" if count == 1 else f"all of its {count} servers are down at the same time"
        yield warning(
            stream_name(stream),
            f"memory storage: all messages are lost when {when}",
            evidence=f"storage memory, replicas {count}, {stream.state.messages:,} messages",
            remedy="create a stream with storage file; the storage of an existing stream cannot be changed",
        )


def persist_mode(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams that acknowledge a message before it is written."""
    for stream in (facts.info for facts in snapshot.streams):
        if stream.config.persist_mode == models.PersistMode.ASYNC:
            yield warning(
                stream_name(stream),
                "persist mode async: a message is acknowledged before it is written to its file, so a killed server"
                " loses acknowledged messages",
                evidence="persist_mode async",
                remedy="create a stream with persist_mode default; the mode of an existing stream cannot be changed",
            )


def no_ack(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams that do not acknowledge."""
    for stream in (facts.info for facts in snapshot.streams):
        if stream.config.no_ack:
            yield warning(
                stream_name(stream),
                "publishes are not acknowledged: publishers cannot detect messages that were not stored",
                evidence="no_ack true",
                remedy="set no_ack to false",
            )


def sync_interval(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Servers that flush their files to disk later than they acknowledge."""
    files = [facts.info for facts in snapshot.streams if facts.info.config.storage == models.StorageType.FILE]
    if not files:
        return
    by_interval: dict[float, list[str]] = {}
    for server in snapshot.servers or ():
        if server.jetstream and not server.sync_always and server.sync_interval:
            by_interval.setdefault(server.sync_interval, []).append(server.name)
    single = [str(stream.config.name) for stream in files if (stream.config.num_replicas or 1) == 1]
    for interval, names in sorted(by_interval.items()):
        failure = "a power failure of the server" if single else "a power failure of several servers at once"
        severity = warning if single or interval > DEFAULT_SYNC_INTERVAL else info
        affected = f"streams with one replica: {listed(single)}" if single else "all streams have several replicas"
        yield severity(
            f"{'server' if len(names) == 1 else 'servers'} {listed(names)}",
            f"messages are acknowledged up to {span(interval)} before they are flushed to disk: {failure} loses them",
            evidence=f"sync_interval {span(interval)}; {affected}",
            remedy="set sync_interval: always in the jetstream block of the server; atomic batches keep the rate high",
        )


def duplicate_window(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Streams that forget a message id while its publisher may still resend the message."""
    for stream in (facts.info for facts in snapshot.streams):
        window = stream.config.duplicate_window or 0.0
        if not stream.config.subjects or stream.config.mirror or window >= limits.retry_time:
            continue
        yield warning(
            stream_name(stream),
            "the duplicate window is shorter than the retry time of publishers: a message that is resent after it is"
            " stored twice",
            evidence=f"duplicate_window {span(window)}, retry time {span(limits.retry_time)}",
            remedy=f"set duplicate_window to at least {span(limits.retry_time)}; the default of the server is 2m",
        )


def consumer_state(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Durable consumers whose position is less durable than the stream."""
    for stream in snapshot.streams:
        for consumer in (facts.info for facts in stream.consumers):
            if consumer.config.durable_name and (reason := _weaker(stream, consumer.config)):
                problem, evidence = reason
                yield warning(
                    consumer_name(consumer),
                    problem,
                    evidence=evidence,
                    remedy="remove mem_storage and num_replicas from the consumer, so that the stream's are used",
                )


def _weaker(stream: StreamFacts, config: models.ConsumerConfig) -> tuple[str, str] | None:
    of_stream, own = stream.info.config.num_replicas or 1, config.num_replicas or 0
    if config.mem_storage and stream.info.config.storage == models.StorageType.FILE:
        return (
            "the position of a durable consumer is in memory, but its stream is in files: messages are delivered again"
            " after a restart",
            "mem_storage true",
        )
    if 0 < own < of_stream:
        return (
            "a durable consumer has fewer replicas than its stream: deliveries stop and its position may be lost with"
            " its server",
            f"replicas {own}, stream replicas {of_stream}",
        )
    return None


RULES = (replicas, memory, persist_mode, no_ack, sync_interval, duplicate_window, consumer_state)
