"""The ledger of a worker against a model of a server: stops, restarts, redeliveries, failures, in any order."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jetarrow.workers.held_back import HeldBack
from jetarrow.workers.ledger import Decision, Item, Ledger, Step, Verdict
from jetarrow.workers.retry import Backoff

from ..strategies import bounded

MESSAGES, KEYS, CONCURRENCY, LIMIT = 12, 3, 3, 6
RETRY = Backoff(initial=1, factor=2, maximum=4, attempts=3, jitter=0)
# A step of the run, and the number that selects an item or a verdict.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["pull", "pull", "take", "take", "take", "finish", "finish", "finish", "clock", "expire", "stop", "restart"]
        ),
        st.integers(0, 11),
    ),
    max_size=80,
)


class Run:
    """A server with one consumer, and workers that follow each other on it."""

    def __init__(self, ordered: bool, confirms: bool) -> None:
        self.ordered, self.confirms = ordered, confirms
        self.now = 0.0
        self.undelivered = deque(range(1, MESSAGES + 1))
        self.redeliveries: deque[int] = deque()
        # Messages that the server redelivers after a delay.
        self.delayed: list[tuple[float, int]] = []
        self.deliveries: dict[int, int] = defaultdict(int)
        self.done: list[int] = []
        self.handled: set[int] = set()
        self.stored: set[int] = set()
        self.failures: dict[int, int] = defaultdict(int)
        self.begin()

    def begin(self) -> None:
        """A new worker; the one before returned or abandoned everything."""
        self.ledger = Ledger(
            RETRY, concurrency=CONCURRENCY, limit=LIMIT, max_bytes=10**9, ordered=self.ordered, confirms=self.confirms
        )
        self.running: list[Item] = []
        pending = [seq for seq in self.deliveries if seq not in self.done]
        # With keys, as `Core.open`; everything that is pending was returned, so the deadline is over.
        wanted = self.ordered and bool(pending)
        self.held_back = HeldBack(len(pending), max(self.deliveries), self.now) if wanted else None

    @staticmethod
    def key(seq: int) -> int:
        return seq % KEYS

    def pull(self) -> None:
        room = self.ledger.room()
        assert len(self.ledger) + room <= LIMIT
        if self.held_back is not None and self.held_back.is_holding and not self.ledger.is_stopping:
            room = LIMIT
        for delayed in sorted(self.delayed):
            if delayed[0] <= self.now:
                self.delayed.remove(delayed)
                self.redeliveries.append(delayed[1])
        items = []
        for _ in range(room):
            if self.redeliveries:
                seq = self.redeliveries.popleft()
            elif self.undelivered:
                seq = self.undelivered.popleft()
            else:
                break
            self.deliveries[seq] += 1
            items.append(Item((seq,), None, 1, self.key(seq), (self.deliveries[seq],)))
        if self.held_back is not None and not self.ledger.is_stopping and room:
            items = self.held_back.add(items, self.now)
        for item in items:
            self.execute(self.ledger.add(item))

    def take(self) -> None:
        item = self.ledger.take(self.now)
        if item is None:
            return
        (seq,) = item.seqs
        assert seq not in self.done, "handled again after its ack"
        self.running.append(item)
        assert len(self.running) <= CONCURRENCY
        if self.ordered:
            keys = [one.key for one in self.running if not one.is_abandoned]
            assert len(set(keys)) == len(keys), "two messages of one key at a time"
            earlier = [one for one in range(1, seq) if self.key(one) == item.key]
            assert all(one in self.done for one in earlier), "a message before an earlier one of its key"

    def finish(self, number: int) -> None:
        if not self.running:
            return
        item = self.running.pop(number % len(self.running))
        (seq,) = item.seqs
        if item.reason is not None:
            self.bury(item, succeeds=number % 2 == 0)
            return
        verdict = [Verdict.HANDLED, Verdict.FAILED, Verdict.REJECTED, Verdict.INTERRUPTED][number % 4]
        if verdict is Verdict.HANDLED:
            self.handled.add(seq)
        elif verdict is Verdict.FAILED and not item.is_abandoned:
            self.failures[seq] += 1
        decisions = self.ledger.finish(item, verdict, self.now, "reason")
        assert not (item.is_abandoned and decisions)
        self.execute(decisions, succeeds=number % 3 > 0)

    def bury(self, item: Item, *, succeeds: bool) -> None:
        if succeeds:
            self.stored.add(item.seqs[0])
            self.execute(self.ledger.stored(item))
        else:
            self.execute(self.ledger.not_stored(item, self.now))

    def execute(self, decisions: tuple[Decision, ...], *, succeeds: bool = True) -> None:
        returned: dict[Any, list[int]] = defaultdict(list)
        for decision in decisions:
            (seq,) = decision.item.seqs
            if decision.step is Step.ACK:
                assert seq in self.handled, "acknowledged unhandled"
                self.settle(seq)
                if self.confirms:
                    self.execute(self.ledger.settled(decision.item))
            elif decision.step is Step.TERM:
                assert seq in self.stored, "ended before its dead letter is stored"
                self.settle(seq)
            elif decision.step is Step.BURY:
                self.bury(decision.item, succeeds=succeeds)
            elif decision.step is Step.NAK:
                returned[self.key(seq)].append(seq)
                if decision.delay:
                    self.delayed.append((self.now + decision.delay, seq))
                elif seq not in self.done and seq not in self.redeliveries:
                    self.redeliveries.append(seq)
            else:
                assert decision.step is Step.WAIT
        if self.ordered:
            assert all(seqs == sorted(seqs) for seqs in returned.values()), "returned out of order"

    def settle(self, seq: int) -> None:
        if seq not in self.done:
            self.done.append(seq)
        if seq in self.redeliveries:
            self.redeliveries.remove(seq)

    def expire(self, number: int) -> None:
        """The `ack_wait` of a held message is over, for example because the connection was down."""
        held = self.ledger.held()
        if held:
            (seq,) = held[number % len(held)].seqs
            if seq not in self.redeliveries and seq not in self.done:
                self.redeliveries.append(seq)

    def stop(self) -> None:
        held = self.held_back.take_all() if self.held_back is not None else []
        self.execute((*self.ledger.stop(), *(Decision(Step.NAK, item) for item in held)))
        assert len(self.ledger) == len(self.ledger.running) or self.ordered

    def restart(self) -> None:
        """The drain timed out; results of the former handlers arrive late, and are ignored."""
        self.stop()
        self.execute(self.ledger.abandon())
        late = self.running
        assert not len(self.ledger)
        for item in late:
            assert self.ledger.finish(item, Verdict.HANDLED, self.now) == ()
        self.begin()

    def step(self, name: str, number: int) -> None:
        match name:
            case "pull" | "take" | "stop" | "restart":
                getattr(self, name)()
            case "finish" | "expire":
                getattr(self, name)(number)
            case "clock":
                self.now += number
                self.ledger.wake(self.now)

    def complete(self) -> None:
        """Lets the work succeed; every message must be done after a bounded number of steps."""
        self.restart()
        for _ in range(20 * MESSAGES):
            self.now += 10
            self.ledger.wake(self.now)
            self.pull()
            self.take()
            if self.running:
                self.finish(0)


@bounded(1500)
@given(STEPS, st.booleans(), st.booleans())
def test_ledger_loses_nothing_and_keeps_order_and_concurrency(
    steps: list[tuple[str, int]], ordered: bool, confirms: bool
) -> None:
    run = Run(ordered, confirms)
    for name, number in steps:
        run.step(name, number)
    run.complete()
    assert sorted(run.done) == list(range(1, MESSAGES + 1))
    if ordered:
        for key in range(KEYS):
            done = [seq for seq in run.done if run.key(seq) == key]
            assert done == sorted(done)


@bounded(300)
@given(st.integers(1, 5), st.lists(st.booleans(), max_size=30))
def test_ledger_makes_a_dead_letter_after_the_last_attempt(attempts: int, in_place: list[bool]) -> None:
    ledger = Ledger(Backoff(initial=1, attempts=attempts, jitter=0), 1, 5, 10**9, ordered=True)
    ledger.add(Item((1,), None, deliveries=(1,)))
    now, calls = 0.0, 0
    while True:
        now += 100
        ledger.wake(now)
        item = ledger.take(now)
        assert item is not None
        calls += 1
        (decision, *_) = ledger.finish(item, Verdict.FAILED, now, "reason")
        if decision.step is Step.BURY:
            break
    assert calls == attempts


def batch(*deliveries: int) -> Item:
    return Item(tuple(range(1, len(deliveries) + 1)), "batch", deliveries=deliveries)


def test_failed_batch_returns_rows_by_attempt_and_splits_those_at_their_last_attempt() -> None:
    ledger = Ledger(Backoff(initial=1, factor=2, attempts=3, jitter=0), 1, 5, 10**9)
    item = batch(1, 3, 2, 1, 3)
    ledger.add(item)
    ledger.take(0)
    decisions = ledger.finish(item, Verdict.FAILED, 0, "reason")
    assert [(one.step, one.delay, one.rows) for one in decisions] == [
        (Step.NAK, 1.0, (0, 3)),
        (Step.NAK, 2.0, (2,)),
        (Step.SPLIT, 0.0, (1, 4)),
    ]
    assert not len(ledger)
    assert ledger.replace([Item((2,), "row", deliveries=(3,)), Item((5,), "row", deliveries=(3,))]) == ()
    row = ledger.take(0)
    assert row is not None
    assert row.seqs == (2,)
    assert ledger.finish(row, Verdict.FAILED, 0, "reason")[0].step is Step.BURY


def test_rejected_rows_are_dead_letters_and_the_rest_is_handled_again() -> None:
    ledger = Ledger(RETRY, 1, 5, 10**9)
    item = batch(1, 1, 1)
    ledger.add(item)
    ledger.take(0)
    decisions = ledger.reject_rows(item, [1, 1], "bad")
    assert [(one.step, one.rows, one.reason) for one in decisions] == [
        (Step.SPLIT, (1,), "bad"),
        (Step.REST, (0, 2), None),
    ]


def test_message_above_max_deliveries_is_a_dead_letter_without_a_handler() -> None:
    ledger = Ledger(Backoff(max_deliveries=2), 1, 5, 10**9)
    for deliveries in (2, 3):
        ledger.add(Item((deliveries,), None, deliveries=(deliveries,)))
    first = ledger.take(0)
    assert first is not None
    assert first.reason is None
    ledger.finish(first, Verdict.HANDLED, 0)
    second = ledger.take(0)
    assert second is not None
    assert "delivered 3 times" in (second.reason or "")


@bounded(500)
@given(st.data())
def test_held_back_releases_redelivered_messages_before_new_ones(data: st.DataObject) -> None:
    """The former worker held some messages; each is redelivered when its ack_wait is over, before the deadline."""
    last = data.draw(st.integers(1, 8))
    old = data.draw(st.lists(st.integers(1, last), min_size=1, unique=True))
    # A message that another worker finished meanwhile does not come.
    gone = set(data.draw(st.lists(st.sampled_from(old), unique=True)))
    due = {seq: data.draw(st.integers(0, 10)) for seq in old if seq not in gone}
    new = deque(range(last + 1, last + 9))
    held, released = HeldBack(len(old), last, deadline=10.0), []
    for now in range(16):
        room = data.draw(st.integers(1, 3))
        ready = sorted(seq for seq, when in due.items() if when <= now)[:room]
        for seq in ready:
            del due[seq]
        fresh = [new.popleft() for _ in range(min(room - len(ready), len(new)))]
        released += held.add([Item((seq,), None) for seq in ready + fresh], float(now))
        if not held.is_holding:
            break
    else:
        raise AssertionError("never released")
    seqs = [item.seqs[0] for item in released]
    assert seqs == sorted(seqs)
    assert not due, "a message of the former worker comes after the release"
