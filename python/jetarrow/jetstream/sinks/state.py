"""Position of a sink, as stored with the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from jetarrow.jetstream.literals import TimestampNumbers
from jetarrow.jetstream.rollback import Mark, thin

# Version of the stored state.
FORMAT = 1
Gap = tuple[int, int]


class SinkResult(NamedTuple):
    """Result of one or more commits.

    Attributes:
        rows: Number of rows written to the table.
        files: Number of files written to the table.
        first_seq: First sequence of the rows; None if there are none.
        last_seq: Last sequence of the rows; None if there are none.
        corrupt: Number of undecodable rows, written to `_corrupt/`.
    """

    rows: int = 0
    files: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    corrupt: int = 0

    def plus(self, other: SinkResult) -> SinkResult:
        """Returns the sum of two results."""
        firsts = [seq for seq in (self.first_seq, other.first_seq) if seq is not None]
        lasts = [seq for seq in (self.last_seq, other.last_seq) if seq is not None]
        return SinkResult(
            self.rows + other.rows,
            self.files + other.files,
            min(firsts, default=None),
            max(lasts, default=None),
            self.corrupt + other.corrupt,
        )


@dataclass(frozen=True)
class State:
    """Position of a sink.

    Attributes:
        stream: Name of the stream.
        created: Creation time of the stream as the server writes it; sequences are valid only for this stream.
        last_seq: Every sequence up to this one is processed, except for the gaps.
        gaps: Ranges (first, last) below `last_seq` whose messages may still be redelivered.
        schema: The fields of `value` at the last start, as Arrow IPC in base64; None without a schema.
        marks: Sequence and time (nanoseconds) of the last processed message, and of a few older ones. They show whether
            the stream was rolled back. Empty in archives of an earlier version.
        epoch: Number of rollbacks of the stream: equal sequences in different epochs are different messages.
        rules: `time_zone` and `timestamp_numbers` of the last start.
        subjects: Subject filters of the last start; empty for all.
        durable: Name of the durable consumer of the last start; None without one.
        payload: Format of the payloads at the last start; None in archives of an earlier version.
    """

    stream: str
    created: str
    last_seq: int = 0
    gaps: tuple[Gap, ...] = ()
    schema: str | None = None
    marks: tuple[Mark, ...] = ()
    epoch: int = 0
    rules: tuple[str, TimestampNumbers | None] = ("UTC", None)
    subjects: tuple[str, ...] = ()
    durable: str | None = None
    payload: str | None = None
    format: int = field(default=FORMAT)

    def is_new(self, seq: int) -> bool:
        """Return whether the sequence has not been written yet."""
        return seq > self.last_seq or any(first <= seq <= last for first, last in self.gaps)

    def after(
        self, seqs: Sequence[int], *, delivered: int, settled: int, clean: bool, marks: Iterable[Mark] = ()
    ) -> State:
        """Return the state after a commit.

        Args:
            seqs: The committed sequences, in order.
            delivered: The last sequence that the consumer has delivered.
            settled: The consumer's ack floor: every sequence up to this one is acknowledged.
            clean: Whether no other delivered message is pending an ack.
            marks: Marks of some of the messages.
        """
        last = max([self.last_seq, *seqs[-1:]])
        marks = tuple(thin([*self.marks, *marks]))
        if clean:
            return replace(self, last_seq=last, gaps=(), marks=marks)
        open_ = [*self.gaps, (self.last_seq + 1, max(delivered, last))]
        gaps = [(max(first, settled + 1), until) for first, until in without(open_, seqs)]
        # Sequences above the position are new in any case.
        gaps = [(first, min(until, last)) for first, until in gaps if first <= until and first <= last]
        return replace(self, last_seq=last, gaps=tuple(gaps), marks=marks)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, record: dict[str, Any]) -> State:
        """Return the state of a JSON object, which may have other fields."""
        known = {name: record[name] for name in ("stream", "created", "last_seq", "schema", "format")}

        def pairs(name: str) -> tuple[tuple[int, int], ...]:
            return tuple((int(one), int(two)) for one, two in record.get(name, ()))

        zone, numbers = record.get("rules", ("UTC", None))
        epoch = record.get("epoch", 0)
        return cls(
            **known,
            gaps=pairs("gaps"),
            marks=pairs("marks"),
            epoch=epoch,
            rules=(zone, numbers),
            subjects=tuple(record.get("subjects", ())),
            durable=record.get("durable"),
            payload=record.get("payload"),
        )

    def rolled_back_to(self, last_seq: int) -> State:
        """Return the state after a rollback of the stream.

        Args:
            last_seq: The last sequence that is still valid; 0 if none is.
        """
        gaps = tuple((first, min(last, last_seq)) for first, last in self.gaps if first <= last_seq)
        marks = tuple(mark for mark in self.marks if mark[0] <= last_seq)
        return replace(self, last_seq=last_seq, gaps=gaps, marks=marks, epoch=self.epoch + 1)


def without(gaps: Iterable[Gap], seqs: Sequence[int]) -> list[Gap]:
    """Return ranges without the given sequences, which are in order."""
    found: list[Gap] = []
    for first, last in gaps:
        for seq in seqs:
            if first <= seq <= last:
                if first < seq:
                    found.append((first, seq - 1))
                first = seq + 1
        if first <= last:
            found.append((first, last))
    return found
