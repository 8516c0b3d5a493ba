"""Order of a member, in a model of a server: takeovers, hangs, kills and rejected rows."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from jetarrow.jetstream.groups.order import MemberOrder, Part, Release

from tests.strategies import bounded

ACK_WAIT = PINNED = 10.0
Rows = list[int]
Order = MemberOrder[Rows]


def new_order() -> Order:
    return MemberOrder(ACK_WAIT, PINNED, lambda rows, chosen: [rows[row] for row in chosen])


@dataclass
class Server:
    """A consumer with a pinned client. Messages need no time to arrive."""

    window: int
    now: float = 0.0
    last: int = 0
    delivered: int = 0
    pending: dict[int, float] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    pin: str | None = None
    pulled: float = 0.0
    generation: int = 0
    pins: itertools.count[int] = field(default_factory=itertools.count)
    # Pins that were taken away by hand, and those of a consumer that was deleted: their programs notice it at the next
    # pull, at most SAFE of the pinned time later.
    unpinned: set[str | None] = field(default_factory=set)
    deleted: set[str | None] = field(default_factory=set)

    def pinned_id(self) -> str | None:
        if self.pin is not None and self.now - self.pulled >= PINNED:
            self.pin = None
        return self.pin

    def pull(self, pin: str | None, most: int) -> tuple[list[int], str | None]:
        """Returns messages, and the pin id that the client has then."""
        if self.pinned_id() != pin:
            # Status 423: the client asks again without the id.
            pin = None
        if self.pinned_id() is not None and pin is None:
            return [], None
        due = sorted((at, seq) for seq, at in self.pending.items() if at <= self.now)
        found = [seq for _, seq in due][:most]
        while len(found) < most and self.delivered < self.last and len(self.pending) < self.window:
            self.delivered += 1
            if self.delivered not in self.acked:
                found.append(self.delivered)
                self.pending[self.delivered] = self.now + ACK_WAIT
        for seq in found:
            self.pending[seq] = self.now + ACK_WAIT
        if pin is None and found:
            self.pin = pin = f"pin{next(self.pins)}"
        if pin is not None:
            self.pulled = self.now
        return found, pin

    def ack(self, seqs: list[int]) -> None:
        for seq in seqs:
            if self.pending.pop(seq, None) is not None:
                self.acked.add(seq)

    def nak(self, seqs: list[int], delay: float = 0.0) -> None:
        for seq in seqs:
            if seq in self.pending:
                self.pending[seq] = self.now + delay

    def replace(self) -> None:
        self.generation += 1
        self.deleted.add(self.pin)
        self.deleted |= self.unpinned
        self.delivered, self.pin = 0, None
        self.pending.clear()


@dataclass
class Program:
    """A program that runs as the member."""

    server: Server
    order: Order = field(default_factory=new_order)
    pin: str | None = None
    generation: int = 0
    out: list[Release[Rows]] = field(default_factory=list)
    # Rows whose acknowledgement failed, so that the program may have undone its work.
    undone: set[int] = field(default_factory=set)
    # Rows that the program is done with, by epoch; their acknowledgement may be lost.
    done: set[tuple[int, int]] = field(default_factory=set)

    def pull(self, most: int, hang: float, other: Program | None = None) -> None:
        """A fetch; of two requests if there is another program, which works between them."""
        server = self.server
        if self.generation != server.generation:
            self.generation, self.pin = server.generation, None
            self.order.forget_consumer()
        started = server.now
        found, self.pin = server.pull(self.pin, most)
        server.now += hang
        if other is not None:
            other.pull(8, 0.0)
            other.release(8)
            other.settle("ack", 0, 0.0)
            server.now += hang
            more, self.pin = server.pull(self.pin, most)
            found = list(dict.fromkeys([*found, *more]))
        parts = [Part(one, seqs, seqs) for one in (0, 1) if (seqs := [seq for seq in found if seq % 2 == one])]
        refused = self.order.fetched(
            parts,
            pin=self.pin,
            started=started,
            now=server.now,
            is_last=len(found) < most * (1 if other is None else 2),
        )
        for rows in refused.reject:
            server.nak(rows)
        for rows in refused.repeat:
            assert not self.undone.intersection(rows), "acknowledged without having been released again"
            server.ack(rows)
        if self.order.is_waiting and self.order.checked(server.pinned_id()):
            self.order.counted(len(server.pending))

    def release(self, most: int) -> None:
        server = self.server
        before = self.order.epoch
        for release in self.order.release(most, server.now):
            assert release.epoch == before
            seqs = [seq for part in release.parts for seq in part.seqs]
            self.undone.difference_update(seqs)
            assert seqs == [seq for part in release.parts for seq in part.rows]
            assert seqs == sorted(set(seqs))
            # One program a member: the server would give rows to no other one.
            assert self.order.pin == server.pinned_id() or self.order.pin in server.unpinned | server.deleted
            own = {seq for one in self.out if one.epoch == before for part in one.parts for seq in part.seqs}
            for seq in seqs:
                own.add(seq)
                if self.order.pin in server.deleted:
                    continue
                assert seq not in server.acked
                # Order of the partition: all before it are done, or in work here.
                for earlier in range(release.partition or 2, seq, 2):
                    assert earlier in server.acked | own or (before, earlier) in self.done, (earlier, seq)
            self.out.append(release)

    def settle(self, kind: str, number: int, delay: float) -> None:
        if not self.out:
            return
        release = self.out.pop(number % len(self.out))
        answer = self.order.may_ack(release.epoch, self.server.now)
        if answer == "ask":
            answer = "yes" if self.order.checked(self.server.pinned_id()) else "no"
        if answer == "no":
            return
        pin, server = self.order.pin, self.server
        if pin in server.deleted:
            return
        assert pin == server.pinned_id() or pin in server.unpinned | server.deleted, "a late acknowledgement counts"
        seqs = [seq for part in release.parts for seq in part.seqs]
        acked, rest = (seqs, []) if kind not in ("nak", "lost") else (seqs[1:], seqs[:1])
        self.order.acknowledged(release.epoch, acked)
        if kind in ("lost", "unanswered"):
            self.server.nak(acked)
        else:
            self.server.ack(acked)
        if kind in ("unanswered", "unconfirmed"):
            self.order.unconfirmed(release.epoch, release.partition, acked, now=self.server.now)
            self.undone.update(acked)
        else:
            self.done.update((release.epoch, seq) for seq in acked)
        self.order.rejected(release.epoch, release.partition, rest, due=self.server.now + delay)
        self.server.nak(rest, delay)

    def keep(self) -> None:
        if self.order.is_fresh(self.server.now):
            epoch = self.order.epoch
            out = [part.rows for one in self.out if one.epoch == epoch for part in one.parts]
            for rows in (*self.order.held_rows, *out):
                for seq in rows:
                    if seq in self.server.pending:
                        self.server.pending[seq] = self.server.now + ACK_WAIT


WHO = st.sampled_from([0, 0, 0, 1, 1, 2])
TIMES = st.sampled_from([0.0, 0.1, 1.0, 3.0, 6.0, 8.0, 9.9, 10.0, 12.0, 25.0])
HANGS = st.sampled_from([0.0, 0.0, 0.0, 0.5, 11.0])
STEPS = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 8)),
    # Most steps pull and release, as a program does.
    st.tuples(st.just("take"), WHO, st.integers(1, 8), HANGS),
    st.tuples(st.just("take"), WHO, st.integers(1, 8), HANGS),
    st.tuples(st.just("take"), WHO, st.integers(1, 8), st.just(0.0)),
    st.tuples(st.just("twice"), WHO, st.integers(1, 8), HANGS),
    st.tuples(st.just("pull"), WHO, st.integers(1, 8), HANGS),
    st.tuples(st.just("release"), WHO, st.integers(1, 5)),
    # An acknowledgement whose confirmation fails has arrived ("unconfirmed") or not ("unanswered").
    st.tuples(
        st.sampled_from(["ack", "ack", "nak", "lost", "unanswered", "unconfirmed"]),
        WHO,
        st.integers(0, 5),
        st.sampled_from([0.0, 2.0, 9.0]),
    ),
    st.tuples(st.just("advance"), TIMES),
    st.tuples(st.just("keep"), WHO),
    st.tuples(st.just("kill"), WHO),
    st.tuples(st.sampled_from(["unpin", "replace"])),
)


@bounded(400)
@given(st.integers(1, 12), st.lists(STEPS, min_size=10, max_size=60))
def test_order_and_late_acks_over_takeovers(window: int, steps: list[tuple[object, ...]]) -> None:
    server = Server(window, last=12)
    programs = [Program(server) for _ in range(3)]
    for verb, *arguments in steps:
        numbers: list[int] = arguments  # type: ignore[assignment]
        match verb:
            case "publish":
                server.last += numbers[0]
            case "pull" | "take" | "twice":
                other = programs[(numbers[0] + 1) % len(programs)]
                programs[numbers[0]].pull(numbers[1], numbers[2], other if verb == "twice" else None)
                if verb != "pull":
                    programs[numbers[0]].release(3)
            case "release":
                programs[numbers[0]].release(numbers[1])
            case "advance":
                server.now += numbers[0]
            case "keep":
                programs[numbers[0]].keep()
            case "kill":
                programs[numbers[0]] = Program(server)
            case "unpin":
                server.unpinned.add(server.pin)
                server.pin = None
            case "replace":
                server.replace()
            case "ack" | "nak" | "lost" | "unanswered" | "unconfirmed":
                programs[numbers[0]].settle(str(verb), numbers[1], numbers[2])
    # One program is left: it gets everything.
    last = Program(server)
    for _ in range(200):
        if len(server.acked) == server.last:
            return
        last.pull(8, 0.0)
        last.keep()
        last.release(100)
        while last.out:
            last.settle("ack", 0, 0.0)
        server.now += 2.0
    raise AssertionError(f"{server.last - len(server.acked)} messages were lost")


def test_rows_of_a_fetch_over_two_pins_are_rejected() -> None:
    order = new_order()
    order.fetched([Part(0, [2, 4], [2, 4])], pin="a", started=0.0, now=0.1, is_last=True)
    order.counted(2)
    assert [one.parts for one in order.release(9, 0.2)] == [[Part(0, [2, 4], [2, 4])]]
    epoch = order.epoch
    refused = order.fetched([Part(0, [6], [6])], pin="b", started=0.3, now=0.4, is_last=True)
    assert (refused.reject, refused.repeat) == ([[6]], [])
    assert order.may_ack(epoch, 0.5) == "no"
    assert not order.release(9, 0.5)


def test_parts_that_overlap_are_merged_in_order_and_limited() -> None:
    order = new_order()
    order.fetched([Part(0, [2, 6, 10], [2, 6, 10])], pin="a", started=0.0, now=0.1, is_last=True)
    order.fetched([Part(0, [8, 4, 6], [8, 4, 6])], pin="a", started=0.2, now=0.3, is_last=True)
    assert (order.held, order.is_waiting) == (5, True)
    order.counted(6)
    assert not order.release(9, 0.4)
    order.counted(5)
    found = [[seq for part in one.parts for seq in part.rows] for _ in range(3) for one in order.release(2, 0.4)]
    assert found == [[2, 4], [6, 8], [10]]


def test_a_message_whose_acknowledgement_was_lost_is_acknowledged_again() -> None:
    order = new_order()
    order.fetched([Part(0, [2], [2])], pin="a", started=0.0, now=0.1, is_last=True)
    order.counted(1)
    (release,) = order.release(9, 0.2)
    order.acknowledged(release.epoch, [2])
    refused = order.fetched([Part(0, [2, 4], [2, 4])], pin="a", started=0.3, now=0.4, is_last=True)
    assert refused.repeat == [[2]]
    assert [one.parts for one in order.release(9, 0.5)] == [[Part(0, [4], [4])]]


def test_releases_that_were_not_taken_are_released_again_in_order() -> None:
    order = new_order()
    order.fetched([Part(0, [2, 4, 6], [2, 4, 6])], pin="a", started=0.0, now=0.1, is_last=True)
    order.counted(3)
    order.ready.extend(order.release(2, 0.2))
    assert sorted(order.held_rows) == [[2, 4], [6]]
    order.take_back()
    refused = order.fetched([Part(0, [4, 8], [4, 8])], pin="a", started=0.3, now=0.4, is_last=True)
    assert (order.held, not order.ready, refused.reject, refused.repeat) == (4, True, [], [])
    assert [row for part in order.release(9, 0.5)[0].parts for row in part.rows] == [2, 4, 6, 8]


def test_releases_of_a_former_pin_are_not_taken_back() -> None:
    order = new_order()
    order.fetched([Part(0, [2], [2])], pin="a", started=0.0, now=0.1, is_last=True)
    order.counted(1)
    order.ready.extend(order.release(9, 0.2))
    order.forget_consumer()
    assert not order.held_rows
    order.take_back()
    assert (order.held, not order.ready) == (0, True)
