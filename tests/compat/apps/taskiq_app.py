"""A small taskiq application, which prints its results as JSON in the last line."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import os
import sys
from typing import Any

from nats.aio.client import Client
from nats.js.api import ConsumerConfig
from taskiq import AsyncBroker, ScheduledTask, TaskiqResultTimeoutError
from taskiq.receiver import Receiver
from taskiq_nats import NatsBroker, PullBasedJetStreamBroker, PushBasedJetStreamBroker
from taskiq_nats.result_backend import NATSObjectStoreResultBackend
from taskiq_nats.schedule_source import NATSKeyValueScheduleSource

name, url = sys.argv[1], os.environ["NATS_URL"]
results: Any = NATSObjectStoreResultBackend(url, bucket_name=f"{name}-results")
brokers: dict[str, AsyncBroker] = {
    "core": NatsBroker(url, subject=f"{name}.core", queue="workers"),
    "pull": PullBasedJetStreamBroker(
        url,
        subject=f"{name}.pull",
        stream_name=f"{name}-pull",
        durable="work",
        pull_consume_batch=2,
        pull_consume_timeout=1,
    ),
    "push": PushBasedJetStreamBroker(
        url,
        subject=f"{name}.push",
        stream_name=f"{name}-push",
        queue="work",
        consumer_config=ConsumerConfig(durable_name="work", deliver_group="work"),
    ),
}


async def add(left: int, right: int) -> int:
    return left + right


async def fail() -> None:
    raise ValueError("on purpose")


async def run(broker: AsyncBroker) -> list[Any]:
    """Send, receive and run tasks, and return their results."""
    broker = broker.with_result_backend(results)
    sum_of, failing = broker.task("add")(add), broker.task("fail")(fail)
    broker.is_worker_process = True
    await broker.startup()
    finish = asyncio.Event()
    worker = asyncio.create_task(Receiver(broker, run_startup=False).listen(finish))
    await warmed_up(sum_of)
    tasks = [await sum_of.kiq(n, 10) for n in range(5)]
    sums = [(await task.wait_result(timeout=30)).return_value for task in tasks]
    failed = await (await failing.kiq()).wait_result(timeout=30)
    finish.set()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await broker.shutdown()
    return [sums, failed.is_err, str(failed.error)]


async def warmed_up(sum_of: Any) -> None:
    """Send tasks until a worker responds, because a core subject does not store messages for later subscribers."""
    async with asyncio.timeout(30):
        while True:
            task = await sum_of.kiq(0, 0)
            with contextlib.suppress(TaskiqResultTimeoutError):
                await task.wait_result(timeout=0.5)
                return


async def schedules() -> list[Any]:
    source = NATSKeyValueScheduleSource(url, bucket_name=f"{name}-schedules")
    await source.startup()
    before = await source.get_schedules()
    when = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    for number in range(3):
        task = ScheduledTask(task_name="add", labels={}, args=[number], kwargs={}, schedule_id=f"s{number}", time=when)
        await source.add_schedule(task)
    await source.delete_schedule("s1")
    found = sorted((task.schedule_id, task.args) for task in await source.get_schedules())
    await source.shutdown()
    return [before, found]


async def main() -> None:
    done = {kind: await run(broker) for kind, broker in brokers.items()}
    print(json.dumps({"tasks": done, "schedules": await schedules(), "client": Client.__module__.partition(".")[0]}))


asyncio.run(main())
