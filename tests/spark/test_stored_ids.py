"""A model of retried tasks: attempts, a stream with a duplicate window, and what an attempt knows about the others."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from jetarrow.spark.sink import stored_ids
from jetarrow.spark.sink.positions import Position
from jetarrow.spark.sink.stored_ids import StoredIds

WINDOW = 120.0
ROWS = 12
SEEDS = 1_000
# Maximum seconds after which a message of a dead attempt arrives: the ids are known 30 s before at the earliest.
MAX_DELAY = 0.7 * WINDOW


class Stream:
    """A stream that drops an id which it stored less than the duplicate window ago.

    Its clock is that of the tasks, with an offset.
    """

    def __init__(self, window: float = WINDOW) -> None:
        self.now = 1_000.0
        self.window = window
        self.messages: list[str] = []
        self.removed: set[int] = set()
        self.created = "2026-01-01"
        self.lookups = 0
        self._stored: dict[str, float] = {}

    def clock(self) -> float:
        return self.now

    def store(self, message_id: str) -> None:
        if self.now - self._stored.get(message_id, -1e9) >= self.window:
            self._stored[message_id] = self.now
            self.messages.append(message_id)

    def position(self) -> Position:
        return Position(len(self.messages), self.created, self.now + 5e8, self.window)

    def ids(self, first: int, end: int) -> Iterator[tuple[int, pa.Array]]:
        self.lookups += 1
        found = [self.messages[seq - 1] for seq in range(first, end) if seq not in self.removed]
        yield len(found), pa.array(found, pa.string())


class Crash(Exception):
    pass


class Run:
    """A task with random pauses, crashes, foreign messages, and messages of a dead attempt that arrive late."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.stream = Stream()
        self.stream.store("of others")
        self.planned = self.stream.position()
        self.late: list[tuple[float, str]] = []
        self.rows = [f"row {number}" for number in range(ROWS)]

    def pause(self) -> None:
        shares = (0.0, 0.001, 0.01, 0.1, 0.3, 0.6, 1.5, 4.0)
        until = self.stream.now + WINDOW * self.random.choices(shares, (30, 20, 10, 3, 2, 1, 1, 1))[0]
        for at, row in sorted(self.late):
            if at <= until:
                self.stream.now = max(self.stream.now, at)
                self.stream.store(row)
                self.late.remove((at, row))
        self.stream.now = until
        if self.random.random() < 0.1:
            self.stream.store(f"of others {self.random.random()}")

    def attempt(self, number: int, *, asks: bool) -> None:
        rows = self.rows[:]
        self.random.shuffle(rows)
        crash = self.random.randrange(ROWS + 1) if number < 3 else ROWS + 1
        known = None
        if number and asks:
            known = StoredIds(self.stream, "S", self.planned, clock=self.stream.clock)
        for start in range(0, ROWS, 4):
            piece = pa.array(rows[start : start + 4])
            stored = [False] * 4 if known is None else known.contains(piece).to_pylist()
            asked = self.stream.now
            for place, row in enumerate(piece.to_pylist(), start):
                if place == crash:
                    # Sent, and on its way. A message that arrives later than this is not recognised by any attempt.
                    at = self.stream.now + WINDOW / 2 * self.random.random()
                    if not stored[place - start] and at < asked + MAX_DELAY:
                        self.late = [(at, row)]
                    raise Crash
                self.pause()
                if not stored[place - start]:
                    self.stream.store(row)
            self.pause()
            if known is not None:
                known.confirm()
        if crash == ROWS:
            raise Crash

    def run(self, *, asks: bool = True) -> Counter[str]:
        """The task until an attempt ends; returns the number of copies of each row."""
        number = 0
        while True:
            try:
                self.attempt(number, asks=asks)
                break
            except Crash:
                number += 1
                self.pause()
        return self.copies()

    def copies(self) -> Counter[str]:
        return Counter(message for message in self.stream.messages if message.startswith("row"))


def test_retried_rows_are_stored_once_or_the_task_fails() -> None:
    errors = lookups = 0
    for seed in range(SEEDS):
        run = Run(seed)
        failed = False
        try:
            run.run()
        except ValueError:
            failed = True
        copies = run.copies()
        assert copies.keys() <= set(run.rows)
        assert max(copies.values()) > 1 if failed else copies == dict.fromkeys(run.rows, 1), seed
        errors += failed
        lookups += run.stream.lookups
    doubled = sum(max(Run(seed).run(asks=False).values()) > 1 for seed in range(SEEDS))
    # Without the lookups rows are stored twice in most runs. A late message during a long pause is an error.
    assert doubled > SEEDS / 2
    assert lookups > SEEDS
    assert 0 < errors < doubled / 2


def known(stream: Stream, planned: Position) -> StoredIds:
    return StoredIds(stream, "S", planned, clock=stream.clock)


def test_attempt_within_the_window_does_not_read_the_stream() -> None:
    stream = Stream()
    planned = stream.position()
    stream.store("a")
    stream.now += WINDOW / 5
    ids = known(stream, planned)
    assert ids.contains(pa.array(["a", "b"])).to_pylist() == [False, False]
    ids.confirm()
    assert stream.lookups == 0


def test_ids_are_read_again_before_they_are_too_old() -> None:
    stream = Stream()
    planned = stream.position()
    stream.store("a")
    stream.now += 2 * WINDOW
    ids = known(stream, planned)
    found = [ids.contains(pa.array(["a", "b", "c", None])).to_pylist()]
    stream.store("b")
    stream.now += WINDOW / 2
    assert ids.is_due
    found.append(ids.contains(pa.array(["a", "b", "c", None])).to_pylist())
    assert found == [[True, False, False, False], [True, True, False, False]]
    assert stream.lookups == 2


def test_row_stored_twice_during_a_long_pause_is_an_error() -> None:
    """Another attempt that is presumed dead has stored it after the lookup, and this one more than a window later."""
    stream = Stream()
    planned = stream.position()
    stream.now += 2 * WINDOW
    ids = known(stream, planned)
    assert ids.contains(pa.array(["a"])).to_pylist() == [False]
    stream.store("a")
    stream.now += 2 * WINDOW
    stream.store("a")
    with pytest.raises(ValueError, match=r"1 rows are stored twice in stream 'S'.*window \(120 s\).*'a'; increase the"):
        ids.confirm()


@pytest.mark.parametrize("cause", ["removed", "created", "not planned", "many"])
def test_unknown_result_is_an_error(cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    planned: Position | None = stream.position()
    for row in "abc":
        stream.store(row)
    stream.now += 2 * WINDOW
    if cause == "removed":
        stream.removed = {2}
    elif cause == "created":
        stream.created = "2026-02-02"
    elif cause == "many":
        monkeypatch.setattr(stored_ids, "_MAX_IDS", 2)
    else:
        planned = None
    said = {
        "removed": "1 of its messages from 1 on were removed since",
        "created": "it was created after the write was planned",
        "not planned": "it was created after the write was planned",
        "many": "more than 2 messages with ids since then",
    }[cause]
    with pytest.raises(ValueError, match=f"could not write the rows of a retried task: stream 'S' .* {said}; increase"):
        StoredIds(stream, "S", planned, clock=stream.clock).contains(pa.array(["a"]))


def test_time_of_a_server_without_clock_is_unknown() -> None:
    stream = Stream()
    planned = Position(0, stream.created, 0.0, WINDOW)
    stream.store("a")
    assert known(stream, planned).contains(pa.array(["a", "b"])).to_pylist() == [True, False]
