"""Decisions on the messages that a worker holds: a state machine without I/O and without a clock.

The caller passes times, executes the decisions, and guards the object with a lock. `tests/worker/test_model.py`
drives it against a model of a server.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from jetarrow.workers.retry import Backoff


class Verdict(Enum):
    """Result of one call of a handler."""

    HANDLED = auto()
    FAILED = auto()
    REJECTED = auto()
    # The call was ended by the stop, or by an exception that ends the worker.
    INTERRUPTED = auto()


class Step(Enum):
    """The action that the caller executes for an item."""

    ACK = auto()
    NAK = auto()
    # Store the dead letter, then call `stored` or `not_stored`.
    BURY = auto()
    # The dead letter is stored: end the deliveries.
    TERM = auto()
    # Retry in place: nothing is sent.
    WAIT = auto()
    # Make an item of each of the rows, and pass them to `replace`.
    SPLIT = auto()
    # Make one item of the rows, and pass it to `replace`.
    REST = auto()


@dataclass(slots=True, eq=False)
class Item:
    """A message, or a batch of several rows, that was delivered and is not settled.

    Attributes:
        seqs: Stream sequence of each row.
        message: The message or the batch.
        size: Bytes.
        key: Items of one key are handled one after the other, if the ledger is ordered.
        deliveries: Deliveries of each row, counted by the server; None reads them from the message when needed.
        retries: Attempts in place since the delivery.
        reason: Reason of the dead letter that is due; None before the message is one.
        started: Time of the start of the current handler; None while none runs.
        is_abandoned: The drain timed out: the item was returned to the server, and its result is ignored.
    """

    seqs: tuple[int, ...]
    message: Any
    size: int = 0
    key: Hashable = None
    deliveries: tuple[int, ...] | None = None
    retries: int = 0
    reason: str | None = None
    failed_stores: int = 0
    started: float | None = None
    is_abandoned: bool = False

    @property
    def attempts(self) -> tuple[int, ...]:
        """Number of the current attempt of each row."""
        deliveries = self.deliveries
        if deliveries is None:
            deliveries = self.deliveries = (self.message.metadata.num_delivered,)
        return tuple(count + self.retries for count in deliveries)


class Decision(NamedTuple):
    """A step for an item, or for some of its rows."""

    step: Step
    item: Item
    delay: float = 0.0
    rows: tuple[int, ...] | None = None
    reason: str | None = None


class _Waiting(NamedTuple):
    due: float
    number: int
    item: Item


@dataclass(slots=True)
class Ledger:
    """The messages that a worker holds.

    Args:
        retry: Delays and attempts.
        concurrency: Most items that are handled at a time.
        limit: Most items that are held.
        max_bytes: Bytes of held items above which no more are requested.
        ordered: Whether items of one key are handled one after the other.
        confirms: Whether a handled item is held until `settled`.
    """

    retry: Backoff
    concurrency: int
    limit: int
    max_bytes: int
    ordered: bool = False
    confirms: bool = False
    is_stopping: bool = False
    bytes: int = 0
    duplicates: int = 0
    ready: deque[Item] = field(default_factory=deque)
    running: set[Item] = field(default_factory=set)
    _by_seq: dict[int, Item] = field(default_factory=dict)
    _items: dict[Item, None] = field(default_factory=dict)
    _waiting: list[_Waiting] = field(default_factory=list)
    # Items of each key in order; only the first one is ready, running or waiting.
    _keys: dict[Hashable, deque[Item]] = field(default_factory=dict)
    _number: int = 0

    def __len__(self) -> int:
        return len(self._items)

    def held(self) -> list[Item]:
        """All held items."""
        return list(self._items)

    def is_held(self, seq: int) -> bool:
        """Whether a message is held."""
        return seq in self._by_seq

    def room(self) -> int:
        """Number of items that may be requested now; 0 while half of the limit is held and some are ready.

        The threshold makes few large requests of many small ones.
        """
        free = self.limit - len(self._items)
        if self.is_stopping or free <= 0 or (self.bytes >= self.max_bytes and self._items):
            return 0
        return free if free * 2 >= self.limit or not self.ready else 0

    def add(self, item: Item) -> tuple[Decision, ...]:
        """Adds a delivered item. A message that is held already replaces the former delivery."""
        if self.is_stopping:
            return (Decision(Step.NAK, item),)
        former = self._by_seq.get(item.seqs[0])
        if former is not None:
            # Its ack_wait was over: an ack of the newer delivery is certain to count.
            self.duplicates += 1
            former.message = item.message
            return ()
        most = self.retry.max_deliveries
        if most is not None and len(item.seqs) == 1 and item.attempts[0] > most and item.reason is None:
            item.reason = f"delivered {item.attempts[0]} times without a result (max_deliveries {most})"
        self._insert(item)
        if self.ordered:
            queue = self._keys.setdefault(item.key, deque())
            queue.append(item)
            if len(queue) > 1:
                return ()
        self.ready.append(item)
        return ()

    def take(self, now: float) -> Item | None:
        """Starts the next item; None if none is ready, or `concurrency` are running."""
        if not self.ready or len(self.running) >= self.concurrency:
            return None
        item = self.ready.popleft()
        item.started = now
        self.running.add(item)
        return item

    def finish(self, item: Item, verdict: Verdict, now: float, reason: str = "") -> tuple[Decision, ...]:
        """Records the result of a handler."""
        if item.is_abandoned:
            return ()
        if verdict is Verdict.HANDLED:
            if self.confirms:
                return (Decision(Step.ACK, item),)
            return (Decision(Step.ACK, item), *self._remove(item))
        if verdict is Verdict.INTERRUPTED:
            # Before `stop`, so that no later message of its key begins.
            self.is_stopping = True
            return (Decision(Step.NAK, item), *self._remove(item))
        if verdict is Verdict.REJECTED or (len(item.seqs) == 1 and self.retry.is_last(item.attempts[0])):
            item.reason = reason
            return (Decision(Step.BURY, item),)
        if len(item.seqs) > 1:
            found = self._failed_rows(item)
            return (*found, *self._remove(item, splits=any(one.step is Step.SPLIT for one in found)))
        delay = self.retry.delay(item.attempts[0])
        if not self.ordered:
            return (Decision(Step.NAK, item, delay), *self._remove(item))
        if self.is_stopping:
            return (Decision(Step.NAK, item), *self._remove(item))
        item.retries += 1
        return (self._wait(item, now + delay),)

    def _failed_rows(self, item: Item) -> list[Decision]:
        """Rows with attempts left are redelivered; the others are tried alone, so that one bad row takes no other."""
        by_attempt: dict[int, list[int]] = {}
        last: list[int] = []
        for row, attempt in enumerate(item.attempts):
            if self.retry.is_last(attempt):
                last.append(row)
            else:
                by_attempt.setdefault(attempt, []).append(row)
        found = [
            Decision(Step.NAK, item, self.retry.delay(attempt), tuple(rows)) for attempt, rows in by_attempt.items()
        ]
        return [*found, *([Decision(Step.SPLIT, item, rows=tuple(last))] if last else [])]

    def reject_rows(self, item: Item, rows: Iterable[int], reason: str) -> tuple[Decision, ...]:
        """Records that a batch handler rejected some rows: they are dead letters, the rest is handled again."""
        if item.is_abandoned:
            return ()
        rejected = sorted(set(rows))
        rest = tuple(row for row in range(len(item.seqs)) if row not in set(rejected))
        parts = [Decision(Step.SPLIT, item, rows=tuple(rejected), reason=reason)] if rejected else []
        parts += [Decision(Step.REST, item, rows=rest)] if rest else []
        return (*parts, *self._remove(item, splits=True))

    def replace(self, items: Sequence[Item]) -> tuple[Decision, ...]:
        """Adds the parts of a batch before everything else; those without a reason are returned while stopping.

        With keys they take the place of the batch, one after the other.
        """
        returned: list[Decision] = []
        added: list[Item] = []
        for item in items:
            if self.is_stopping and item.reason is None:
                returned.append(Decision(Step.NAK, item))
            else:
                self._insert(item)
                added.append(item)
        if not self.ordered:
            self.ready.extendleft(reversed(added))
            return tuple(returned)
        queue = self._keys[items[0].key]
        queue.extendleft(reversed(added))
        if added:
            self.ready.appendleft(queue[0])
            return tuple(returned)
        return (*returned, *self._next(items[0].key))

    def settled(self, item: Item) -> tuple[Decision, ...]:
        """Records that the ack of a handled item is confirmed, or cannot be."""
        return () if item.is_abandoned else self._remove(item)

    def stored(self, item: Item) -> tuple[Decision, ...]:
        """Records that the dead letter is stored."""
        return () if item.is_abandoned else (Decision(Step.TERM, item), *self._remove(item))

    def not_stored(self, item: Item, now: float) -> tuple[Decision, ...]:
        """Records that the dead letter could not be stored: it is retried, and the message is kept meanwhile."""
        if item.is_abandoned:
            return ()
        if self.is_stopping:
            return (Decision(Step.NAK, item), *self._remove(item))
        item.failed_stores += 1
        return (self._wait(item, now + self.retry.delay(item.failed_stores)),)

    def wake(self, now: float) -> float | None:
        """Makes items whose delay is over ready; returns the time of the next one."""
        while self._waiting and self._waiting[0].due <= now:
            self.ready.append(heapq.heappop(self._waiting).item)
        return self._waiting[0].due if self._waiting else None

    def stop(self) -> tuple[Decision, ...]:
        """Returns all messages that no handler has begun. Running ones continue.

        With keys, messages behind a running one are returned after it, so that the server redelivers them in order.
        """
        self.is_stopping = True
        behind = {item.key for item in self.running} if self.ordered else set()
        idle = [
            item for item in self._items if item not in self.running and (not self.ordered or item.key not in behind)
        ]
        self.ready.clear()
        self._waiting.clear()
        for item in idle:
            self._forget(item)
            if self.ordered:
                self._keys.pop(item.key, None)
        return tuple(Decision(Step.NAK, item) for item in sorted(idle, key=lambda item: item.seqs))

    def abandon(self) -> tuple[Decision, ...]:
        """Returns everything that is still held; later results of its handlers are ignored."""
        self.is_stopping = True
        left = sorted(self._items, key=lambda item: item.seqs)
        for item in left:
            item.is_abandoned = True
            self._forget(item)
        self.ready.clear()
        self.running.clear()
        self._waiting.clear()
        self._keys.clear()
        return tuple(Decision(Step.NAK, item) for item in left)

    def _insert(self, item: Item) -> None:
        self._items[item] = None
        self.bytes += item.size
        for seq in item.seqs:
            self._by_seq[seq] = item

    def _forget(self, item: Item) -> None:
        del self._items[item]
        self.bytes -= item.size
        for seq in item.seqs:
            del self._by_seq[seq]

    def _wait(self, item: Item, due: float) -> Decision:
        self.running.discard(item)
        item.started = None
        self._number += 1
        heapq.heappush(self._waiting, _Waiting(due, self._number, item))
        return Decision(Step.WAIT, item)

    def _remove(self, item: Item, *, splits: bool = False) -> tuple[Decision, ...]:
        """Ends an item; unless its parts take its place, the next one of its key becomes ready."""
        self.running.discard(item)
        self._forget(item)
        if not self.ordered:
            return ()
        self._keys[item.key].popleft()
        return () if splits else self._next(item.key)

    def _next(self, key: Hashable) -> tuple[Decision, ...]:
        """Makes the next item of a key ready, or returns all of them while stopping."""
        queue = self._keys[key]
        if queue and not self.is_stopping:
            self.ready.append(queue[0])
            return ()
        del self._keys[key]
        for behind in queue:
            self._forget(behind)
        return tuple(Decision(Step.NAK, behind) for behind in queue)
