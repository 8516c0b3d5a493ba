"""Rows of `jetarrow bench`: the verbs that `make bench` measures too (benches/README.md), on a stream of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jetarrow.cli.bench_meters import Cpu, CpuClock
from jetarrow.cli.bench_responder import CPU

if TYPE_CHECKING:
    import jetarrow
    from jetarrow.jetstream.context import JetStreamContext

# Messages of a fetch into columns, and of one of message objects.
_BATCH, _FETCH = 10_000, 1_000
TASKS = 100
# Messages of the rows whose messages wait for each other, and of those with 100 tasks, as in benches/README.md.
_ONE_BY_ONE, _IN_TASKS = 5_000, 60_000
# Messages of the first step that finds out how many fit into the time, and the part of the time that ends the steps.
_FIRST_STEP, _STEP_TIME = 100, 0.05
# Messages between two updates of the progress bar, which takes longer than a message.
_LOOK = 256
# Timeout in seconds of a call in a row that is shorter: neither the link nor a busy machine is faster for it.
_TIMEOUT = 5.0

# Bytes of the protocol around a payload: to the server and from it. The name of the stream has a fixed length, so they
# are nearly constant. Counted by a proxy, as in tests/cli/test_bench_link.py.
_PUBLISH_FRAMES = (61, 38)


@dataclass
class Run:
    """One run of a row.

    Attributes:
        nc: The connection.
        js: JetStream on it.
        name: Name and subject of the stream, and name of the bucket.
        payload: Payload of the messages. Repeated, so that many messages need no memory.
        most: Maximum number of messages.
        seconds: Maximum time of the measured part.
        report: Receives the number of messages that are done.
        waits: Seconds that each message took, in rows that send one after another.
        round_trips: Consecutive round trips that the row consists of; 0 if messages do not wait for each other.
    """

    nc: jetarrow.Client
    js: JetStreamContext
    name: str
    payload: bytes
    most: int
    seconds: float
    report: Callable[[int], None]
    waits: list[float] = field(default_factory=list)
    round_trips: float = 0.0
    start: float = 0.0
    end: float = 0.0
    cpu: Cpu = field(default_factory=lambda: Cpu(0.0, 0.0, None))
    # CPU time of the process that answers requests.
    other_cpu: float = 0.0
    moved: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Measure the block: time, CPU time and counters of the connection."""
        before, cpu = self.nc.stats, CpuClock()
        self.start = time.perf_counter()
        yield
        self.end = time.perf_counter()
        self.cpu = cpu.read()
        after = self.nc.stats
        self.moved = {key: after[key] - before[key] for key in after}

    @property
    def is_over(self) -> bool:
        """Whether the measured part has used its time."""
        return time.perf_counter() - self.start >= self.seconds

    @property
    def timeout(self) -> float:
        """Timeout in seconds of a call that waits for messages or for a response."""
        return max(self.seconds, _TIMEOUT)

    @property
    def keys(self) -> list[str]:
        """The keys of the bucket."""
        return [f"key.{number:06d}" for number in range(self.most)]


@dataclass(frozen=True)
class Row:
    """A row.

    Attributes:
        name: Its name, as in `--only`.
        function: Runs it, and returns the number of messages.
        needs: State before it: an empty stream, a stream with all messages, a bucket, a bucket with all keys, a process
            that answers requests.
        most: Maximum number of messages, whatever `--msgs` is.
        is_serial: Whether each message waits for the one before.
        frames: Bytes of the protocol around a payload, to the server and from it.
        faster: The faster way, for the advice.
    """

    name: str
    function: Callable[[Run], Awaitable[int]]
    needs: Literal["empty", "filled", "bucket", "keys", "responder"]
    faster: str
    most: int | None = None
    is_serial: bool = False
    frames: tuple[int, int] = _PUBLISH_FRAMES


async def fitting(run: Run) -> int:
    """Publish batches of increasing size and return how many messages fit into the time of the run."""
    count, begin = min(run.most, _FIRST_STEP), time.perf_counter()
    while True:
        start = time.perf_counter()
        (await run.js.publish_batch(run.name, [run.payload] * count)).raise_for_errors()
        seconds = time.perf_counter() - start
        # The steps together take at most a few times the last one.
        if count >= run.most or time.perf_counter() - begin >= run.seconds * _STEP_TIME:
            return min(run.most, max(1, int(count / seconds * run.seconds)))
        count = min(run.most, count * 10)


async def _publish_batch(run: Run) -> int:
    payloads = [run.payload] * await fitting(run)
    with run.clock():
        result = await run.js.publish_batch(run.name, payloads, progress=lambda done, _total: run.report(done))
    result.raise_for_errors()
    return result.stored


async def _publisher(run: Run) -> int:
    with run.clock():
        async with run.js.publisher(run.name) as publisher:
            for done in range(run.most):
                if done % _LOOK == 0:
                    run.report(done)
                    # At least one message, also if the time is over before the first.
                    if done and run.is_over:
                        break
                await publisher.publish(run.payload)
    return publisher.stats.stored


async def _one_by_one(run: Run, call: Callable[[int], Awaitable[object]]) -> int:
    done = 0
    with run.clock():
        while done < run.most and not (done and run.is_over):
            start = time.perf_counter()
            await call(done)
            run.waits.append(time.perf_counter() - start)
            done += 1
            if done % _LOOK == 0:
                run.report(done)
    run.round_trips = done
    return done


