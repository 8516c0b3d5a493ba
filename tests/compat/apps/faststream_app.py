"""A small application of faststream: what came of it, as JSON in the last line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Annotated, Any

from faststream import Path
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub, TestNatsBroker
from nats.aio.client import Client
from nats.aio.msg import Msg

name = sys.argv[1]
broker = NatsBroker(os.environ["NATS_URL"], name=name)
stream = JStream(name.upper(), subjects=[f"{name}.js.>"])
seen: dict[str, list[Any]] = {
    kind: [] for kind in ("core", "queue", "level", "push", "again", "batch", "pull", "reply", "kv", "object")
}


@broker.subscriber(f"{name}.core")
@broker.publisher(f"{name}.replies")
async def core(body: dict[str, int], msg: NatsMessage) -> dict[str, int]:
    assert isinstance(msg.raw_message, Msg)
    seen["core"].append([body, msg.headers.get("trace"), msg.raw_message.subject.removeprefix(name)])
    return {"doubled": body["n"] * 2}


@broker.subscriber(f"{name}.replies")
async def replies(body: dict[str, int]) -> None:
    seen["reply"].append(body)


@broker.subscriber(f"{name}.work", queue="workers")
async def first_worker(n: int) -> None:
    seen["queue"].append(n)


@broker.subscriber(f"{name}.work", queue="workers")
async def second_worker(n: int) -> None:
    seen["queue"].append(n)


@broker.subscriber(f"{name}.logs.{{level}}")
async def logs(text: str, level: Annotated[str, Path()]) -> None:
    seen["level"].append([level, text])


@broker.subscriber(f"{name}.js.push", stream=stream, durable="push", deliver_policy="all")
async def push(n: int, msg: NatsMessage) -> None:
    meta = msg.raw_message.metadata
    seen["push"].append([n, meta.stream, meta.consumer, meta.num_delivered])


@broker.subscriber(f"{name}.js.again", stream=stream, durable="again")
async def again(n: int, msg: NatsMessage) -> None:
    seen["again"].append(n)
    if len(seen["again"]) == 1:
        await msg.nack()


@broker.subscriber(f"{name}.js.batch", stream=stream, durable="batch", pull_sub=PullSub(batch_size=1, batch=True))
async def batch(body: list[int]) -> None:
    seen["batch"] += body


@broker.subscriber(f"{name}.js.pull", stream=stream, durable="pull", pull_sub=PullSub(batch_size=2))
async def pull(n: int) -> None:
    seen["pull"].append(n)


@broker.subscriber("key", kv_watch=f"{name}-kv")
async def changed(body: str) -> None:
    seen["kv"].append(body)


@broker.subscriber(f"{name}-files", obj_watch=True)
async def stored(file_name: str) -> None:
    seen["object"].append(file_name)


async def until(count: int, *kinds: str) -> None:
    async with asyncio.timeout(30):
        while any(len(seen[kind]) < count for kind in kinds):
            await asyncio.sleep(0.01)


async def in_memory() -> Any:
    """Without a server: faststream derives from the message class, and makes messages by hand."""
    async with TestNatsBroker(broker) as tested:
        answer = await tested.request({"n": 4}, f"{name}.core")
        core.mock.assert_called_once_with({"n": 4})
        return await answer.decode()


async def main() -> None:
    tested = await in_memory()
    for found in seen.values():
        found.clear()
    async with broker:
        await broker.start()
        await broker.publish({"n": 1}, f"{name}.core", headers={"trace": "t-1"})
        answer = await broker.request({"n": 21}, f"{name}.core", timeout=10)
        for n in range(4):
            await broker.publish(n, f"{name}.work")
            for kind in ("push", "batch", "pull"):
                await broker.publish(n, f"{name}.js.{kind}", stream=stream.name)
        await broker.publish("disk full", f"{name}.logs.error")
        await broker.publish(7, f"{name}.js.again", stream=stream.name)
        await (await broker.key_value(f"{name}-kv")).put("key", b"value")
        await (await broker.object_storage(f"{name}-files")).put("a.txt", b"text")
        await until(1, "level", "kv", "object")
        await until(2, "reply", "again")
        await until(4, "queue", "push", "batch", "pull")
        async with asyncio.timeout(30):
            js = broker.config.connection_state.stream
            while (await js.consumer_info(stream.name, "again")).num_ack_pending:
                await asyncio.sleep(0.01)
        result = {
            "tested": tested,
            "answer": await answer.decode(),
            "seen": {kind: sorted(found, key=str) for kind, found in seen.items()},
            "connected": await broker.ping(5),
        }
    print(json.dumps({**result, "client": Client.__module__.partition(".")[0]}))


asyncio.run(main())
