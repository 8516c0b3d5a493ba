"""Exactly once beyond the duplicate window: what a streaming query remembers of the batch that it is writing.

A key-value bucket has one record for each query and partition: the batch, the target's last sequence before the first
row of it was published, and, once all of it is stored, how many rows it has and a sum over their ids. An attempt takes
the record over by its revision; who has lost it, a task that was taken for dead, stops. An attempt that finds the
record of its own batch is a replay: where all is stored it publishes nothing, and compares the sum; else it reads the
ids that came to the target since that sequence, and publishes what is missing. Ids made of content begin with a tag of
query, batch and partition: one that no row has is a row that an earlier attempt stored, and that is another one now.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.core.errors import Error
from jetarrow.jetstream.errors import BucketNotFoundError, KeyNotFoundError, KeyWrongLastSequenceError
from jetarrow.jetstream.models import RetentionPolicy, StreamInfo
from jetarrow.spark._core import Loss, RangeReader
from jetarrow.spark.connection import retry_transient
from jetarrow.spark.options.option_texts import invalid

from .seen_ids import message_ids

# How long an attempt relies on the record being its own, in seconds.
_LOOK_AGAIN = 5.0
_BITS_64 = 2**64 - 1


@dataclass(frozen=True)
class BatchName:
    """Which part of which batch of which query a task writes.

    Attributes:
        query: Spark's id of the query, which a restart keeps.
        batch: Its number.
        partition: Its number.
    """

    query: str
    batch: int
    partition: int

    @property
    def key(self) -> str:
        """The record's key."""
        return f"{self.query}.{self.partition}"

    @property
    def tag(self) -> str:
        """What the ids of its rows begin with."""
        name = f"{self.query}:{self.batch}:{self.partition}"
        return hashlib.blake2b(name.encode(), digest_size=6).hexdigest() + "-"


@dataclass(frozen=True)
class Record:
    """What the bucket says of a partition.

    Attributes:
        batch: Number of the batch.
        created: Creation time of the target.
        before: The target's last sequence before the first row was published.
        rows: How many rows were stored; None until all are.
        total: A sum over their ids, whatever their order.
    """

    batch: int
    created: str
    before: int
    rows: int | None = None
    total: int = 0


