"""Position of a load, as stored before and after each step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from jetarrow.jetstream.errors import ResumeError
from jetarrow.jetstream.rollback import Mark, thin

# Version of the stored position.
FORMAT = 1


@dataclass(frozen=True)
class Position:
    """The position of a load.

    Rows below `row` are resolved: stored or rejected. Rows from `sent_until` on were never sent. The rows between may
    be stored, and then their sequences are higher than `seq`: a run that continues looks for their ids there.

    Attributes:
        stream: Name of the stream.
        created: Creation time of the stream as the server writes it; sequences are valid only for this stream.
        head: Number of the first messages that identify the table.
        digest: Hash of their subjects and payloads.
        source: Facts that identify the file; empty for a table.
        ids: Origin of the message ids: "row" (`token` and the row's number), "content" or "column NAME".
        token: Prefix of the ids of origin "row".
        row: The first row that is not resolved.
        seq: Last sequence of the stream before the rows from `row` on were sent.
        sent_until: The first row that was never sent.
        marks: Sequence and time (nanoseconds) of a last message, and of a few older ones. They show whether the stream
            was rolled back.
        rejected: Number of resolved rows that could not be encoded or have no valid subject.
        complete: Whether every row is resolved.
    """

    stream: str
    created: str
    head: int
    digest: str
    source: Mapping[str, Any]
    ids: str
    token: str
    row: int = 0
    seq: int = 0
    sent_until: int = 0
    marks: tuple[Mark, ...] = ()
    rejected: int = 0
    complete: bool = False
    format: int = field(default=FORMAT)

    @property
    def is_uncertain(self) -> bool:
        """Whether rows from `row` on may be stored."""
        return self.row < self.sent_until

    def announce(self, rows: int) -> Position:
        """Return the position before the next rows are sent.

        Args:
            rows: Number of rows from `row` on that may be sent next.
        """
        return replace(self, sent_until=max(self.sent_until, self.row + rows), complete=False)

    def advance(self, rows: int, *, rejected: int) -> Position:
        """Return the position after the next rows are resolved.

        Args:
            rows: Their number.
            rejected: The number of those that were rejected.
        """
        row = self.row + rows
        return replace(self, row=row, sent_until=max(self.sent_until, row), rejected=self.rejected + rejected)

    def after(self, seq: int, time: int | None) -> Position:
        """Return the position with the stream's last sequence; every sent row must be resolved.

        Args:
            seq: The last sequence.
            time: Its time in nanoseconds; None if the message is not available.
        """
        marks = self.marks if time is None else tuple(thin([*self.marks, (seq, time)]))
        return replace(self, seq=max(seq, self.seq), marks=marks)

    def end_uncertainty(self) -> Position:
        """Return the position after all rows that may be stored are resolved; the table may have ended before."""
        return replace(self, sent_until=self.row)

    def finish(self) -> Position:
        """Return the position of a load whose rows are all resolved."""
        return replace(self, sent_until=self.row, complete=True)

    def dump(self) -> bytes:
        """Return the position as a line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes | str, where: str) -> Position:
        """Return the position of a line of JSON.

        Args:
            data: The JSON text.
            where: The place, for the error.

        Raises:
            ResumeError: It is not a position, or one of a later version.
        """
        try:
            found = json.loads(data)
            if found["format"] > FORMAT:
                raise ResumeError(f"could not resume: {where} is of a later version of jetarrow; upgrade jetarrow")
            marks = tuple((int(seq), int(time)) for seq, time in found.pop("marks"))
            return cls(**found, marks=marks)
        except (ValueError, TypeError, KeyError) as error:
            raise ResumeError(f"could not resume: {where} is not a position of a load; use another place") from error
