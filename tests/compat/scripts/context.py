"""The JetStream context: publish, push and pull subscriptions, acknowledgements, configuration, constants."""

import asyncio
import os
from datetime import timedelta

import jetarrow as nats
from jetarrow.aio.msg import Msg
from jetarrow.js import JetStreamContext, api
from jetarrow.js.api import ConsumerConfig, PubAck

URL = os.environ.get("NATS_URL", "nats://localhost:4222")


class FatalError(Exception):
    pass


async def publishing(js: JetStreamContext) -> None:
    ack = await js.publish("events.user.login", b'{"user_id": 123, "timestamp": "2024-01-01T10:00:00Z"}')
    print(f"stored at {ack.seq}", isinstance(ack, PubAck), ack.duplicate, ack.domain)
    future1 = await js.publish_async("metrics.cpu", b'{"usage": 75.5}')
    future2 = await js.publish_async("metrics.memory", b'{"usage": 82.1}')
    ack1 = await future1
    ack2 = await future2
    await js.publish_async_completed()
    print(f"async at {ack1.seq} and {ack2.seq}, pending {js.publish_async_pending()}")
    ack = await js.publish("events.user.logout", payload=b"", timeout=2.0, stream="EVENTS", headers={"a": "b"})
    print(f"expected stream {ack.stream}")
    future = await js.publish_async("metrics.cpu", wait_stall=1.0, stream="METRICS", headers={"a": "b"})
    print(f"expected stream {(await future).stream}")


async def pushed(js: JetStreamContext) -> None:
    got: asyncio.Queue[str] = asyncio.Queue()

    async def handle_event(msg: Msg) -> None:
        got.put_nowait(f"event {msg.subject}")
        await msg.ack()

    async def process_order(msg: Msg) -> None:
        got.put_nowait(f"order {msg.data.decode()}")
        await msg.ack()

    async def process_audit_log(msg: Msg) -> None:
        got.put_nowait(f"audit {msg.data.decode()}")

    async def process_task(msg: Msg) -> None:
        got.put_nowait(f"task {msg.data.decode()}")

    js_sub = await js.subscribe("events.>", cb=handle_event)
    print(await got.get(), await got.get())
    await js_sub.drain()
    await js.subscribe("orders.created", durable="order-processor", manual_ack=True, cb=process_order)
    await js.publish("orders.created", b"1")
    print(await got.get())
    await js.subscribe("audit.logs", ordered_consumer=True, cb=process_audit_log)
    for number in range(3):
        await js.publish("audit.logs", b"%d" % number)
    print(*[await got.get() for _ in range(3)])
    await js.subscribe("work.tasks", queue="workers", durable="task-worker", cb=process_task)
    await js.publish("work.tasks", b"1")
    print(await got.get())


async def bound(js: JetStreamContext) -> None:
    await js.add_consumer("ORDERS", durable_name="bound", deliver_subject="deliver.here", ack_policy="explicit")
    sub = await js.subscribe_bind("ORDERS", "bound")
    msg = await sub.next_msg(timeout=20.0)
    print(f"bound got {msg.data.decode()}, status {js.is_status_msg(msg)}")
    await msg.ack_sync(timeout=20.0)
    await js.publish("orders.created", b"2")
    async for msg in sub.messages():
        print(f"bound iterated {msg.data.decode()}")
        await msg.ack()
        break


async def pulled(js: JetStreamContext) -> None:
    for number in range(12):
        await js.publish("batch.jobs", b"%d" % number)
    pull_sub = await js.pull_subscribe("batch.jobs", durable="job-processor")
    msgs = await pull_sub.fetch(batch_size=10, timeout=5.0)
    for msg in msgs:
        await msg.ack()
    print(f"fetched {len(msgs)}")
    msgs = await pull_sub.fetch(batch_size=1, timeout=30.0)
    if msgs:
        await msgs[0].nak(delay=5)
    tries = []
    async for msg in pull_sub.messages():
        try:
            tries.append(int(msg.data))
            if len(tries) == 1:
                raise RuntimeError("the first one fails")
            await msg.ack()
        except Exception as error:
            print(f"failed: {error}")
            await msg.nak()
        if len(tries) == 3:
            break
    print(f"iterated {sorted(tries)}")
    again = await js.pull_subscribe_bind("BATCH", "job-processor")
    print(f"bound to {(await again.consumer_info()).name}")


async def acknowledged(js: JetStreamContext) -> None:
    async def message_handler(msg: Msg) -> None:
        try:
            await msg.in_progress()
            kind = msg.data.decode()
            if kind == "fatal":
                raise FatalError
            if kind == "bad":
                raise ValueError
            if kind == "good":
                await msg.ack()
            else:
                await msg.nak(delay=30.0)
        except FatalError:
            await msg.term()
        except Exception:
            # Twice is enough: a third time might come before the subscription ends.
            await (msg.nak() if msg.metadata.num_delivered < 2 else msg.term())
        print(f"handled {msg.data.decode()} ({msg.metadata.num_delivered})")
        if msg.metadata.num_delivered == 2:
            done.set()

    done = asyncio.Event()
    for kind in ("good", "later", "fatal", "bad"):
        await js.publish("acks.test", kind.encode())
    sub = await js.subscribe("acks.test", cb=message_handler, manual_ack=True)
    await asyncio.wait_for(done.wait(), 10)
    await sub.unsubscribe()


async def configured(js: JetStreamContext) -> None:
    config = ConsumerConfig(
        durable_name="configured",
        description="every field",
        deliver_policy="by_start_sequence",
        opt_start_seq=1,
        ack_policy="explicit",
        ack_wait=timedelta(seconds=20),
        max_deliver=5,
        filter_subject="batch.jobs",
        replay_policy="instant",
        sample_freq="100%",
        max_waiting=100,
        max_ack_pending=200,
        headers_only=True,
        max_request_batch=50,
        max_request_expires=timedelta(minutes=1),
        inactive_threshold=timedelta(hours=1),
    )
    sub = await js.pull_subscribe("batch.jobs", durable="configured", config=config)
    found = (await sub.consumer_info()).config
    print("config", found.ack_wait, found.max_request_batch, found.max_request_expires, found.inactive_threshold)
    pushed = ConsumerConfig(rate_limit_bps=1024, flow_control=True, idle_heartbeat=timedelta(seconds=5))
    print("push", sorted(name for name, value in pushed.as_dict().items() if value in (1024, True, 5 * 10**9)))
    print("limits", api.DEFAULT_JS_SUB_PENDING_MSGS_LIMIT, api.DEFAULT_JS_SUB_PENDING_BYTES_LIMIT)
    print(api.DELIVER_ALL, api.DELIVER_LAST, api.DELIVER_NEW, api.DELIVER_BY_START_SEQUENCE, api.DELIVER_BY_START_TIME)
    print(api.ACK_NONE, api.ACK_ALL, api.ACK_EXPLICIT, api.REPLAY_INSTANT, api.REPLAY_ORIGINAL)


async def main() -> None:
    nc = await nats.connect(URL)
    js = nc.jetstream()
    for name in ("events", "metrics", "orders", "audit", "work", "batch", "acks"):
        await js.add_stream(name=name.upper(), subjects=[f"{name}.>"])
    await publishing(js)
    await pushed(js)
    await bound(js)
    await pulled(js)
    await acknowledged(js)
    await configured(js)
    await nc.close()


if __name__ == "__main__":
    asyncio.run(main())
