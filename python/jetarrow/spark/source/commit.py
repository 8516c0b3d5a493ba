"""Removal of processed messages from the server by a streaming query."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Mapping
from typing import NamedTuple

import jetarrow.sync
from jetarrow.jetstream.errors import NotFoundError
from jetarrow.jetstream.models import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy, StreamInfo
from jetarrow.spark.options.choices import CommitMode
from jetarrow.spark.options.read import ReadOptions

from .metadata import Lookup, created, retention
from .offsets import Entry
from .positions import Positions

_MOST_PER_FETCH = 1000
# Key of a consumer's metadata with the name of its query.
_OWNER = "jetarrow_spark_query"
_VALID_MODES: dict[str, str] = {
    RetentionPolicy.LIMITS: "none",
    RetentionPolicy.WORK_QUEUE: "none, purge",
    RetentionPolicy.INTEREST: "none, consumer",
}


class _Delivered(NamedTuple):
    """A message that the consumer has delivered: its sequence, and its row in a batch."""

    seq: int
    row: int
    batch: jetarrow.sync.MessageBatch


class Committer:
    """Commits for one streaming query, in the process that plans it.

    Args:
        options: Validated options: `commit_mode`, `commit_consumer`, `subjects`.
        positions: Those of the query.
    """

    def __init__(self, options: ReadOptions, positions: Positions) -> None:
        self._mode = options.commit_mode
        self._name = options.commit_consumer or ""
        self._filters = options.subjects
        self._positions = positions
        self._done: dict[str, Entry] = {}
        self._owner: str | None = None
        # Delivered messages after the last commit, by stream, which are redelivered only after the ack wait.
        self._spare: dict[str, list[_Delivered]] = {}

    def owner(self, logged: str | None = None) -> str | None:
        """Return the name of the query, which its offsets contain; None if it has no consumers.

        Args:
            logged: The name in the last offset. Default: none, for a new query.
        """
        if self._mode == CommitMode.CONSUMER:
            self._owner = logged or self._owner or uuid.uuid4().hex
        return self._owner

    def prepare(self, js: jetarrow.sync.JetStream, infos: Mapping[str, StreamInfo], at: Mapping[str, Entry]) -> None:
        """Check the retention of new streams, and create the consumers that retain unprocessed messages.

        Args:
            js: The context.
            infos: Present info of the streams, by name.
            at: Positions of the query, by stream. A stream without one is read from its first message.

        Raises:
            ValueError: `commitMode` does not fit a stream, or `commitConsumer` is the consumer of another query.
        """
        if self._mode == CommitMode.NONE:
            return
        for name, info in infos.items():
            self._check_retention(name, info)
            if self._mode == CommitMode.CONSUMER:
                self._make_consumer(js, name, at[name].next if name in at else 1)

    def _check_retention(self, name: str, info: StreamInfo) -> None:
        wanted = RetentionPolicy.WORK_QUEUE if self._mode == CommitMode.PURGE else RetentionPolicy.INTEREST
        kind = retention(info)
        if kind != wanted:
            raise ValueError(
                f"jetstream option 'commitMode': {self._mode} is for {wanted} streams, {name!r} has retention"
                f" {kind}; valid: {_VALID_MODES[kind]}"
            )

    def commit(self, lookup: Lookup, infos: Mapping[str, StreamInfo], at: Mapping[str, Entry]) -> None:
        """Remove messages before a position from the server; idempotent.

        It requests one message of each stream that has new messages since it was read.

        Args:
            lookup: Lookup of the streams.
            infos: Present info of the streams, by name.
            at: Positions by stream.

        Raises:
            StreamRecreatedError: A stream was deleted and created again, and `onRecreated` is fail. No message of the
                new stream is removed, unless `onRecreated` is continue.
            StreamRolledBackError: A stream was rolled back behind the position, and `onRollback` is fail. No message is
                removed.
            ValueError: `commitMode` does not fit a stream, or `commitConsumer` is the consumer of another query. No
                message of it is removed.
        """
        js = lookup.js
        for name, entry in at.items():
            if name not in infos or self._done.get(name) == entry:
                continue
            # Messages of another stream of this name were not read.
            if self._positions.is_over(name, entry, infos[name]):
                continue
            # Neither were messages stored after a rollback.
            if entry.created == created(infos[name]) and self._positions.history.is_lost(
                name, entry, infos[name], lookup
            ):
                self._spare.pop(name, None)
                continue
            # A stream that has appeared since the start may have messages of others.
            self._check_retention(name, infos[name])
            if self._mode == CommitMode.PURGE:
                for subject in self._filters or (None,):
                    js.purge_stream(name, seq=entry.next, subject=subject)
            else:
                self._acknowledge(js, name, entry.next - 1)
            self._done[name] = entry

    def _make_consumer(self, js: jetarrow.sync.JetStream, stream: str, start: int) -> None:
        consumer = js.stream(stream).get_or_create_consumer(
            self._name,
            durable_name=self._name,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=max(1, start),
            ack_policy=AckPolicy.ALL,
            headers_only=True,
            filter_subjects=list(self._filters) or None,
            description="position of a Spark query",
            metadata={_OWNER: self._owner} if self._owner is not None else None,
        )
        config = (consumer.cached_info or consumer.info()).config
        if config.ack_policy != AckPolicy.ALL or not config.headers_only:
            raise ValueError(
                f"jetstream option 'commitConsumer': consumer {self._name!r} of stream {stream!r} exists with another"
                " configuration; valid: an unused name"
            )
        self._check_owner(stream, config)
        if self._owner is not None and _OWNER not in (config.metadata or {}):
            metadata = {**(config.metadata or {}), _OWNER: self._owner}
            js.stream(stream).update_consumer(config.evolve(metadata=metadata))

    def _check_owner(self, stream: str, config: ConsumerConfig) -> None:
        """Check that no other query has created or adopted the consumer."""
        found = (config.metadata or {}).get(_OWNER)
        if self._owner is not None and found not in (None, self._owner):
            raise ValueError(
                f"jetstream option 'commitConsumer': consumer {self._name!r} of stream {stream!r} is that of another"
                " query, or of this one with another checkpoint, and two queries would remove each other's messages;"
                " valid: a name of its own for each query; or delete the consumer if no query uses it any more"
            )

    def _acknowledge(self, js: jetarrow.sync.JetStream, stream: str, last: int) -> None:
        """Acknowledge all messages up to `last`, after delivering their headers."""
        consumer = js.stream(stream).consumer(self._name)
        try:
            info = consumer.info()
        except NotFoundError:
            warnings.warn(
                f"jetstream: consumer {self._name!r} of stream {stream!r} was deleted and is created again; messages"
                " that no other consumer has retained in the meantime are lost",
                stacklevel=2,
            )
            self._make_consumer(js, stream, last + 1)
            return
        self._check_owner(stream, info.config)
        delivered = info.delivered.stream_seq if info.delivered else 0
        known = self._acknowledged(self._spare.pop(stream, []), last)
        while delivered < last:
            # Later messages are delivered only if sequences are missing; they are kept for the next commit.
            batch = consumer.fetch_batch(min(_MOST_PER_FETCH, last - delivered), timeout=0.0, columns=["seq"])
            seqs = batch.seqs.to_pylist()
            found = [_Delivered(seq, row, batch) for row, seq in enumerate(seqs) if seq is not None]
            if not found:  # deleted, or removed by a limit of the stream
                break
            delivered = max(delivered, *(one.seq for one in found))
            known = self._acknowledged(known + found, last)
        self._spare[stream] = known

    @staticmethod
    def _acknowledged(messages: list[_Delivered], last: int) -> list[_Delivered]:
        """Acknowledge the last message up to `last`, and so all before it; return the later ones."""
        due = [one for one in messages if one.seq <= last]
        if due:
            newest = max(due, key=lambda one: one.seq)
            newest.batch.ack_sync(rows=[newest.row])
        return [one for one in messages if one.seq > last]