async def _in_tasks(run: Run, call: Callable[[int], Awaitable[object]]) -> int:
    done, numbers = 0, iter(range(run.most))

    async def task() -> None:
        nonlocal done
        # One iterator for all tasks, so that they end together.
        for number in numbers:
            await call(number)
            done += 1
            if done % _LOOK == 0:
                run.report(done)
            if run.is_over:
                return

    with run.clock():
        await asyncio.gather(*[task() for _ in range(TASKS)])
    run.round_trips = done / TASKS
    return done


async def _publish(run: Run) -> int:
    return await _one_by_one(run, lambda _: run.js.publish(run.name, run.payload))


async def _publish_tasks(run: Run) -> int:
    return await _in_tasks(run, lambda _: run.js.publish(run.name, run.payload))


async def _subscription(run: Run) -> Any:
    from jetarrow.js.api import AckPolicy, ConsumerConfig

    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=60.0)
    return await run.js.pull_subscribe(run.name, stream=run.name, config=config)


async def _fetch_batch(run: Run) -> int:
    subscription = await _subscription(run)
    return await _fetched(run, _BATCH, lambda most: subscription.fetch_batch(most, timeout=run.timeout))


async def _fetch(run: Run) -> int:
    subscription = await _subscription(run)

    async def fetch(most: int) -> list[bytes]:
        return [message.data for message in await subscription.fetch(most, timeout=run.timeout)]

    return await _fetched(run, _FETCH, fetch)


async def _fetched(run: Run, size: int, fetch: Callable[[int], Awaitable[Any]]) -> int:
    done = calls = 0
    with run.clock():
        while done < run.most and not (done and run.is_over):
            fetched = len(await fetch(min(size, run.most - done)))
            if not fetched:
                raise RuntimeError(
                    f"could not fetch {run.most - done:,} of {run.most:,} messages: none arrived within"
                    f" {run.timeout:g} s; give a longer --seconds"
                )
            done += fetched
            calls += 1
            run.report(done)
    run.round_trips = calls
    return done


async def _read(run: Run) -> int:
    done = 0
    with run.clock():
        async with run.js.read(run.name) as reader:
            async for batch in reader:
                done += len(batch)
                run.report(done)
                if run.is_over:
                    break
    return done


async def _requested(run: Run, measure: Callable[[Run, Callable[[int], Awaitable[object]]], Awaitable[int]]) -> int:
    subject = f"{run.name}.request"

    async def other_cpu() -> float:
        return float((await run.nc.request(f"{subject}.{CPU}", b"", timeout=run.timeout)).data)

    before = await other_cpu()
    done = await measure(run, lambda _: run.nc.request(subject, run.payload, timeout=run.timeout))
    run.other_cpu = await other_cpu() - before
    # From the client to the server and to the process, and back.
    run.round_trips *= 2
    return done


async def _request(run: Run) -> int:
    return await _requested(run, _one_by_one)


async def _request_tasks(run: Run) -> int:
    return await _requested(run, _in_tasks)


async def _kv_put(run: Run) -> int:
    return await _kv(run, _one_by_one, lambda kv, key: kv.put(key, run.payload))


async def _kv_put_tasks(run: Run) -> int:
    return await _kv(run, _in_tasks, lambda kv, key: kv.put(key, run.payload))


async def _kv_get(run: Run) -> int:
    return await _kv(run, _one_by_one, lambda kv, key: kv.get(key))


async def _kv_get_tasks(run: Run) -> int:
    return await _kv(run, _in_tasks, lambda kv, key: kv.get(key))


async def _kv(
    run: Run,
    measure: Callable[[Run, Callable[[int], Awaitable[object]]], Awaitable[int]],
    call: Callable[[Any, str], Awaitable[object]],
) -> int:
    bucket, keys = await run.js.key_value(run.name), run.keys
    return await measure(run, lambda number: call(bucket, keys[number]))


_MORE = "more processes or connections at once"
ROWS = (
    Row("publish_batch", _publish_batch, "empty", _MORE),
    Row("publisher", _publisher, "empty", "publish_batch"),
    Row("publish_tasks", _publish_tasks, "empty", "publish_batch or publisher", _IN_TASKS),
    Row("publish", _publish, "empty", "publish_batch, publisher or many tasks", _ONE_BY_ONE, is_serial=True),
    Row("fetch_batch", _fetch_batch, "filled", "js.read, or more messages per call", frames=(0, 117)),
    Row("fetch", _fetch, "filled", "fetch_batch or js.read", frames=(0, 117)),
    Row("read", _read, "filled", _MORE, frames=(0, 140)),
    Row("request", _request, "responder", "many tasks", _ONE_BY_ONE, is_serial=True),
    Row("request_tasks", _request_tasks, "responder", _MORE, _IN_TASKS, frames=(71, 41)),
    Row("kv_put", _kv_put, "bucket", "kv.put_batch or many tasks", _ONE_BY_ONE, is_serial=True),
    Row("kv_put_tasks", _kv_put_tasks, "bucket", "kv.put_batch", _IN_TASKS, frames=(76, 38)),
    Row("kv_get", _kv_get, "keys", "kv.to_table or many tasks", _ONE_BY_ONE, is_serial=True),
    Row("kv_get_tasks", _kv_get_tasks, "keys", "kv.to_table", _IN_TASKS, frames=(126, 225)),
)
