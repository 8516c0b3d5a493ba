"""The bridge between native calls and an event loop resolves every future, also if another one fails.

Each test runs twice: woken by a descriptor, and by a function as on Windows.
"""

from __future__ import annotations

import asyncio
import gc
import select
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow._jetarrow import Bridge, Connection
from jetarrow.core import bridges
from jetarrow.core.bridges import ThreadBridge

from .tools import wait_until


@pytest.fixture(autouse=True, params=["descriptor", "function"])
def wake_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kind of wake-up; set before the test creates a bridge."""
    if request.param == "descriptor" and not bridges._CAN_WATCH_DESCRIPTORS:
        pytest.skip("no descriptor can be watched here")
    monkeypatch.setattr(bridges, "_CAN_WATCH_DESCRIPTORS", request.param == "descriptor")
    return str(request.param)


class Future:
    """The methods of a future that the bridge calls."""

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
    """An event loop that creates one future."""

    def __init__(self, future: Future) -> None:
        self.create_future = lambda: future


def wait_for(door: ThreadBridge) -> None:
    """Waits until the bridge has an item."""
    with door.open() as wait:
        assert wait(60)


def start(native: Connection, door: ThreadBridge, *futures: Future) -> None:
    """Starts a call for each future; returns when all calls have ended and no future is resolved."""
    for future in futures:
        native.room(0).start(Loop(future), door.bridge)  # type: ignore[arg-type]
    # The native thread executes calls in order.
    native.flush(60).block()
    wait_for(door)


@pytest.fixture
def native(nats_url: str, wake_by: str) -> Any:
    with jetarrow.sync.connect(nats_url) as nc:
        yield nc._inner._session.native


def test_failing_future_does_not_block_other_futures(native: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[BaseException | None] = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: unraisable.append(found.exc_value))
    door, good, last = ThreadBridge(), Future(), Future()
    broken, interrupted, other = Future(KeyError("a")), Future(KeyboardInterrupt()), Future(KeyError("b"))
    start(native, door, broken, good, interrupted, other, last)
    # The most urgent error is raised; the others are reported.
    with pytest.raises(KeyboardInterrupt):
        door.bridge.drain()
    assert unraisable == [broken.broken, other.broken]
    assert good.outcome == last.outcome == [None]


def test_cancelled_call_is_released(native: Connection) -> None:
    door, future = ThreadBridge(), Future()
    call = native.flush(60)
    call.start(Loop(future), door.bridge)  # type: ignore[arg-type]
    call.cancel()
    wait_for(door)
    future.outcome.append("cancelled")
    gone = weakref.ref(future)
    door.bridge.drain()
    assert future.outcome == ["cancelled"]
    del future
    gc.collect()
    assert gone() is None


class Queue:
    """A loop's queue that counts the checks whether it is empty."""

    def __init__(self) -> None:
        self.looks = 0
        self.handles = 0

    def __len__(self) -> int:
        self.looks += 1
        return self.handles


def looks(bridge: Bridge, queue: Queue, calls: int) -> list[int]:
    """Returns the numbers of the calls that checked the queue."""
    found = []
    for number in range(calls):
        before = queue.looks
        bridge.linger()
        found += [number] * (queue.looks - before)
    return found


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="watches a selector of Linux")
def test_calls_after_unsuccessful_spin_do_not_spin(native: Connection) -> None:
    """8 calls, after another unsuccessful spin 16, then 32; a successful spin resets the number."""
    for _ in range(200):
        bridge, queue = ThreadBridge().bridge, Queue()
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
    # Another thread was always faster, or 2 ms were always too short.
    raise AssertionError("no spin was successful")


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="watches a selector of Linux")
def test_busy_loop_is_checked_at_each_call() -> None:
    bridge, queue = ThreadBridge().bridge, Queue()
    queue.handles = 1
    with select.epoll() as selector:
        bridge.watch_loop(selector.fileno(), queue, [], time.monotonic)
        assert looks(bridge, queue, 20) == list(range(20))


def test_second_drain_does_not_block() -> None:
    """After a KeyboardInterrupt a loop's queue holds the call of the drain that it has then made.

    In a process of its own: no signal ends a blocked drain.
    """
    program = "from jetarrow._jetarrow import Bridge; b = Bridge(); b.ring(); b.drain(); b.drain(); print('returned')"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert child.stdout == "returned\n"


def test_bridge_has_either_descriptor_or_wake_function(wake_by: str) -> None:
    bridge = ThreadBridge().bridge
    if wake_by == "descriptor":
        assert bridge.fileno() > 2
    else:
        with pytest.raises(ValueError, match="calls a function"):
            bridge.fileno()


@pytest.mark.parametrize("loop_class", [asyncio.SelectorEventLoop, "blind"])
def test_loop_receives_results_of_many_calls(nats_url: str, loop_class: Any, stream: str) -> None:
    """Calls, messages, futures of publishes and callbacks, also in a loop that watches no descriptors."""

    class Blind(asyncio.SelectorEventLoop):
        def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
            raise NotImplementedError

    async def main() -> list[bytes]:
        over = asyncio.Event()

        async def closed() -> None:
            over.set()

        nc = await jetarrow.connect(nats_url, closed_cb=closed)
        inbox, got = nc.new_inbox(), asyncio.Queue[bytes]()

        async def take(msg: jetarrow.Msg) -> None:
            await got.put(msg.data)
            await msg.respond(b"answer")

        await nc.subscribe(inbox, cb=take)
        assert (await nc.request(inbox, b"question", timeout=60)).data == b"answer"
        js = nc.jetstream()
        futures = [await js.publish_async(f"{stream}.a", b"x") for _ in range(500)]
        assert [(await future).seq for future in futures] == list(range(1, 501))
        assert len(await js.read(stream).read_all()) == 500
        await nc.close()
        await asyncio.wait_for(over.wait(), 60)
        return [got.get_nowait()]

    with asyncio.Runner(loop_factory=Blind if loop_class == "blind" else loop_class) as runner:
        assert runner.run(main()) == [b"question"]


def test_threads_receive_results_of_many_calls(nats_url: str, stream: str) -> None:
    over, called = threading.Event(), threading.Event()
    with jetarrow.sync.connect(nats_url, closed_cb=over.set) as nc:
        js = nc.jetstream()
        futures = [js.publish_async(f"{stream}.a", b"x") for _ in range(500)]
        futures[-1].add_done_callback(lambda _: called.set())
        assert [future.result(60).seq for future in futures] == list(range(1, 501))
        assert called.wait(60)
    assert over.wait(60)


def test_deleted_loop_releases_its_bridge(nats_url: str) -> None:
    async def main() -> weakref.ref[Any]:
        async with await jetarrow.connect(nats_url) as nc:
            await nc.flush()
        return weakref.ref(asyncio.get_running_loop())

    gone = asyncio.run(main())

    def is_gone() -> bool:
        gc.collect()
        return gone() is None

    # A thread that wakes the loop may reference it for a moment.
    wait_until(is_gone)


def test_closed_loop_receives_no_results(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response arrives after the loop is closed; the next loop has its own bridge."""
    unraisable: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)

    async def leave() -> None:
        nc = await jetarrow.connect(nats_url)
        nc._session.native.flush(60).start(asyncio.get_running_loop(), bridges.bridge_of(asyncio.get_running_loop()))

    async def work() -> None:
        async with await jetarrow.connect(nats_url) as nc:
            await nc.flush()

    for _ in range(5):
        asyncio.run(leave())
        asyncio.run(work())
    gc.collect()
    assert not unraisable
