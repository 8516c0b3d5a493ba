"""How far a sink has come, as it is kept with the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from jetarrow.jetstream.rollback import Mark, thin

# Of what is written: a later form has another number.
FORMAT = 1
Gap = tuple[int, int]


class SinkResult(NamedTuple):
    """What a sink wrote.

    Attributes:
        rows: Rows of the table.
        files: Files of the table.
        first_seq: The first sequence among them; None where there are none.
        last_seq: The last one.
        corrupt: Rows that could not be decoded, and lie in `_corrupt/`.
    """

    rows: int = 0
    files: int = 0
    first_seq: int | None = None
    last_seq: int | None = None
    corrupt: int = 0

    def plus(self, other: SinkResult) -> SinkResult:
        """Both together."""
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
    """A position.

    Attributes:
        stream: The stream.
        created: When the stream was created, as the server writes it: its sequences mean nothing in a later one.
        last_seq: Every sequence up to this one is dealt with, but for the gaps.
        gaps: RangeSource (first, last) below it that a consumer has delivered and that may still come.
        schema: The fields of `value`, as Arrow IPC in base64; None without a schema.
        marks: Sequence and time (nanoseconds) of the last message that is dealt with, and of a few older ones. They
            show whether the stream went back. Empty in archives of an earlier version.
        epoch: How often the stream has gone back: a later epoch's rows of the same sequences are other messages.
    """

    stream: str
    created: str
    last_seq: int = 0
    gaps: tuple[Gap, ...] = ()
    schema: str | None = None
    marks: tuple[Mark, ...] = ()
    epoch: int = 0
    format: int = field(default=FORMAT)

    def is_new(self, seq: int) -> bool:
        """Whether the sequence has not been written yet."""
        return seq > self.last_seq or any(first <= seq <= last for first, last in self.gaps)

    def after(
        self, seqs: Sequence[int], *, delivered: int, settled: int, clean: bool, marks: Iterable[Mark] = ()
    ) -> State:
        """The state once these are written.

        Args:
            seqs: What a consumer delivered and is written now, in order.
            delivered: The last sequence that the consumer has delivered.
            settled: Everything up to this one is acknowledged.
            clean: Nothing else that was delivered waits for an acknowledgement.
            marks: Of some of the messages.
        """
        last = max([self.last_seq, *seqs[-1:]])
        marks = tuple(thin([*self.marks, *marks]))
        if clean:
            return replace(self, last_seq=last, gaps=(), marks=marks)
        open_ = [*self.gaps, (self.last_seq + 1, max(delivered, last))]
        gaps = [(max(first, settled + 1), until) for first, until in without(open_, seqs)]
        # What lies above the position is new anyhow.
        gaps = [(first, min(until, last)) for first, until in gaps if first <= until and first <= last]
        return replace(self, last_seq=last, gaps=tuple(gaps), marks=marks)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def of(cls, said: dict[str, Any]) -> State:
        """Out of JSON, where other things may stand beside it."""
        known = {name: said[name] for name in ("stream", "created", "last_seq", "schema", "format")}

        def pairs(name: str) -> tuple[tuple[int, int], ...]:
            return tuple((int(one), int(two)) for one, two in said.get(name, ()))

        return cls(**known, gaps=pairs("gaps"), marks=pairs("marks"), epoch=said.get("epoch", 0))

    def rolled_back_to(self, last_seq: int) -> State:
        """The state where the stream has gone back, and everything behind this sequence is to come.

        Args:
            last_seq: The last sequence that still counts; 0 where none does.
        """
        gaps = tuple((first, min(last, last_seq)) for first, last in self.gaps if first <= last_seq)
        marks = tuple(mark for mark in self.marks if mark[0] <= last_seq)
        return replace(self, last_seq=last_seq, gaps=gaps, marks=marks, epoch=self.epoch + 1)


def without(gaps: Iterable[Gap], seqs: Sequence[int]) -> list[Gap]:
    """RangeSource without some sequences, which are in order."""
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
