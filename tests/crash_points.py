"""Failing a verb at each of its requests in turn. No test is in here.

`failing` makes one request of a connection fail. `at_each_request` runs a verb again and again, with another request
failing each time, and has the caller check what is left. Both work on the session below a client of either face:

    async with await jetarrow.connect(url) as nc:
        await at_each_request(nc, verb, prepare=prepare, check=check)

A request is every message that expects an answer: JetStream's API, a publish to a stream, the opening of a read.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from jetarrow.errors import ConnectionClosedError, Error, TimeoutError
from jetarrow.jetstream.publisher import LoopPublisher

# Methods of the native connection that send one request, or several that count as one.
_REQUESTS = ("request", "request_msg", "request_future", "publish", "publish_batch", "read")
# Most requests of a verb: one that never gets through would be tried for ever.
MOST = 200


@dataclass(frozen=True)
class Crash:
    """How a request fails.

    Attributes:
        sent: The server gets it, and its answer is lost; else it is never sent.
        dead: Every later request fails too, as after the end of the process or of its connection.
    """

    sent: bool
    dead: bool


# The request times out, and the verb can still clean up; or nothing is sent after it.
SHORT = (Crash(sent=False, dead=False), Crash(sent=True, dead=False), Crash(sent=True, dead=True))
FULL = (*SHORT, Crash(sent=False, dead=True))


@dataclass
class Point:
    """A request that fails, and the requests that were made.

    Attributes:
        number: Which one, from 1.
        crash: How.
        requests: Subject or kind of each request so far.
    """

    number: int
    crash: Crash
    requests: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        """Whether there was such a request."""
        return len(self.requests) >= self.number

    def __str__(self) -> str:
        what = self.requests[self.number - 1] if self.reached else "not reached"
        sent = "its answer lost" if self.crash.sent else "not sent"
        return f"request {self.number} ({what}), {sent}{', then nothing' if self.crash.dead else ''}"

    def enter(self, request: str) -> bool:
        """Count a request; True if its answer is to be lost. Raises if it is not to be sent."""
        self.requests.append(request)
        at = len(self.requests)
        if at == self.number and self.crash.sent:
            return True
        if at == self.number or (at > self.number and self.crash.dead):
            raise self.error()
        return False

    def error(self) -> Error:
        """The error of a request that fails."""
        return ConnectionClosedError() if self.crash.dead else TimeoutError(f"crash point: {self}")


class _Connection:
    """The native connection, whose requests are counted."""

    def __init__(self, native: Any, point: Point, lost: list[Any]) -> None:
        self._native = native
        self._point = point
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        held = getattr(self._native, name)
        if name not in _REQUESTS:
            return held

        def request(*args: Any, **options: Any) -> Any:
            texts = [name, *(arg for arg in args if isinstance(arg, str))]
            is_lost = self._point.enter(" ".join(texts[:3]))
            result = held(*args, **options)
            if not is_lost:
                return result
            if name == "request_future":
                return _Lost(result, self._point)
            self._lost.append(result)
            return result

        return request


class _Lost:
    """A future whose answer came, and is lost: it is done when the other one is, with an error."""

    def __init__(self, future: Any, point: Point) -> None:
        self._future = future
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._future, name)

    def result(self, *timeout: float | None) -> Any:
        self._future.result(*timeout)
        raise self._point.error()

    def exception(self, *timeout: float | None) -> BaseException:
        self._future.exception(*timeout)
        return self._point.error()

    def __await__(self) -> Generator[Any, None, Any]:
        yield from self._future.__await__()
        raise self._point.error()


@contextmanager
def failing(client: Any, number: int, crash: Crash) -> Iterator[Point]:
    """Make the request with this number fail, of those that a client makes within the block.

    Args:
        client: A client of either face.
        number: Which request, from 1.
        crash: How it fails.
    """
    session = client._session
    native, run = session.connection, session.run
    point, lost = Point(number, crash), []
    begin = LoopPublisher.__init__

    async def run_and_lose(call: Any, *args: Any) -> Any:
        result = await run(call, *args)
        if any(call is each for each in lost):
            raise point.error()
        return result

    def wrap(publisher: LoopPublisher) -> None:
        publish = publisher.publish

        def counted(loop: Any, subject: str, *args: Any) -> Any:
            if publisher.native.full():
                # Nothing is sent: the caller waits for room, and tries again.
                return publish(loop, subject, *args)
            is_lost = point.enter(f"publish {subject}")
            future = publish(loop, subject, *args)
            return _Lost(future, point) if is_lost and future is not None else future

        publisher.publish = counted  # type: ignore[assignment,method-assign]
        wrapped.append((publisher, publish))

    def made(self: LoopPublisher, session_: Any, **options: Any) -> None:
        begin(self, session_, **options)
        if session_ is session:
            wrap(self)

    wrapped: list[tuple[LoopPublisher, Any]] = []
    for publisher in list(session.publishers):
        if isinstance(publisher, LoopPublisher):
            wrap(publisher)
    session.connection = _Connection(native, point, lost)
    session.run = run_and_lose
    try:
        with mock.patch.object(LoopPublisher, "__init__", made):
            yield point
    finally:
        session.connection = native
        del session.run
        for publisher, publish in wrapped:
            publisher.publish = publish  # type: ignore[method-assign]


async def at_each_request(
    client: Any,
    verb: Callable[[], Awaitable[object]],
    *,
    prepare: Callable[[], Awaitable[object]],
    check: Callable[[Point, BaseException | None], Awaitable[object]],
    full: bool | None = None,
) -> int:
    """Run a verb once per request and kind of crash, until it gets through without reaching the request.

    Args:
        client: The client whose requests fail.
        verb: Makes the requests.
        prepare: Brings the server into the state before the verb; called before each run.
        check: Checks the state after each run, given the point and the error that the verb raised, if any; it may run
            the verb again.
        full: Try every kind of crash; else those of `SHORT`. Default: where `JETARROW_CRASH_FULL` is set, as by the
            yardstick.

    Returns:
        The number of requests of the verb.
    """
    every = "JETARROW_CRASH_FULL" in os.environ if full is None else full
    for number in range(1, MOST):
        reached = False
        for crash in FULL if every else SHORT:
            await prepare()
            error: BaseException | None = None
            with failing(client, number, crash) as point:
                try:
                    await verb()
                except Error as caught:
                    error = caught
            reached = reached or point.reached
            await check(point, error)
        if not reached:
            return number - 1
    raise AssertionError(f"the verb makes {MOST} requests or more")
