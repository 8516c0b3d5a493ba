"""The future of a published message, beside asyncio's own: whatever is done with either ends the same."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import jetarrow
import pytest
from jetarrow._jetarrow import PubAckFuture
from jetarrow.js.errors import NoStreamResponseError
from jetarrow.server import NatsServer

Future = asyncio.Future[Any]
Scenario = Callable[["Kind"], Awaitable[object]]


class Kind:
    """Makes futures of one kind: done, failed, or pending until `answer`."""

    async def stored(self) -> Future:
        """One that is done or will be, with an ack of stream S."""
        raise NotImplementedError

    async def failing(self) -> Future:
        """One that will fail with a `NoStreamResponseError`."""
        raise NotImplementedError

    async def pending(self) -> Future:
        """One that stays as it is."""
        raise NotImplementedError


class Own(Kind):
    def __init__(self, js: jetarrow.JetStream, nc: jetarrow.Client) -> None:
        self.js, self.nc = js, nc

    async def stored(self) -> Future:
        return await self.js.publish_async("s.x", b"row")

    async def failing(self) -> Future:
        return await self.js.publish_async("nobody.takes.it", b"row")

    async def pending(self) -> Future:
        # Its subject has a listener that is no stream, and says nothing.
        return await self.js.publish_async("silent", b"row")


class Asyncios(Kind):
    async def stored(self) -> Future:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(lambda: future.done() or future.set_result(jetarrow.js.api.PubAck(stream="S", seq=1)))
        return future

    async def failing(self) -> Future:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(lambda: future.done() or future.set_exception(NoStreamResponseError()))
        return future

    async def pending(self) -> Future:
        return asyncio.get_running_loop().create_future()


def said(error: BaseException) -> tuple[str, tuple[object, ...]]:
    return type(error).__name__, error.args if isinstance(error, asyncio.CancelledError) else ()


async def outcome(work: Awaitable[object]) -> object:
    """What comes of it: an ack's stream, or the error."""
    try:
        return getattr(await work, "stream", "no ack")
    except (Exception, asyncio.CancelledError) as error:
        return said(error)


def now(work: Callable[[], object]) -> object:
    try:
        got = work()
    except (Exception, asyncio.CancelledError) as error:
        return said(error)
    return getattr(got, "stream", got if isinstance(got, bool | int | None) else type(got).__name__)


def looks(future: Future) -> list[object]:
    """All that one can ask of it."""
    return [
        future.done(),
        future.cancelled(),
        now(future.result),
        now(future.exception),
        future._asyncio_future_blocking,
    ]


async def awaited(kind: Kind) -> object:
    return [await outcome(await kind.stored()), await outcome(await kind.failing())]


async def asked(kind: Kind) -> object:
    seen = []
    for make in (kind.stored, kind.failing, kind.pending):
        future = await make()
        seen.append(looks(future))
        await asyncio.wait([future], timeout=5 if make != kind.pending else 0.01)
        seen.append(looks(future))
        future.cancel()
    return seen


async def twice(kind: Kind) -> object:
    future = await kind.stored()
    first, second = await future, await future
    return first is second is future.result()


async def awaited_by_two(kind: Kind) -> object:
    future = await kind.stored()
    tasks = [asyncio.ensure_future(outcome(future)) for _ in range(2)]
    return await asyncio.gather(*tasks)


async def cancelled(kind: Kind) -> object:
    future = await kind.pending()
    with_words = await kind.pending()
    seen = [future.cancel(), future.cancel(), with_words.cancel("why"), *looks(future), *looks(with_words)]
    return [*seen, await outcome(future), await outcome(with_words)]


async def cancelled_when_done(kind: Kind) -> object:
    future = await kind.stored()
    await future
    return [future.cancel(), *looks(future)]


async def a_task_cancelled(kind: Kind) -> object:
    future = await kind.pending()
    task = asyncio.ensure_future(outcome(future))
    await asyncio.sleep(0)
    task.cancel("enough")
    return [await outcome(task), *looks(future)]


async def shielded(kind: Kind) -> object:
    future = await kind.pending()
    task = asyncio.ensure_future(asyncio.shield(future))
    await asyncio.sleep(0)
    task.cancel()
    seen = [await outcome(task), future.done()]
    future.cancel()
    return seen


async def gathered(kind: Kind) -> object:
    futures = [await kind.stored() for _ in range(50)]
    acks = await asyncio.gather(*futures)
    mixed = await asyncio.gather(await kind.stored(), await kind.failing(), return_exceptions=True)
    raised = await outcome(asyncio.gather(await kind.failing(), await kind.stored()))
    return [len(acks), {ack.stream for ack in acks}, [type(one).__name__ for one in mixed], raised]


