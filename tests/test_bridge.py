"""The bridge between native calls and an event loop: every future has its outcome, whatever the others do."""

from __future__ import annotations

import gc
import select
import time
import weakref
from typing import Any

import jetarrow.sync
import pytest
from jetarrow._jetarrow import Bridge, Connection


class Future:
    """As much of a future as the bridge calls."""

    def __init__(self, broken: BaseException | None = None) -> None:
        self.broken = broken
        self.outcome: list[Any] = []

    def done(self) -> bool:
        return bool(self.outcome)

    def set_result(self, value: object) -> None:
        if self.broken is not None:
            raise self.broken
        self.outcome.append(value)


class Loop:
    """An event loop that makes one future."""

    def __init__(self, future: Future) -> None:
        self.create_future = lambda: future


def start(native: Connection, bridge: Bridge, *futures: Future) -> None:
    """Starts a call for each future; returns when all of them are over, and none was delivered."""
    for future in futures:
        native.room(0).start(Loop(future), bridge)  # type: ignore[arg-type]
    # The native thread does one after the other.
    native.flush(5).block()
    ready = select.poll()  # Not `select`, which knows only descriptors below 1024.
    ready.register(bridge.fileno(), select.POLLIN)
    assert ready.poll(5000)


@pytest.fixture
def native(nats_url: str) -> Any:
    with jetarrow.sync.connect(nats_url) as nc:
        yield nc._inner._session.native


def test_one_that_fails_does_not_keep_the_others_waiting(native: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[BaseException | None] = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: unraisable.append(found.exc_value))
    bridge, good, last = Bridge(), Future(), Future()
    broken, interrupted, other = Future(KeyError("a")), Future(KeyboardInterrupt()), Future(KeyError("b"))
    start(native, bridge, broken, good, interrupted, other, last)
    # One is raised, the most urgent; none is lost.
    with pytest.raises(KeyboardInterrupt):
        bridge.drain()
    assert unraisable == [broken.broken, other.broken]
    assert good.outcome == last.outcome == [None]


def test_a_cancelled_call_is_forgotten(native: Connection) -> None:
    bridge, future = Bridge(), Future()
    call = native.flush(60)
    call.start(Loop(future), bridge)  # type: ignore[arg-type]
    call.cancel()
    ready = select.poll()  # Not `select`, which knows only descriptors below 1024.
    ready.register(bridge.fileno(), select.POLLIN)
    assert ready.poll(5000)
    future.outcome.append("cancelled")
    gone = weakref.ref(future)
    bridge.drain()
    assert future.outcome == ["cancelled"]
    del future
    gc.collect()
    assert gone() is None


class Queue:
    """A loop's queue that counts how often somebody looks whether it is empty."""

    def __init__(self) -> None:
        self.looks = 0
        self.handles = 0

    def __len__(self) -> int:
        self.looks += 1
        return self.handles


def looks(bridge: Bridge, queue: Queue, calls: int) -> list[int]:
    """Which of so many calls looked."""
    found = []
    for number in range(calls):
        before = queue.looks
        bridge.linger()
        found += [number] * (queue.looks - before)
    return found


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="watches a selector of Linux")
def test_after_a_wait_in_vain_the_next_calls_do_not_look(native: Connection) -> None:
    """8 of them, after another such wait 16, then 32; one that brings something begins anew."""
    for _ in range(200):
        bridge, queue = Bridge(), Queue()
        with select.epoll() as selector:
            bridge.watch_loop(selector.fileno(), queue, [], time.monotonic)
            assert looks(bridge, queue, 9) == [0]
            assert looks(bridge, queue, 17) == [0]
            assert looks(bridge, queue, 33) == [0]
            future = Future()
            native.flush(60).start(Loop(future), bridge)  # type: ignore[arg-type]
            bridge.linger()
            if future.outcome:
                assert looks(bridge, queue, 9) == [0]
                return
    # Another thread was always faster, or two milliseconds were always too short.
    raise AssertionError("no wait has brought anything")


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="watches a selector of Linux")
def test_a_loop_with_something_to_do_is_looked_at_each_time() -> None:
    bridge, queue = Bridge(), Queue()
    queue.handles = 1
    with select.epoll() as selector:
        bridge.watch_loop(selector.fileno(), queue, [], time.monotonic)
        assert looks(bridge, queue, 20) == list(range(20))
