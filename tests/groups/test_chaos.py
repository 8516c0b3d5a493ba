"""Members as processes: kills, hangs and changes of the membership."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from ..tools import wait_until
from .program import Program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGSTOP")

# Longest time for which two programs work on one message, besides a hang: the work on a batch of the former one, until
# its acknowledgement is refused. On a busy machine a process waits for the processor meanwhile.
BOUND = 3.0


@pytest.fixture
def js(own_sync: jetarrow.sync.JetStream) -> jetarrow.sync.JetStream:
    own_sync.add_stream(name="ORDERS", subjects=["orders.>"])
    return own_sync


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    found: list[Program] = []
    yield found
    for program in found:
        program.kill()


def publish(js: jetarrow.sync.JetStream, keys: int, rounds: range) -> None:
    for number in rounds:
        for key in range(keys):
            js.publish_async(f"orders.k{key}", f"{key} {number}".encode())
    js.publish_async_completed()


def is_empty(js: jetarrow.sync.JetStream) -> bool:
    info = js.stream_info("ORDERS-G")
    return info.state.messages == 0 and not any(one.lag for one in info.sources or ())


def is_unknown(batch: dict[str, Any], program: Program) -> bool:
    """Whether the acknowledgement of a batch may have counted, although the program does not know it."""
    return (not batch["end"] and program.was_killed) or batch["error"] == "TimeoutError"


def assert_order(programs: list[Program], keys: int, rounds: int) -> None:
    """Each key in its order, nothing lost, and nothing in work at two programs for longer than `BOUND`.

    The order holds for each try, also for one that was refused later: a batch has consecutive messages of a key, and
    the message before them had been settled, or was in work with an unknown outcome: the program was killed before it
    reported, or its acknowledgement had no answer.
    """
    settled: dict[tuple[int, int], float] = {}
    unknown: dict[tuple[int, int], float] = {}
    tried: list[tuple[float, dict[int, list[int]]]] = []
    for program in programs:
        for batch in program.batches:
            numbers: dict[int, list[int]] = {}
            for text in batch["texts"]:
                key, number = map(int, text.split())
                numbers.setdefault(key, []).append(number)
                if batch["end"] and not batch["error"]:
                    # A program that hung may have been acknowledged before it.
                    hangs = [since for since, till in program.stops if batch["start"] < till < batch["end"]]
                    settled[key, number] = min([batch["end"], *hangs])
                elif is_unknown(batch, program):
                    unknown[key, number] = min(batch["start"], unknown.get((key, number), batch["start"]))
            tried.append((batch["start"], numbers))
    for start, numbers in tried:
        for key, own in numbers.items():
            first = own[0]
            assert own == list(range(first, first + len(own))), f"a batch of key {key} has {own}"
            before = (key, first - 1)
            # An acknowledgement with an unknown outcome may have been the one that counted.
            done = min(settled.get(before, math.inf), unknown.get(before, math.inf)) if first else 0.0
            assert done <= start, f"message {first} of key {key} was tried before the one before it was settled"
    work: dict[tuple[int, int], list[tuple[dict[str, Any], Program]]] = {}
    for program in programs:
        for batch in program.batches:
            for text in batch["texts"]:
                key, number = map(int, text.split())
                work.setdefault((key, number), []).append((batch, program))
    for key in range(keys):
        before = 0.0
        for number in range(rounds):
            tries = sorted(work.get((key, number), []), key=lambda one: float(one[0]["start"]))
            assert tries, f"message {number} of key {key} is lost"
            # The try that counts is the last one: acknowledged, or with an unknown outcome.
            done = [batch for batch, _ in tries if batch["end"] and not batch["error"]]
            start = (done or [tries[-1][0]])[-1]["start"]
            assert done or is_unknown(*tries[-1]), f"message {number} of key {key} was not acknowledged"
            assert len(done) <= 1, f"message {number} of key {key} was acknowledged by two"
            assert start >= before, f"message {number} of key {key} was overtaken"
            before = start
            for (former, program), (later, _) in itertools.pairwise(tries):
                end, next_start = former["end"], later["start"]
                hung = sum(max(0.0, till - max(since, next_start)) for since, till in program.stops)
                assert end - next_start - hung < BOUND, f"message {number} of key {key} was in work twice"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_another_program_takes_over_in_order(
    how: str, js: jetarrow.sync.JetStream, own_server: NatsServer, programs: list[Program], tmp_path: Path
) -> None:
    js.create_consumer_group("ORDERS", "G", partitions=4, filter="orders.*", partition_by=[1], members=["m1"])
    for _ in range(2):
        programs.append(Program(own_server.url, "m1", rows=20, work=0.004, hangs=str(tmp_path / "hangs")))
        assert programs[-1].joined.wait(60)
    publish(js, 5, range(100))
    wait_until(lambda: any(program.batches for program in programs))
    first, second = sorted(programs, key=lambda program: not program.batches)
    # It stops itself with a batch in work and later rows fetched.
    first.wait_until_stopped()
    with contextlib.ExitStack() as stack:
        if how == "kill":
            first.kill()
        else:
            stack.enter_context(first.stopped())
        publish(js, 5, range(100, 120))
        wait_until(lambda: second.batches)
    wait_until(lambda: is_empty(js), 60)
    if how == "stop":
        wait_until(lambda: first.batches[0]["error"])
    first.kill()
    second.close()
    if how == "stop":
        # It woke with its batch in work, whose acknowledgement was refused.
        assert first.batches[0]["error"] == "GroupPinLostError"
    assert_order(programs, 5, 120)


def run_chaos(js: jetarrow.sync.JetStream, url: str, programs: list[Program], seconds: float) -> int:
    """Kills, hangs, joins and leaves about every second. Returns the number of rounds that were published."""
    chance = random.Random(7)
    names = [f"m{number}" for number in range(6)]
    group = js.create_consumer_group("ORDERS", "G", partitions=16, filter="orders.*", partition_by=[1], members=names)

    def start(name: str) -> Program:
        programs.append(Program(url, name, work=0.0005))
        return programs[-1]

    # Two of the six members have a second program.
    running = [start(name) for name in [*names, "m0", "m1"]]
    for program in running:
        assert program.joined.wait(60)
    rounds, present = 0, set(names)
    deadline = time.monotonic() + seconds
    hangs: list[threading.Thread] = []
    while time.monotonic() < deadline:
        publish(js, 24, range(rounds, rounds + 10))
        rounds += 10
        match chance.choice(["kill", "hang", "leave", "join"]):
            case "kill":
                slot = chance.randrange(len(running))
                running[slot].kill()
                running[slot] = start(running[slot].member)
            case "hang":
                hangs.append(threading.Thread(target=chance.choice(running).stop, args=(2.0,)))
                hangs[-1].start()
            case "leave" if len(present) > 2:
                name = chance.choice(sorted(present))
                present.remove(name)
                group.remove_member(name)
            case _:
                present |= {(name := chance.choice(names))}
                group.add_member(name)
        time.sleep(1.0)
    for hang in hangs:
        hang.join()
    for name in names:
        group.add_member(name)
    wait_until(lambda: is_empty(js), 90)
    for program in running:
        program.close()
    return rounds


def test_order_holds_in_chaos(js: jetarrow.sync.JetStream, own_server: NatsServer, programs: list[Program]) -> None:
    assert_order(programs, 24, run_chaos(js, own_server.url, programs, 10))


@pytest.mark.slow
def test_order_holds_in_long_chaos(
    js: jetarrow.sync.JetStream, own_server: NatsServer, programs: list[Program]
) -> None:
    assert_order(programs, 24, run_chaos(js, own_server.url, programs, 180))
