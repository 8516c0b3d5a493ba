"""Child process of growth.py: one work at one point, in a new process, so that its peak memory is its own.

A work of a bulk verb is called with `FIXED_ROWS` rows first: once without a clock (imports, first request), then five
times, which is the fixed cost of a call. The cost per message is the slope from there to all rows.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import growth_raw
import wire
from growth_point import CALLS, Point
from harness import Run

FIXED_ROWS, FIXED_CALLS = 1_000, 5
REPEAT_BELOW = 300_000  # smaller counts are repeated, and the median counts
REPEATS = 10  # at most
TASKS = 16


@dataclass
class Found:
    """The calls of one child, each with seconds, CPU seconds of the process, and CPU seconds of the server."""

    calls: list[tuple[float, float, float | None]] = field(default_factory=list)
    fixed: list[tuple[float, float, float | None]] = field(default_factory=list)
    fixed_rows: int = 0
    rows: int = 0  # of one call
    memory: float | None = None  # MiB
    setup: float | None = None  # seconds before the clock, of the works that have many subscriptions or consumers


Bulk = Callable[[Any, Point, Run], Awaitable[int]]


async def publish_rows(js: Any, point: Point, run: Run) -> int:
    """`publish_batch` of a reader of record batches that are made one by one."""
    import memory
    import pyarrow

    schema = pyarrow.schema({"data": pyarrow.binary()})
    reader = pyarrow.RecordBatchReader.from_batches(schema, memory.batches(schema, run.count, run.size))
    with run.clock():
        result = await js.publish_batch(point.subjects[0], reader)
    result.raise_for_errors()
    return int(result.stored)


async def publish_subjects(js: Any, point: Point, run: Run) -> int:
    """`publish_batch` of a reader with a column of subjects, which follow each other in turn."""
    import memory
    import pyarrow

    [payloads] = next(memory.batches(pyarrow.schema({"data": pyarrow.binary()}), memory.BATCH, run.size)).columns
    # One subject, or a multiple of the rows of a batch: every batch begins with the first subject.
    subjects = pyarrow.array(point.subjects * (memory.BATCH // point.parts), pyarrow.string())
    whole = pyarrow.record_batch({"subject": subjects, "data": payloads})

    def batches() -> Iterator[pyarrow.RecordBatch]:
        for start in range(0, run.count, memory.BATCH):
            yield whole.slice(0, min(memory.BATCH, run.count - start))

    reader = pyarrow.RecordBatchReader.from_batches(whole.schema, batches())
    with run.clock():
        result = await js.publish_batch(None, reader)
    result.raise_for_errors()
    return int(result.stored)


async def read_range(js: Any, stream: str, start: int, rows: int) -> int:
    done = 0
    async with js.read(stream, start_seq=start, end_seq=start + rows) as reader:
        async for batch in reader:
            done += len(batch)
    return done


async def read(js: Any, point: Point, run: Run) -> int:
    """`js.read` of the first rows of one stream, batch by batch."""
    with run.clock():
        return await read_range(js, point.stream_names[0], 1, run.count)


async def read_streams(js: Any, point: Point, run: Run) -> int:
    """`js.read` of one stream after another."""
    done = 0
    with run.clock():
        for stream in point.stream_names:
            done += await read_range(js, stream, 1, run.count // point.streams)
    return done


async def read_streams_in_tasks(js: Any, point: Point, run: Run) -> int:
    """`js.read` of all streams, by 16 tasks."""
    names = iter(point.stream_names)

    async def some() -> int:
        return sum([await read_range(js, stream, 1, run.count // point.streams) for stream in names])

    with run.clock():
        return sum(await asyncio.gather(*[some() for _ in range(TASKS)]))


async def read_ranges(js: Any, point: Point, run: Run) -> int:
    """1,000 `js.read` calls of equal size, which take the streams in turn."""
    taken = list(point.ranges(run.count))
    with run.clock():
        return sum([await read_range(js, *one) for one in taken])


async def latest(js: Any, point: Point, run: Run) -> int:
    """`js.latest` of the whole stream; its rows are one per subject, and `run.count` is one call."""
    done = 0
    with run.clock():
        async with js.latest(point.stream_names[0]) as reader:
            async for batch in reader:
                done += len(batch)
    if done != point.parts:
        raise wire.WireError(f"{done} rows for {point.parts} subjects")
    return run.count


async def callbacks(nc: Any, point: Point, run: Run, found: Found) -> int:
    """Subscriptions with one callback."""
    done, ended = 0, asyncio.Event()

    async def take(message: Any) -> None:
        nonlocal done
        done += len(message.data) == run.size
        if done == run.count:
            ended.set()

    start = time.perf_counter()
    for subject in point.subjects:
        await nc.subscribe(subject, cb=take)
    await nc.flush(growth_raw.TIMEOUT)
    found.setup = time.perf_counter() - start
    with growth_raw.feeder(run, point.parts) as go, run.clock():
        go()
        await asyncio.wait_for(ended.wait(), growth_raw.TIMEOUT)
    return done


async def iterations(nc: Any, point: Point, run: Run, found: Found) -> int:
    """Subscriptions, each iterated by a task of its own."""
    each = run.count // point.parts

    async def take(subscription: Any) -> int:
        done = 0
        async for message in subscription.messages:
            done += len(message.data) == run.size
            if done == each:
                break
        return done

    start = time.perf_counter()
    subscriptions = [await nc.subscribe(subject) for subject in point.subjects]
    await nc.flush(growth_raw.TIMEOUT)
    found.setup = time.perf_counter() - start
    tasks = [asyncio.ensure_future(take(subscription)) for subscription in subscriptions]
    await asyncio.sleep(0)  # all tasks wait for their first message
    with growth_raw.feeder(run, point.parts) as go, run.clock():
        go()
        return sum(await asyncio.wait_for(asyncio.gather(*tasks), growth_raw.TIMEOUT))


async def fetch(nc: Any, point: Point, run: Run, found: Found) -> int:
    """1,000 `fetch_batch` calls of equal size, which take the consumers in turn."""
    js, stream, rows = nc.jetstream(), point.stream_names[0], run.count // CALLS
    start = time.perf_counter()
    bound = [await js.pull_subscribe_bind(consumer=name, stream=stream) for name in point.consumers]
    found.setup = time.perf_counter() - start
    done = 0
    with run.clock():
        for call in range(CALLS):
            done += len(await bound[call % point.parts].fetch_batch(rows))
    return done


BULK: dict[str, Bulk] = {
    "publish_rows": publish_rows,
    "publish_subjects": publish_subjects,
    "read": read,
    "read_streams": read_streams,
    "read_streams_in_tasks": read_streams_in_tasks,
    "read_ranges": read_ranges,
    "latest": latest,
}
MANY = {"callbacks": callbacks, "iterations": iterations, "fetch": fetch}
SLOPE = {"publish_rows", "publish_subjects", "read"}
REPEATED = SLOPE | {"raw_publish", "raw_read"}
RAW: dict[str, Callable[[Point, Run], int]] = {
    "raw_publish": lambda point, run: growth_raw.publish(run, point.subjects),
    "raw_read": lambda point, run: raw_read(point, run),
    "raw_read_ranges": lambda point, run: growth_raw.read_ranges(run, point.ranges(run.count)),
    "raw_receive": lambda point, run: growth_raw.receive(run, point.subjects),
    "raw_fetch": lambda point, run: growth_raw.fetch(run, point.stream_names[0], point.consumers, run.count // CALLS),
}


def raw_read(point: Point, run: Run) -> int:
    wire.pull(run.url, point.stream_names[0], run.count, clock=run.clock())
    return run.count


def checked(done: int, run: Run) -> tuple[float, float, float | None]:
    if done != run.count or not run.seconds:
        raise wire.WireError(f"{done} of {run.count} messages in {run.seconds} s")
    return run.seconds, run.client_cpu, run.server_cpu


def repeats(point: Point) -> int:
    """Return the number of calls with all rows. Works of 1,000 calls are long enough."""
    if point.work == "latest":
        return FIXED_CALLS
    if point.work not in REPEATED:
        return 1
    return max(1, min(REPEATS, REPEAT_BELOW // point.count))


async def measure(point: Point) -> Found:
    """Measure a work of jetarrow."""
    import jetarrow
    import memory
    import pyarrow

    if point.work == "publish_subjects":
        pyarrow.array([""])  # loads pandas if that is installed, which is no memory of the verb
    found = Found(rows=point.count)
    nc = await jetarrow.connect(point.url)
    before = memory.from_here()
    if many := MANY.get(point.work):
        run = point.run(point.count)
        found.calls.append(checked(await many(nc, point, run, found), run))
    else:
        js, work = nc.jetstream(), BULK[point.work]
        if point.work in SLOPE:
            found.fixed_rows = min(FIXED_ROWS, point.count // 10)
            for _ in range(FIXED_CALLS + 1):
                run = point.run(found.fixed_rows)
                found.fixed.append(checked(await work(js, point, run), run))
            del found.fixed[0]
        else:
            await read_range(js, point.stream_names[0], 1, 1)  # loads code
        for _ in range(repeats(point)):
            run = point.run(point.count)
            found.calls.append(checked(await work(js, point, run), run))
    found.memory = memory.memory("VmHWM") - before
    await nc.close()
    return found


def measure_raw(point: Point) -> Found:
    found = Found(rows=point.count)
    for _ in range(repeats(point)):
        run = point.run(point.count)
        found.calls.append(checked(RAW[point.work](point, run), run))
    return found


def main() -> None:
    point = Point(**json.loads(sys.argv[1]))
    found = measure_raw(point) if point.work in RAW else asyncio.run(measure(point))
    print(json.dumps(asdict(found)), flush=True)
    os._exit(0)  # the end of 10,000 subscriptions is not measured


if __name__ == "__main__":
    main()
