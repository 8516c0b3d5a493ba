"""Order per key over a restart: new messages wait for those that a former process held."""

from __future__ import annotations

from jetarrow.workers.ledger import Item


class HeldBack:
    """Messages that wait until the messages of a former process have been redelivered. Without I/O.

    The server delivers new messages before unacknowledged ones whose `ack_wait` is not over. After `deadline` all of
    them are due, and a request yields them before new ones: the first request made after it that yields a new message,
    or nothing, proves that none is left.

    Args:
        unacknowledged: Number of unacknowledged messages at the start.
        last: Sequence of the last delivered message at the start.
        deadline: Time at which the last `ack_wait` is over.
    """

    def __init__(self, unacknowledged: int, last: int, deadline: float) -> None:
        self._left, self._last, self._deadline = unacknowledged, last, deadline
        self._seen: set[int] = set()
        self._items: list[Item] = []

    @property
    def is_holding(self) -> bool:
        """Whether messages wait."""
        return self._left > 0

    def __len__(self) -> int:
        return len(self._items)

    def held(self) -> list[Item]:
        """The waiting messages, to be kept from redelivery."""
        return list(self._items)

    def add(self, items: list[Item], requested: float) -> list[Item]:
        """Adds the messages of a request that was made at the time `requested`; returns released ones in order."""
        if not self._left:
            return items
        known = {item.seqs[0]: item for item in self._items}
        for item in items:
            if (former := known.get(item.seqs[0])) is not None:
                former.message = item.message
                continue
            self._items.append(item)
            known[item.seqs[0]] = item
            if item.seqs[0] <= self._last:
                self._seen.add(item.seqs[0])
        has_new = not items or any(item.seqs[0] > self._last for item in items)
        if len(self._seen) >= self._left or (requested >= self._deadline and has_new):
            self._left = 0
            released, self._items = sorted(self._items, key=lambda item: item.seqs), []
            return released
        return []

    def take_all(self) -> list[Item]:
        """Removes and returns the waiting messages, which the stopping worker returns to the server."""
        self._left, items, self._items = 0, self._items, []
        return sorted(items, key=lambda item: item.seqs)
