"""Offsets of a streaming query, in the JSON format that Spark logs and compares as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jetarrow.spark._core import Mark

_VERSION = 1
# Maximum number of marks in an offset, of all streams; each stream has at least one.
_MOST_MARKS = 64


@dataclass(frozen=True)
class Entry:
    """Position of a query in one stream.

    Attributes:
        created: Creation time of the stream; the position is valid only for this stream.
        next: The next sequence to read.
        initial: Before the first read: "earliest" if it begins at the head, which may move, or "ahead" if it begins
            after the end. Default: None.
        marks: Sequence and time (nanoseconds since 1970) of the last message before `next`, and of a few older ones,
            which show whether the stream was rolled back. Default: none, as in checkpoints of an earlier version.
    """

    created: str
    next: int
    initial: Literal["earliest", "ahead"] | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Offset:
    """End of a micro-batch, with the data to plan the batch again.

    Attributes:
        streams: End of the batch by stream.
        start: Begin of the batch, because Spark requests the initial offset more than once, and `latest` moves. Empty
            for the offset at which a query starts; None in checkpoints without it. Default: empty.
        parts: Number of partitions by stream. Default: empty.
        owner: Name of the query for its consumers with `commitMode=consumer`. Default: none.
        by: Tokens of `partitionBy` with which the batch is planned. Default: none.
    """

    streams: Mapping[str, Entry]
    start: Mapping[str, Entry] | None = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)
    owner: str | None = None
    by: tuple[int, ...] = ()

    def json(self) -> dict[str, Any]:
        """Return the offset as JSON. Keys are sorted, because Spark compares the text."""
        logged: dict[str, Any] = {"by": list(self.by)} if self.by else {}
        if self.start is not None:
            logged["from"] = _sorted(self.start, marks=0)
        if self.owner is not None:
            logged["owner"] = self.owner
        parts = {name: self.parts[name] for name in sorted(self.parts)}
        # Many streams have few marks each, because Spark copies the text several times per batch.
        marks = max(1, _MOST_MARKS // max(1, len(self.streams)))
        return {**logged, "parts": parts, "streams": _sorted(self.streams, marks=marks), "v": _VERSION}

    @classmethod
    def of(cls, logged: Mapping[str, Any]) -> Offset:
        """Parse an offset of `json`.

        Args:
            logged: The offset in Spark's log.

        Raises:
            ValueError: The offset is of another source, or of a later version of this one.
        """
        try:
            version = logged["v"]
            if version == _VERSION:
                start = logged.get("from")
                ends, parts = _entries(logged["streams"]), dict(logged["parts"])
                by = tuple(int(token) for token in logged.get("by", ()))
                return cls(ends, None if start is None else _entries(start), parts, logged.get("owner"), by)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            raise ValueError("jetstream: this checkpoint was not written by format('jetstream')") from None
        raise ValueError(f"jetstream: this checkpoint has offsets of version {version}; upgrade jetarrow")


def _sorted(entries: Mapping[str, Entry], *, marks: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted(entries):
        entry = entries[name]
        found[name] = {"created": entry.created}
        if entry.initial is not None:
            found[name]["initial"] = entry.initial
        if entry.marks[:marks]:
            found[name]["marks"] = [list(mark) for mark in entry.marks[:marks]]
        found[name]["next"] = entry.next
    return found


def _entries(logged: Mapping[str, Any]) -> dict[str, Entry]:
    found = {}
    for name, one in logged.items():
        marks = tuple((int(seq), int(nanos)) for seq, nanos in one.get("marks", ()))
        found[name] = Entry(one["created"], int(one["next"]), one.get("initial"), marks)
    return found
