"""The state of a stream: the last message of each subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.reader import BATCH_BYTES, DEFAULT_FETCH_BYTES, Reader


class Latest:
    """The verb `latest` of a context."""

    _api: JetStreamApi

    def latest(
        self,
        stream: str,
        subjects: str | Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        schema: ArrowSchema | Mapping[str, Any] | str | None = None,
        mode: str = "PERMISSIVE",
        format: Literal["json", "arrow"] = "json",
        flatten: bool = False,
        as_of_seq: int | None = None,
        as_of_time: datetime | timedelta | str | None = None,
        deleted: bool = False,
        limit: int | None = None,
        batch_rows: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
        timestamp_unit: str = "ns",
        progress: Progress | bool | None = None,
    ) -> Reader:
        """Reads the last message of each subject, in order of sequence, as Arrow batches: the state of a stream.

        Each subject has one row: its last message at opening. `reader.position` is one past the last sequence at
        opening, and `js.read(stream, start_seq=reader.position, follow=True)` goes on with what changes.

        What is deleted while it is read is left out. Where a later message took its place meanwhile, as in a stream
        with `max_msgs_per_subject=1`, the value at opening is gone: the subject's row is then the later message, whose
        `seq` is at or beyond `reader.position`. In such a read a subject that is new since opening may have a row too.

        As of a point in the past there is what the stream still holds of it: of a stream that keeps one message a
        subject, only the subjects that were not written to since. Where all messages up to there are gone, it is an
        error. Everything up to there is gone through twice, the first time without payloads, with some 50 bytes of
        memory a subject.

        Args:
            stream: The stream. Its retention must be "limits".
            subjects: Filters, one or several that do not overlap; None is all.
            columns: As `js.read`.
            schema: As `js.read`.
            mode: As `js.read`.
            format: As `js.read`; a subject's last message is all its rows.
            flatten: As `js.read`.
            as_of_seq: The state when this was the last sequence; None is now.
            as_of_time: Instead of `as_of_seq`: the state right before this time, given as for `js.read`.
            deleted: Subjects whose last message is a deletion marker have a row too: of key-value buckets
                (`KV-Operation`), and of the server (`Nats-Marker-Reason`). By default they have none.
            limit: Most rows; None is all.
            batch_rows: As `js.read`.
            batch_bytes: A batch is cut when its messages have this number of bytes, default 16 MiB, at most 1 GiB.
            fetch_bytes: As `js.read`.
            timestamp_unit: As `js.read`.
            progress: As `js.read`.

        Returns:
            A reader, as `js.read` gives it.

        Raises:
            ValueError: An argument that cannot be used.
            NotFoundError: While it is read: there is no such stream.
            DataLossError: While it is read: all messages up to `as_of_seq` or `as_of_time` are gone.
        """
        if as_of_seq is not None and as_of_seq < 0:
            raise ValueError(f"as_of_seq must be 0 or more, not {as_of_seq}")
        if as_of_seq is not None and as_of_time is not None:
            raise ValueError("give as_of_seq or as_of_time, not both")
        return Reader(
            self._api,
            stream,
            end_seq=None if as_of_seq is None else as_of_seq + 1,
            end_time=as_of_time,
            subjects=subjects,
            columns=columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            fetch_bytes=fetch_bytes,
            timestamp_unit=timestamp_unit,
            schema=schema,
            mode=mode,
            format=format,
            flatten=flatten,
            limit=limit,
            progress=progress,
            latest=True,
            deleted=deleted,
        )
