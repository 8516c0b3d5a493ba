"""Offsets of a streaming query, as Spark logs and compares them: as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jetarrow.spark._core import Mark

_VERSION = 1
# Marks in an offset, of all streams; each has one at least.
_MOST_MARKS = 64


@dataclass(frozen=True)
class Entry:
    """Where a query stands in one stream.

    Attributes:
        created: Creation time of the stream: the sequences of another stream of that name mean nothing here.
        next: The next sequence to read.
        initial: Until something was read: "earliest" where it begins at the head, which may move, "ahead" where it
            begins beyond the end. Default: None.
        marks: Sequence and time, in nanoseconds since 1970, of the last message before `next`, and of a few older ones:
            they show whether the stream went back. Default: none, as in checkpoints of an earlier version.
    """

    created: str
    next: int
    initial: Literal["earliest", "ahead"] | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Offset:
    """The end of a micro-batch, with all that is needed to plan the batch again.

    Attributes:
        streams: Where it ends, by stream.
        start: Where it begins; Spark asks for the initial offset more than once, and `latest` moves. Empty for the
            offset at which a query starts; None where Spark did not say where the batch begins (before 4.2, after a
            restart). Default: empty.
        parts: How many partitions each stream has in it. Default: empty.
    """

    streams: Mapping[str, Entry]
    start: Mapping[str, Entry] | None = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        """Return it for Spark. Keys are sorted: Spark compares the text, and another order would be a new batch."""
        logged: dict[str, Any] = {} if self.start is None else {"from": _sorted(self.start, marks=0)}
        parts = {name: self.parts[name] for name in sorted(self.parts)}
        # Of many streams each has few marks: Spark hands the text around several times a batch.
        marks = max(1, _MOST_MARKS // max(1, len(self.streams)))
        return {**logged, "parts": parts, "streams": _sorted(self.streams, marks=marks), "v": _VERSION}

    @classmethod
    def of(cls, logged: Mapping[str, Any]) -> Offset:
        """Read what `json` wrote.

        Args:
            logged: As Spark has it from its log.

        Raises:
            ValueError: It is not an offset of this source, or of a later version of it.
        """
        try:
            version = logged["v"]
            if version == _VERSION:
                start = logged.get("from")
                ends, parts = _entries(logged["streams"]), dict(logged["parts"])
                return cls(ends, None if start is None else _entries(start), parts)
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
