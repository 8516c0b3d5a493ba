"""Delivery of the parts of a step: the decisions, without I/O.

Each part is an atomic batch that ends in a message on the position's subject, which expects the sequence of the one
before. So the parts are stored in order, each once, and by one instance only. Several parts are sent at a time with
the sequences that they have if no other publisher writes to the target; a part that was sent with a wrong one is
refused and sent again. A part counts as stored only if the server confirmed it, or has its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

# Most parts that are sent at a time.
MOST_PARTS = 64


@dataclass(frozen=True)
class Send:
    """Send these parts, each with the sequence of the position that it expects."""

    first: int
    expected: tuple[int, ...]


@dataclass(frozen=True)
class Look:
    """Read the position in the target, after a pause if the last attempt failed without a reason of its own."""

    pause: bool


@dataclass(frozen=True)
class Done:
    """Every part is stored."""


@dataclass(frozen=True)
class Refused:
    """The server refuses this part, whatever its position is."""

    part: int


@dataclass(frozen=True)
class Fenced:
    """Another instance has stored its position."""


@dataclass(frozen=True)
class Lost:
    """The target has no position any more."""


@dataclass(frozen=True)
class RolledBack:
    """The target ends before a position that was stored.

    Attributes:
        expected: Sequence of that position.
        found: Sequence of the position that the target has.
    """

    expected: int
    found: int


Action: TypeAlias = Send | Look | Done | Refused | Fenced | Lost | RolledBack


@dataclass(frozen=True)
class Found:
    """The position in the target.

    Attributes:
        seq: Its sequence.
        is_ours: This instance stored it.
        stored: Number of parts of the step that are stored with it; 0 before the first one.
        last_seq: A last sequence of the target, or of this position.
    """

    seq: int
    is_ours: bool
    stored: int
    last_seq: int


class Delivery:
    """Delivers the parts of one step.

    Args:
        sizes: Number of messages of each part, with its position.
        seq: Sequence of this instance's last position.
        last_seq: A last sequence of the target; a guess, which costs an attempt if it is wrong.
        window: Most parts of the first attempt.
        stored: Number of parts that are stored already.
        full: Messages of a full part. A part of another size ends an attempt.
    """

    def __init__(
        self, sizes: Sequence[int], *, seq: int, last_seq: int, window: int, stored: int = 0, full: int = 1_000
    ) -> None:
        self._sizes, self._full = sizes, full
        self.seq, self.last_seq, self.window = seq, last_seq, window
        self.stored = stored
        self._next: Action = Done()
        self._plan()

    @property
    def action(self) -> Action:
        """The next action."""
        return self._next

    def _plan(self) -> None:
        """Send the parts that are left."""
        if self.stored == len(self._sizes):
            self._next = Done()
            return
        expected, last = [self.seq], self.last_seq
        for size in self._sizes[self.stored : min(len(self._sizes), self.stored + self.window) - 1]:
            if size != self._full:
                break
            last += size
            expected.append(last)
        self._next = Send(self.stored, tuple(expected))

    def sent(self, seqs: Sequence[int | None], reason: str | None = None) -> None:
        """Take the result of `Send`.

        Args:
            seqs: Sequence of the position of each part that was sent; None if it is not known to be stored.
            reason: Of the first part without a sequence: "expected" if its expectation was wrong, "refused" if the
                server refuses it, "unknown" if it may be stored, or failed for a reason that may pass.
        """
        stored = next((place for place, seq in enumerate(seqs) if seq is None), len(seqs))
        if stored:
            self.stored += stored
            self.seq = self.last_seq = seqs[stored - 1] or 0
        if stored == len(seqs):
            self.window = min(2 * self.window, MOST_PARTS)
            self._plan()
        elif reason == "refused":
            self._next = Refused(self.stored)
        else:
            self.window = 1
            self._next = Look(pause=reason == "unknown")

    def looked(self, found: Found | None) -> None:
        """Take the result of `Look`: the position in the target, None if there is none."""
        if found is None:
            self._next = Lost()
        elif not found.is_ours:
            self._next = Fenced()
        elif found.seq < self.seq:
            self._next = RolledBack(self.seq, found.seq)
        else:
            # A part whose answer was lost is stored if the target has its position.
            self.stored, self.seq = max(self.stored, found.stored), found.seq
            self.last_seq = found.last_seq
            self._plan()