async def gathered_and_cancelled(kind: Kind) -> object:
    first, second = await kind.pending(), await kind.pending()
    first.cancel("gone")
    seen = [await outcome(asyncio.gather(first, second)), second.done()]
    second.cancel()
    whole = asyncio.gather(await kind.pending(), await kind.pending())
    await asyncio.sleep(0)
    whole.cancel()
    return [*seen, await outcome(whole)]


async def timed(kind: Kind) -> object:
    future = await kind.pending()
    seen = [await outcome(asyncio.wait_for(future, 0.01)), *looks(future)]
    return [*seen, await outcome(asyncio.wait_for(await kind.stored(), 5))]


async def waited(kind: Kind) -> object:
    futures = [await kind.stored(), await kind.failing(), await kind.pending()]
    done, pending = await asyncio.wait(futures, timeout=5, return_when=asyncio.FIRST_EXCEPTION)
    seen = [futures[1] in done, pending >= {futures[2]}]
    futures[2].cancel()
    finished = [await outcome(one) for one in asyncio.as_completed(futures[:2])]
    return [*seen, sorted(map(str, finished))]


async def called_back(kind: Kind) -> object:
    where = contextvars.ContextVar("where", default="nowhere")
    seen: list[object] = []
    future = await kind.stored()

    def call(done: Future) -> None:
        seen.append((done is future, done.result().stream, where.get()))

    def never(done: Future) -> None:
        seen.append("called")

    where.set("added")
    future.add_done_callback(call)
    other = contextvars.copy_context()
    other.run(where.set, "given")
    future.add_done_callback(call, context=other)
    future.add_done_callback(never)
    future.add_done_callback(never)
    seen.append(future.remove_done_callback(never))
    seen.append(future.remove_done_callback(never))
    where.set("later")
    await future
    future.add_done_callback(call)
    seen.append("not at once")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return [*seen, future.remove_done_callback(call)]


async def a_callback_that_fails(kind: Kind) -> object:
    told: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: told.append(str(context.get("exception"))))
    future = await kind.stored()
    future.add_done_callback(lambda _done: 1 / 0)
    after = loop.create_future()
    future.add_done_callback(lambda _done: after.set_result(None))
    await future
    await after
    return told


async def nobody_looked(kind: Kind) -> object:
    told: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: told.append((context["message"], said(context["exception"]))))
    for look in (False, True):
        future = await kind.failing()
        await asyncio.wait([future])
        if look:
            future.exception()
        told.append("dropped")
        del future
        gc.collect()
    return told


async def a_cycle(kind: Kind) -> object:
    """Nothing holds it but its own error."""
    future = await kind.failing()
    await asyncio.wait([future])
    future.exception().future = future
    gone = weakref.ref(future)
    del future
    gc.collect()
    return gone() is None


async def what_it_is(kind: Kind) -> object:
    future = await kind.stored()
    await future
    seen = [
        asyncio.isfuture(future),
        isinstance(future, asyncio.Future),
        inspect.isawaitable(future),
        asyncio.iscoroutine(future),
        future.get_loop() is asyncio.get_running_loop(),
        asyncio.ensure_future(future) is future,
        weakref.ref(future)() is future,
        len({future, future}),
        "finished" in repr(future),
    ]
    return [*seen, "pending" in repr(await kind.pending())]


async def in_a_group(kind: Kind) -> object:
    async def wait() -> str:
        return (await (await kind.stored())).stream

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait()) for _ in range(20)]
    return {task.result() for task in tasks}


SCENARIOS: list[Scenario] = [
    awaited,
    asked,
    twice,
    awaited_by_two,
    cancelled,
    cancelled_when_done,
    a_task_cancelled,
    shielded,
    gathered,
    gathered_and_cancelled,
    timed,
    waited,
    called_back,
    a_callback_that_fails,
    nobody_looked,
    a_cycle,
    what_it_is,
    in_a_group,
]


@pytest.fixture
async def ours(own_server: NatsServer) -> AsyncIterator[Own]:
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.*"])
        await nc.subscribe("silent")
        await nc.flush()
        yield Own(js, nc)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_as_asyncios(ours: Own, scenario: Scenario) -> None:
    assert type(await ours.stored()) is PubAckFuture
    expected = await scenario(Asyncios())
    assert expected
    assert await scenario(ours) == expected


async def test_of_another_loop(ours: Own) -> None:
    """A task of another loop is told, as by asyncio's, instead of waiting for ever."""
    future = await ours.pending()

    def elsewhere() -> str:
        async def wait() -> None:
            await future

        with pytest.raises(RuntimeError) as raised:
            asyncio.run(wait())
        return str(raised.value)

    assert "attached to a different loop" in await asyncio.to_thread(elsewhere)
    future.cancel()


async def test_an_answer_after_it_was_cancelled_is_counted(ours: Own) -> None:
    future = await ours.stored()
    future.cancel()
    await ours.js.publish_async_completed()
    assert future.cancelled()
    assert (await ours.js.stream_info("S")).state.messages == 1
    assert ours.js.publish_async_pending() == 0
