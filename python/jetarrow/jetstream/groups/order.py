"""Order of a member: the rows that it may release, and the acknowledgements that count. Without I/O.

A consumer is pinned to one program. When the pin moves, the messages that the former program had in work are delivered
again after `ack_wait`, behind later messages of their keys. So rows are held back after each new pin, until all
unacknowledged messages of the consumer are here; the same for one partition after a row is rejected.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

T = TypeVar("T")

# Part of the pinned time after which the pin has to be checked: messages take time to reach the server.
SAFE = 0.75
# Times `ack_wait` after which a message that did not return is not waited for. It is due after one, and the server
# delivers due messages before new ones. Only a client that keeps it in progress without the pin can delay it more.
BOUND = 2.0
# Acknowledged sequences that are remembered, of each of two halves: a message whose acknowledgement was lost with the
# connection is acknowledged again and not released twice.
REMEMBERED = 65_536


class Part(NamedTuple, Generic[T]):
    """Rows of one partition as they were fetched."""

    partition: int
    seqs: list[int]
    rows: T


class Release(NamedTuple, Generic[T]):
    """Rows of one partition in the order of their sequences."""

    epoch: int
    partition: int
    parts: list[Part[T]]


class Refused(NamedTuple, Generic[T]):
    """Fetched rows that are not held: `reject` is to be delivered again, `repeat` was acknowledged before."""

    reject: list[T]
    repeat: list[T]


@dataclass(slots=True)
class _Acked:
    """The last sequences that were acknowledged."""

    new: set[int]
    old: set[int]

    def add(self, seqs: Iterable[int]) -> None:
        self.new.update(seqs)
        if len(self.new) > REMEMBERED:
            self.old, self.new = self.new, set()

    def remove(self, seqs: Iterable[int]) -> None:
        self.new.difference_update(seqs)
        self.old.difference_update(seqs)

    def __contains__(self, seq: int) -> bool:
        return seq in self.new or seq in self.old


class MemberOrder(Generic[T]):
    """The rows of one program that runs as a member, from the fetch to the acknowledgement.

    Args:
        ack_wait: Seconds after which a message is delivered again.
        pinned_time: Seconds without a pull after which the server pins another program.
        cut: Returns the rows with these numbers, which ascend.
    """

    def __init__(self, ack_wait: float, pinned_time: float, cut: Callable[[T, list[int]], T]) -> None:
        self._bound = BOUND * ack_wait
        self._safe = SAFE * pinned_time
        self._cut = cut
        # Changes with each pin and each consumer: acknowledgements of rows of another epoch do not count.
        self.epoch = 0
        self.pin: str | None = None
        # Start of the last fetch for which the server accepted the pin.
        self.confirmed = -math.inf
        self._hold_until: float | None = None
        self._held: dict[int, list[Part[T]]] = {}
        # Sequences of the held rows, and of those that were released and are not settled.
        self._held_seqs: set[int] = set()
        self._out: set[int] = set()
        # Releases that the program has not taken yet. Only the thread that iterates changes it: those of former epochs
        # stay until their turn comes.
        self.ready: deque[Release[T]] = deque()
        # Rejected rows by partition, with the time until which they are waited for.
        self._missing: dict[int, dict[int, float]] = {}
        self._acked = _Acked(set(), set())
        self._high = -1

    @property
    def held(self) -> int:
        """Number of rows that are held."""
        return len(self._held_seqs)

    @property
    def held_rows(self) -> list[T]:
        """The rows that the program has not got, to be kept in progress."""
        ready = [release.parts for release in list(self.ready) if release.epoch == self.epoch]
        return [part.rows for parts in (*self._held.values(), *ready) for part in parts]

    def is_fresh(self, now: float) -> bool:
        """Whether this program has the pin for certain."""
        return self.pin is not None and now - self.confirmed <= self._safe

    @property
    def is_waiting(self) -> bool:
        """Whether rows wait for others: the number of unacknowledged messages of the consumer ends that."""
        return self._hold_until is not None or bool(self._missing)

    def forget_consumer(self) -> None:
        """Drops everything: the consumer was deleted or replaced."""
        self._lose()
        self._acked = _Acked(set(), set())

    def fetched(
        self, parts: Sequence[Part[T]], *, pin: str | None, started: float, now: float, is_last: bool
    ) -> Refused[T]:
        """Takes the rows of a fetch.

        Args:
            parts: Rows by partition.
            is_last: Whether the server had no more rows that it may deliver.
            pin: The pin id after the fetch; None without one.
            started: The time before the fetch.
            now: The time after it.

        Returns:
            Rows to be rejected at the server, and rows to be acknowledged again.
        """
        refused: Refused[T] = Refused([], [])
        if pin != self.pin:
            # A fetch over two pins does not show which rows belong to the former one.
            is_mixed, is_late = self.pin is not None, now - started > self._safe
            self._lose()
            self.pin = pin
            if pin is None:
                return refused
            self._hold_until = now + self._bound
            self.confirmed = started
            if is_mixed or is_late:
                # After a hang there may have been two pins, and the rows may be in work at another program.
                return Refused([] if is_late else [part.rows for part in parts], [])
        if pin is None:
            return refused
        self.confirmed = max(self.confirmed, started)
        high = self._high
        for part in parts:
            self._take(part, refused, high)
        if is_last:
            self._expire(started)
        return refused

    def _take(self, part: Part[T], refused: Refused[T], high: int) -> None:
        seqs = part.seqs
        if not seqs:
            return
        if seqs[0] > high and all(map(int.__lt__, seqs, seqs[1:])):
            self._hold(part)
            return
        new: list[int] = []
        repeated: list[int] = []
        missing = self._missing.get(part.partition, {})
        for row, seq in enumerate(seqs):
            if seq in self._acked:
                repeated.append(row)
            elif seq not in self._held_seqs and seq not in self._out:
                missing.pop(seq, None)
                if new and seqs[new[-1]] > seq:
                    self._hold(self._cut_part(part, new))
                    new = []
                new.append(row)
                self._held_seqs.add(seq)
        if not missing:
            self._missing.pop(part.partition, None)
        if new:
            self._hold(self._cut_part(part, new))
        if repeated:
            refused.repeat.append(self._cut(part.rows, repeated))

    def _hold(self, part: Part[T]) -> None:
        self._held.setdefault(part.partition, []).append(part)
        self._held_seqs.update(part.seqs)
        self._high = max(self._high, part.seqs[-1])

    def _cut_part(self, part: Part[T], rows: list[int]) -> Part[T]:
        if len(rows) == len(part.seqs):
            return part
        return Part(part.partition, [part.seqs[row] for row in rows], self._cut(part.rows, rows))

    def checked(self, pinned_id: str | None) -> bool:
        """Returns whether the server's pin is that of this program; if not, drops all rows."""
        if self.pin is None or pinned_id != self.pin:
            self._lose()
            return False
        return True

    def counted(self, num_ack_pending: int) -> None:
        """Takes the number of unacknowledged messages of the consumer, requested after the last fetch."""
        if num_ack_pending <= len(self._held_seqs) + len(self._out):
            # Each of them is here: none is left that could be delivered behind later ones.
            self._hold_until = None
            self._missing.clear()

    def release(self, rows: int, now: float) -> list[Release[T]]:
        """Returns the rows that may be processed, at most `rows` of a partition."""
        if not self._held or not self.is_fresh(now):
            return []
        if self._hold_until is not None:
            return []
        found: list[Release[T]] = []
        for partition in [one for one in self._held if one not in self._missing]:
            parts, rest = self._first(self._in_order(self._held.pop(partition)), rows)
            if rest:
                self._held[partition] = rest
            for part in parts:
                self._held_seqs.difference_update(part.seqs)
                self._out.update(part.seqs)
            found.append(Release(self.epoch, partition, parts))
        return found

    def take_back(self) -> None:
        """Holds the rows that the program has not taken: another iteration releases them, with limits of its own."""
        while self.ready:
            epoch, partition, parts = self.ready.popleft()
            if epoch == self.epoch:
                self._held[partition] = [*parts, *self._held.get(partition, ())]
                for part in parts:
                    self._held_seqs.update(part.seqs)
                    self._out.difference_update(part.seqs)

    def _in_order(self, parts: list[Part[T]]) -> list[Part[T]]:
        """The same rows, each part before the next one."""
        if len(parts) == 1:
            return parts
        parts = sorted(parts, key=lambda part: part.seqs[0])
        if all(one.seqs[-1] < other.seqs[0] for one, other in itertools.pairwise(parts)):
            return parts
        rows = sorted((seq, number, row) for number, part in enumerate(parts) for row, seq in enumerate(part.seqs))
        found: list[tuple[int, list[int]]] = []
        for _, number, row in rows:
            if not found or found[-1][0] != number:
                found.append((number, []))
            found[-1][1].append(row)
        return [self._cut_part(parts[number], own) for number, own in found]

    def _first(self, parts: list[Part[T]], rows: int) -> tuple[list[Part[T]], list[Part[T]]]:
        first: list[Part[T]] = []
        for number, part in enumerate(parts):
            count = len(part.seqs)
            if count > rows:
                rest = [self._cut_part(part, list(range(rows, count))), *parts[number + 1 :]]
                return ([*first, self._cut_part(part, list(range(rows)))] if rows else first), rest
            first.append(part)
            rows -= count
        return first, []

    def may_ack(self, epoch: int, now: float) -> Literal["yes", "ask", "no"]:
        """Whether an acknowledgement of released rows counts; "ask": the server's pin id decides, by `checked`."""
        if epoch != self.epoch or self.pin is None:
            return "no"
        return "yes" if now - self.confirmed <= self._safe else "ask"

    def acknowledged(self, epoch: int, seqs: Sequence[int]) -> None:
        """Takes rows as acknowledged or terminated; to be called before the acknowledgement is sent."""
        if epoch == self.epoch:
            self._out.difference_update(seqs)
            self._acked.add(seqs)

    def released(self, epoch: int, seqs: Sequence[int]) -> None:
        """Takes rows as out of work, without a word on how: those that are delivered again are released again."""
        if epoch == self.epoch:
            self._out.difference_update(seqs)

    def rejected(self, epoch: int, partition: int, seqs: Sequence[int], *, due: float) -> None:
        """Takes rows as rejected: later rows of the partition wait for them.

        Args:
            epoch: Epoch of their release.
            partition: Their partition.
            seqs: Their sequences.
            due: Time at which the server delivers them again.
        """
        found = self._out.intersection(seqs) if epoch == self.epoch else ()
        if found:
            self._out.difference_update(found)
            self._missing.setdefault(partition, {}).update(dict.fromkeys(found, due + self._bound))

    def unconfirmed(self, epoch: int, partition: int, seqs: Sequence[int], *, now: float) -> None:
        """Takes back an acknowledgement whose confirmation failed: the program may have undone its work.

        Rows that are delivered again are released again, before later rows of their partition.

        Args:
            epoch: Epoch of their release.
            partition: Their partition.
            seqs: Their sequences, as given to `acknowledged`.
            now: The time.
        """
        if epoch == self.epoch:
            self._acked.remove(seqs)
            self._missing.setdefault(partition, {}).update(dict.fromkeys(seqs, now + self._bound))

    def _expire(self, now: float) -> None:
        # Called after a fetch that has brought all that was due: time alone is no proof if pulls were small or rare.
        if self._hold_until is not None and now > self._hold_until:
            self._hold_until = None
        for partition, missing in list(self._missing.items()):
            left = {seq: until for seq, until in missing.items() if until >= now}
            if left:
                self._missing[partition] = left
            else:
                del self._missing[partition]

    def _lose(self) -> None:
        self.epoch += 1
        self.pin = None
        self.confirmed = -math.inf
        self._hold_until = None
        self._held.clear()
        self._held_seqs.clear()
        self._out.clear()
        self._missing.clear()
        self._high = -1
