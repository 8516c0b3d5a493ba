"""The other Python clients at the same work, each in the fastest way that its interface offers.

Every function works on the messages of `run`, times only the work (connecting and closing is outside of
`run.clock()`) and returns how many messages it did. They are slow, so the rows give them fewer messages and
the harness compares rates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import nats
import natsrpy
import natsrpy.js
from harness import Run
from nats.js.api import AckPolicy, ConsumerConfig

TASKS = 100
NATS_PY_FETCH = 1_000
NATSRPY_GATHER = 1_000  # of 100 (workers), 1,000, 5,000 and all at once the fastest
NATSRPY_FETCH = 10_000  # of 100, 1,000 and 10,000 the fastest


async def nats_py_publish_async(run: Run) -> int:
    payloads = run.payloads
    nc = await nats.connect(run.url)
    js = nc.jetstream()
    with run.clock():
        futures = [await js.publish_async(run.subject, payload) for payload in payloads]
        acks = await asyncio.gather(*futures)
    await nc.close()
    return len(acks)


async def nats_py_publish_tasks(run: Run) -> int:
    payloads = run.payloads
    nc = await nats.connect(run.url)
    with run.clock():
        done = await in_tasks(nc.jetstream().publish, run.subject, payloads)
    await nc.close()
    return done


async def nats_py_publish(run: Run) -> int:
    payloads = run.payloads
    nc = await nats.connect(run.url)
    with run.clock():
        done = await one_by_one(nc.jetstream().publish, run.subject, payloads)
    await nc.close()
    return done


async def in_tasks(publish: Callable[[str, bytes], Awaitable[Any]], subject: str, payloads: list[bytes]) -> int:
    """Ours and nats-py's the same: 100 tasks, each awaiting every ack of its share."""
    counts = await asyncio.gather(*[one_by_one(publish, subject, payloads[i::TASKS]) for i in range(TASKS)])
    return sum(counts)


async def one_by_one(publish: Callable[[str, bytes], Awaitable[Any]], subject: str, payloads: list[bytes]) -> int:
    for payload in payloads:
        await publish(subject, payload)
    return len(payloads)


async def nats_py_fetch(run: Run) -> int:
    nc = await nats.connect(run.url)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=60.0)
    subscription = await nc.jetstream().pull_subscribe(run.subject, stream=run.stream, config=config)
    read = size = 0
    with run.clock():
        while read < run.count:
            for message in await subscription.fetch(min(NATS_PY_FETCH, run.count - read)):
                size += len(message.data)
                read += 1
    await nc.close()
    run.check_bytes(size)
    return read


async def nats_py_ordered_push(run: Run) -> int:
    return await ordered_push(run, nats.connect)


async def ordered_push(run: Run, connect: Callable[[str], Awaitable[Any]]) -> int:
    """Ours and nats-py's the same. The messages come as soon as there is a consumer: it is made in the time."""
    nc = await connect(run.url)
    js = nc.jetstream()
    read = size = 0
    with run.clock():
        subscription = await js.subscribe(run.subject, stream=run.stream, ordered_consumer=True)
        async for message in subscription.messages:
            size += len(message.data)
            read += 1
            if read == run.count:
                break
    await nc.close()
    run.check_bytes(size)
    return read


async def natsrpy_publish(run: Run) -> int:
    payloads = run.payloads
    nc = natsrpy.Nats(addrs=[run.url])
    await nc.startup()
    js = await nc.jetstream()
    done = 0
    with run.clock():
        for start in range(0, run.count, NATSRPY_GATHER):
            part = payloads[start : start + NATSRPY_GATHER]
            done += len(await asyncio.gather(*[js.publish(run.subject, p, wait=True) for p in part]))
    await nc.shutdown()
    return done


async def natsrpy_fetch(run: Run) -> int:
    nc = natsrpy.Nats(addrs=[run.url])
    await nc.startup()
    stream = await (await nc.jetstream()).streams.get(run.stream)
    config = natsrpy.js.PullConsumerConfig(
        name="bench",
        ack_policy=natsrpy.js.AckPolicy.NONE,
        memory_storage=True,
        inactive_threshold=60.0,
    )
    consumer = await stream.consumers.create(config)
    read = size = 0
    with run.clock():
        while read < run.count:
            batch = min(NATSRPY_FETCH, run.count - read)
            for message in await consumer.fetch(max_messages=batch, timeout=5.0):
                size += len(message.payload)
                read += 1
    await stream.consumers.delete("bench")
    await nc.shutdown()
    run.check_bytes(size)
    return read
