"""The bridge between native calls and an event loop: every future has its outcome, whatever the others do.

All of it twice: woken by a descriptor, and by a function as on Windows.
"""

from __future__ import annotations

import asyncio
import gc
import select
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
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What wakes; set before any bridge of the test is made."""
    if request.param == "descriptor" and not bridges._CAN_WATCH_DESCRIPTORS:
        pytest.skip("no descriptor can be watched here")
    monkeypatch.setattr(bridges, "_CAN_WATCH_DESCRIPTORS", request.param == "descriptor")
    return str(request.param)


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


def wait_for(door: ThreadBridge) -> None:
    """Until it has something."""
    with door.open() as wait:
        assert wait(60)


def start(native: Connection, door: ThreadBridge, *futures: Future) -> None:
    """Starts a call for each future; returns when all of them are over, and none was delivered."""
    for future in futures:
        native.room(0).start(Loop(future), door.bridge)  # type: ignore[arg-type]
    # The native thread does one after the other.
    native.flush(60).block()
    wait_for(door)


@pytest.fixture
def native(nats_url: str, way: str) -> Any:
    with jetarrow.sync.connect(nats_url) as nc:
        yield nc._inner._session.native


def test_one_that_fails_does_not_keep_the_others_waiting(native: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[BaseException | None] = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: unraisable.append(found.exc_value))
    door, good, last = ThreadBridge(), Future(), Future()
    broken, interrupted, other = Future(KeyError("a")), Future(KeyboardInterrupt()), Future(KeyError("b"))
    start(native, door, broken, good, interrupted, other, last)
    # One is raised, the most urgent; none is lost.
    with pytest.raises(KeyboardInterrupt):
        door.bridge.drain()
    assert unraisable == [broken.broken, other.broken]
    assert good.outcome == last.outcome == [None]


def test_a_cancelled_call_is_forgotten(native: Connection) -> None:
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
    # Another thread was always faster, or two milliseconds were always too short.
    raise AssertionError("no wait has brought anything")


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="watches a selector of Linux")
def test_a_loop_with_something_to_do_is_looked_at_each_time() -> None:
    bridge, queue = ThreadBridge().bridge, Queue()
    queue.handles = 1
    with select.epoll() as selector:
        bridge.watch_loop(selector.fileno(), queue, [], time.monotonic)
        assert looks(bridge, queue, 20) == list(range(20))


def test_only_one_of_the_two_wakes(way: str) -> None:
    bridge = ThreadBridge().bridge
    if way == "descriptor":
        assert bridge.fileno() > 2
    else:
        with pytest.raises(ValueError, match="calls a function"):
            bridge.fileno()


@pytest.mark.parametrize("loop_class", [asyncio.SelectorEventLoop, "blind"])
def test_a_loop_and_all_that_comes_to_it(nats_url: str, loop_class: Any, stream: str) -> None:
    """Calls, messages, futures of publishes, callbacks; also of a loop that watches no descriptors at all."""

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


def test_threads_and_all_that_comes_to_them(nats_url: str, stream: str) -> None:
    over, called = threading.Event(), threading.Event()
    with jetarrow.sync.connect(nats_url, closed_cb=over.set) as nc:
        js = nc.jetstream()
        futures = [js.publish_async(f"{stream}.a", b"x") for _ in range(500)]
        futures[-1].add_done_callback(lambda _: called.set())
        assert [future.result(60).seq for future in futures] == list(range(1, 501))
        assert called.wait(60)
    assert over.wait(60)


def test_a_loop_goes_with_all_that_it_had(nats_url: str) -> None:
    async def main() -> weakref.ref[Any]:
        async with await jetarrow.connect(nats_url) as nc:
            await nc.flush()
        return weakref.ref(asyncio.get_running_loop())

    gone = asyncio.run(main())

    def is_gone() -> bool:
        gc.collect()
        return gone() is None

    # A thread that wakes it may hold it for a moment.
    wait_until(is_gone)


def test_a_loop_that_is_closed_wants_nothing(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes when nobody is there; the next loop has its own bridge."""
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