class SinkState:
    """One attempt to write one partition of a batch.

    Args:
        js: Where the target and the bucket are.
        bucket: Name of the bucket.
        stream: Name of the target.
        subject: The subject of all rows, where they have one. Default: any.
        name: What is written.

    Attributes:
        skipped: Rows so far that the target had.
    """

    def __init__(
        self, js: jetarrow.sync.JetStream, bucket: str, stream: str, *, subject: str | None, name: BatchName
    ) -> None:
        self._js = js
        self._bucket = retry_transient(lambda: js.key_value(bucket))
        self._stream, self._subject, self._name = stream, subject, name
        self._found: Record | None = None
        self._known: pa.Array | None = None
        self._foreign = False
        self._rows = self._total = self._tagged = self.skipped = 0
        self._take_over()

    def _take_over(self) -> None:
        name = self._name
        try:
            entry = retry_transient(lambda: self._bucket.get(name.key))
            found, last = Record(**json.loads(entry.value or b"")), entry.revision or 0
        except KeyNotFoundError as error:  # never there, or deleted by hand
            found, last = None, (error.entry.revision or 0) if error.entry is not None else 0
        if found is not None and found.batch > name.batch:
            raise self._lost(f"batch {found.batch} has begun")
        info = self._info()
        created, end = info.created_raw or "", info.state.last_seq
        if found is not None and (found.batch, found.created) == (name.batch, created):
            self._found = found
        # A target that was made again has nothing of it, as at the first attempt.
        self._record = self._found or Record(name.batch, created, end)
        self._revision = self._write(self._record, last)
        self._looked = monotonic()

    def note(self, piece: pa.RecordBatch, own: pa.Array | None) -> pa.RecordBatch:
        """Take notice of rows that are about to be published.

        Args:
            piece: Rows with their ids.
            own: Which of them have brought one themselves. Default: none.

        Returns:
            Those that the target does not have, their ids tagged.

        Raises:
            Error: Another attempt has begun.
            ValueError: The id of a row is empty.
        """
        if monotonic() - self._looked > _LOOK_AGAIN:
            self._look()
        self._foreign = own is not None
        ids = piece.column("msg_id")
        if own is not None and pc.any(pc.equal(ids, "")).as_py():
            raise ValueError(
                "jetstream: a row has an empty msg_id, which exactlyOnce=state cannot find again; make it null"
            )
        tagged = pc.binary_join_element_wise(self._name.tag, ids, "")
        ids = tagged if own is None else pc.if_else(own, ids, tagged)
        self._rows += piece.num_rows
        self._total = (self._total + _total(ids)) & _BITS_64
        piece = piece.set_column(piece.schema.get_field_index("msg_id"), "msg_id", ids)
        if self._found is None:
            return piece
        if self._found.rows is not None:
            self.skipped += piece.num_rows
            return piece.slice(0, 0)
        there = pc.is_in(ids, value_set=self._ids())
        self.skipped += pc.sum(there).as_py() or 0
        self._tagged += pc.sum(pc.and_(there, pc.starts_with(ids, self._name.tag))).as_py() or 0
        return piece.filter(pc.invert(there))

    def finish(self) -> None:
        """Say that all rows are stored.

        Raises:
            Error: Another attempt has begun, or an earlier one has stored rows that say something else now.
        """
        found, name = self._found, f"batch {self._name.batch}, partition {self._name.partition}"
        if found is not None and found.rows is not None:
            if (found.rows, found.total) != (self._rows, self._total):
                raise self._changed(name, f"its {found.rows} rows were stored; it has {self._rows} now, or others")
            return
        if found is not None and (others := _tagged(self._ids(), self._name.tag) - self._tagged) > 0:
            raise self._changed(name, f"{others} rows are stored that it does not have now")
        self._write(replace(self._record, rows=self._rows, total=self._total), self._revision)

    def _ids(self) -> pa.Array:
        """The ids in the target that came since the first attempt."""
        if self._known is None:
            info, before = self._info(), self._record.before
            if info.state.first_seq > before + 1 and info.state.last_seq > before:
                raise self._gone(before + 1)
            self._known = self._read(before + 1, info.state.last_seq + 1)
        return self._known

    def _read(self, start: int, end: int) -> pa.Array:
        found: list[pa.Array] = []
        if start < end:
            subjects = None if self._subject is None else [self._subject]
            given: dict[str, Any] = {"start_seq": start, "end_seq": end, "subjects": subjects, "columns": ["headers"]}
            reader = retry_transient(lambda: RangeReader(self._js, self._stream, **given))
            try:
                while (item := reader.next()) is not None:
                    if isinstance(item, Loss):
                        raise self._gone(item.asked[0])
                    ids = message_ids(pa.record_batch(item).column("headers"))
                    # Those of others are of no use, unless rows of ours have ids that say not whose they are.
                    found.append(ids if self._foreign else ids.filter(pc.starts_with(ids, self._name.tag)))
            finally:
                reader.close()
        # Twice, where a task stood still for longer than the window in the middle of sending.
        return pc.unique(pa.concat_arrays([pa.array([], pa.string()), *found]))

    def _look(self) -> None:
        entry = retry_transient(lambda: self._bucket.get(self._name.key))
        # An older one is what a replica knows that lags behind.
        if (entry.revision or 0) > self._revision:
            raise self._lost("another attempt has begun")
        self._looked = monotonic()

    def _write(self, record: Record, last: int) -> int:
        text = json.dumps(asdict(record), sort_keys=True)
        try:
            revision: int = retry_transient(lambda: self._bucket.update(self._name.key, text, last=last))
        except KeyWrongLastSequenceError:
            raise self._lost("another attempt has begun") from None
        return revision

    def _info(self) -> StreamInfo:
        info: StreamInfo = retry_transient(lambda: self._js.stream_info(self._stream))
        return info

    def _lost(self, why: str) -> Error:
        name = self._name
        return Error(f"jetstream: this attempt of batch {name.batch}, partition {name.partition} was given up: {why}")

    def _gone(self, first: int) -> Error:
        return Error(
            f"jetstream: messages from {first} on of stream {self._stream!r} have gone since batch {self._name.batch}"
            f" was begun: nobody knows which of its rows were stored; delete key {self._name.key!r} of the sinkState"
            " bucket to write all of it again"
        )

    def _changed(self, name: str, how: str) -> Error:
        return Error(
            f"jetstream: {name} of this query has changed since an earlier attempt: {how}. exactlyOnce=state needs rows"
            " that are the same whenever they are computed (no rand(), no current_timestamp(), the same partitions);"
            f" delete key {self._name.key!r} of the sinkState bucket to write all of it again"
        )


def check_target(info: StreamInfo) -> None:
    """Check that a stream keeps what is stored in it, as far as its configuration says.

    Args:
        info: The target.

    Raises:
        ValueError: A message may go before a replay looks for it.
    """
    config = info.config
    if (config.retention or RetentionPolicy.LIMITS) != RetentionPolicy.LIMITS or (config.max_msgs_per_subject or 0) > 0:
        raise invalid(
            "exactlyOnce",
            f"stream {config.name!r} does not keep all that is stored in it ({config.retention},"
            f" max_msgs_per_subject={config.max_msgs_per_subject}), so that a replay could not tell what is missing",
            "window (default), or a stream with retention by limits and no limit per subject",
        )


def open_bucket(js: jetarrow.sync.JetStream, bucket: str, *, replicas: int) -> None:
    """Make the bucket if it is not there.

    Args:
        js: Where it is.
        bucket: Its name.
        replicas: How many servers keep a new one.

    Raises:
        APIError: It cannot be made.
    """
    try:
        js.key_value(bucket)
    except BucketNotFoundError:
        js.create_key_value(bucket=bucket, replicas=replicas, description="what Spark queries have written")


def _tagged(ids: pa.Array, tag: str) -> int:
    return int(pc.sum(pc.starts_with(ids, tag)).as_py() or 0)


def _total(ids: pa.Array) -> int:
    """A sum over ids, the same in any order."""
    texts = (one.encode() for one in ids.to_pylist() if one is not None)
    return sum(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts)
