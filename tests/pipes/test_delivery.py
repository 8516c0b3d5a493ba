"""Model test of the delivery of a step: a target with other publishers, lost answers, late batches and rollbacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st
from jetarrow.jetstream.pipes.delivery import (
    Delivery,
    Done,
    Fenced,
    Found,
    Look,
    Lost,
    Refused,
    RolledBack,
    Send,
)

from tests.strategies import bounded

Event = Literal["fine", "foreign", "answer lost", "lost", "late", "taken over", "rolled back", "purged", "refused"]
EVENTS: tuple[Event, ...] = (
    "fine",
    "foreign",
    "answer lost",
    "lost",
    "late",
    "taken over",
    "rolled back",
    "purged",
    "refused",
)
# Sequence of this instance's position before the step.
FIRST = 10


class Entry(NamedTuple):
    """A position in the target: its sequence, its owner, and the part that it ends."""

    seq: int
    owner: str
    part: int


@dataclass
class Target:
    """The target: the sequence of its last message, and its positions."""

    sizes: list[int]
    last: int = FIRST
    entries: list[Entry] = field(default_factory=lambda: [Entry(FIRST, "us", 0)])
    # Parts that were sent and are still on their way: part and expected sequence.
    late: list[tuple[int, int]] = field(default_factory=list)
    taken_over = rolled_back = purged = False

    def store(self, part: int, expected: int) -> int | None:
        """Stores a part; None if it expects another position."""
        current = self.entries[-1].seq if self.entries else 0
        if current != expected:
            return None
        self.last += self.sizes[part]
        self.entries.append(Entry(self.last, "us", part + 1))
        return self.last

    def arrive(self) -> None:
        """Stores what is still on its way, if it fits."""
        for part, expected in self.late:
            self.store(part, expected)
        self.late = []

    def happen(self, event: Event) -> None:
        if event == "foreign":
            self.last += 3
        elif event == "taken over":
            self.last += 1
            self.taken_over = True
            self.entries.append(Entry(self.last, "other", 0))
        elif event == "rolled back" and len(self.entries) > 1:
            self.entries.pop()
            self.last = self.entries[-1].seq
            self.rolled_back = True
        elif event == "purged":
            self.entries.clear()
            self.purged = True

    def send(self, action: Send, events: list[Event]) -> tuple[list[int | None], str | None]:
        """Sends parts one after the other, and returns the answers."""
        seqs: list[int | None] = []
        for place, expected in enumerate(action.expected):
            event = events.pop() if events else "fine"
            self.happen(event)
            part = action.first + place
            rest = [None] * (len(action.expected) - place)
            if event == "refused":
                return [*seqs, *rest], "refused"
            if event == "lost":
                return [*seqs, *rest], "unknown"
            if event == "late":
                self.late.append((part, expected))
                return [*seqs, *rest], "unknown"
            seq = self.store(part, expected)
            if event == "answer lost":
                return [*seqs, *rest], "unknown"
            if seq is None:
                return [*seqs, *rest], "expected"
            seqs.append(seq)
        return seqs, None

    def found(self) -> Found | None:
        if not self.entries:
            return None
        entry = self.entries[-1]
        return Found(entry.seq, entry.owner == "us", entry.part, self.last)


def is_once(target: Target, stored: int) -> bool:
    """Whether the parts are stored, each once and in order."""
    return [entry.part for entry in target.entries if entry.owner == "us"] == list(range(stored + 1))


@given(
    st.lists(st.sampled_from([1000, 1000, 1000, 7]), min_size=1, max_size=12),
    st.lists(st.sampled_from(EVENTS), max_size=30),
    st.integers(1, 64),
    st.integers(0, 2),
)
@example([1000, 1000, 7], ["fine", "answer lost"], 64, 0)
@example([1000, 1000, 7], ["late", "fine"], 1, 0)
@example([1000, 7], ["rolled back", "answer lost"], 8, 0)
@bounded(2_000)
def test_each_part_is_stored_once_or_the_end_has_its_reason(
    sizes: list[int], events: list[Event], window: int, error: int
) -> None:
    target = Target(sizes)
    delivery = Delivery(sizes, seq=FIRST, last_seq=FIRST - error, window=window)
    for _ in range(500):
        action = delivery.action
        assert target.taken_over or target.rolled_back or target.purged or is_once(target, len(target.entries) - 1)
        if isinstance(action, Send):
            delivery.sent(*target.send(action, events))
        elif isinstance(action, Look):
            if action.pause or not events:
                target.arrive()
            delivery.looked(target.found())
        else:
            break
    match delivery.action:
        case Done():
            target.arrive()
            history = target.taken_over or target.rolled_back or target.purged
            assert delivery.stored == len(sizes)
            assert history or (is_once(target, len(sizes)) and delivery.seq == target.entries[-1].seq)
        case Fenced():
            assert target.taken_over
        case Lost():
            assert target.purged
        case RolledBack(expected, found):
            assert target.rolled_back
            assert found < expected
        case Refused(part):
            assert part == delivery.stored < len(sizes)
        case action:
            raise AssertionError(f"the delivery does not end: {action}")


def test_a_quiet_target_gets_all_parts_at_once_and_a_busy_one_some() -> None:
    sizes = [1000] * 20
    target, delivery = Target(sizes), Delivery(sizes, seq=FIRST, last_seq=FIRST, window=64)
    assert isinstance(delivery.action, Send)
    assert len(delivery.action.expected) == 20
    delivery.sent(*target.send(delivery.action, ["foreign", "fine"]))
    assert (delivery.action, delivery.stored) == (Look(pause=False), 2)
    delivery.looked(target.found())
    assert delivery.action == Send(2, (FIRST + 2003,))


def test_a_part_of_another_size_ends_an_attempt() -> None:
    delivery = Delivery([1000, 400, 1000, 3], seq=5, last_seq=5, window=64)
    assert delivery.action == Send(0, (5, 1005))
