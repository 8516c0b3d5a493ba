"""A tour of JetStream: a stream, messages with ids, consumers of all kinds, replay, work queues, administration."""

import asyncio
import os
from datetime import datetime, timedelta
from typing import Any

import jetarrow as nats
from jetarrow.aio.msg import Msg
from jetarrow.js import JetStreamContext
from jetarrow.js.api import DeliverPolicy, StreamConfig

URL = os.environ.get("NATS_URL", "nats://localhost:4222")


class PermanentError(Exception):
    pass


async def stream(js: JetStreamContext) -> None:
    await js.add_stream(name="ORDERS", subjects=["orders.>"], storage="file", max_msgs=100000, max_age=86400)
    info = await js.add_stream(StreamConfig(name="QUEUE", subjects=["queue.>"], retention="workqueue", num_replicas=1))
    print(f"made QUEUE with {info.config.retention}")


async def publish(js: JetStreamContext) -> None:
    ack = await js.publish("orders.new", b'{"id": 123}')
    print(f"stored at {ack.seq}")
    for _ in range(2):
        ack = await js.publish("orders.new", b'{"id": 123}', headers={"Nats-Msg-Id": "order-123"})
        print(f"with an id at {ack.seq}, duplicate {bool(ack.duplicate)}")


async def consume(js: JetStreamContext) -> None:
    sub = await js.subscribe("orders.>", durable="my-processor")
    count = 0
    async for msg in sub.messages:
        await msg.ack()
        count += 1
        if count == 2:
            break
    print(f"durable read {count}")
    await sub.unsubscribe()
    again = await js.subscribe("orders.>", durable="my-processor")
    await js.publish("orders.new", b"third")
    print(f"it goes on with {(await again.next_msg(timeout=10)).data.decode()}")

    pull_sub = await js.pull_subscribe("orders.>", durable="pull-consumer")
    msgs = await pull_sub.fetch(10, timeout=5)
    for msg in msgs:
        await msg.ack()
    print(f"pulled {len(msgs)}")


async def acknowledge(js: JetStreamContext) -> None:
    for text in ("fine", "retry", "poison"):
        await js.publish("queue.orders", text.encode())
    subscription = await js.subscribe("queue.>", durable="queue-reader")
    seen = []
    async for msg in subscription.messages:
        seen.append(msg.data.decode())
        try:
            if seen[-1] == "poison":
                raise PermanentError
            await msg.in_progress()
            if seen[-1] == "fine" or len(seen) > 3:
                await msg.ack()
            else:
                await msg.nak()
        except PermanentError:
            await msg.term()
        if len(seen) == 4:
            break
    print(f"acknowledged {sorted(seen)}")


async def replay(js: JetStreamContext) -> None:
    policies: dict[str, dict[str, Any]] = {
        "all": {"deliver_policy": DeliverPolicy.ALL},
        "last": {"deliver_policy": DeliverPolicy.LAST},
        "sequence": {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": 2},
        "time": {
            "deliver_policy": DeliverPolicy.BY_START_TIME,
            "opt_start_time": datetime.now() - timedelta(hours=1),
        },
    }
    for name, options in policies.items():
        sub = await js.subscribe("orders.>", **options)
        print(f"from {name}: {(await sub.next_msg(timeout=10)).metadata.sequence.stream}")
        await sub.unsubscribe()
    sub = await js.subscribe("orders.>", deliver_policy=DeliverPolicy.NEW)
    ack = await js.publish("orders.new", b"new")
    print(f"from new: {(await sub.next_msg(timeout=10)).metadata.sequence.stream == ack.seq}")


async def share(js: JetStreamContext) -> None:
    got: asyncio.Queue[int] = asyncio.Queue()

    def worker(number: int) -> Any:
        async def work(msg: Msg) -> None:
            got.put_nowait(number)

        return work

    for number in range(2):
        await js.subscribe("orders.>", queue="processors", durable="order-processor", cb=worker(number))
    for _ in range(46):
        await js.publish("orders.more", b"x")
    workers = [await got.get() for _ in range(50)]
    print(f"shared {len(workers)} among {len(set(workers))}")


async def administrate(js: JetStreamContext) -> None:
    for _ in range(50):
        await js.publish("orders.many", b"x")
    info = await js.stream_info("ORDERS")
    print(f"{info.state.messages} messages, {info.state.first_seq} to {info.state.last_seq}, {info.state.bytes > 0}")
    msg = await js.get_msg("ORDERS", seq=100)
    print(f"number 100 is on {msg.subject}")
    await js.delete_msg("ORDERS", seq=100)
    await js.purge_stream("ORDERS")
    print(f"{(await js.stream_info('ORDERS')).state.messages} messages")


async def main() -> None:
    nc = await nats.connect(URL)
    js = nc.jetstream()
    for part in (stream, publish, consume, acknowledge, replay, share, administrate):
        await part(js)
    await nc.close()


if __name__ == "__main__":
    asyncio.run(main())
