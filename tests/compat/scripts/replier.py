"""Answers requests that come through the stream, to the subject that their header names."""

import asyncio
import os
import uuid
from functools import partial

import jetarrow as nats
from jetarrow.aio.msg import Msg

URL = os.environ.get("NATS_URL", "nats://localhost:4222")


async def message_handler(msg: Msg, consumer_name: str, nc: nats.aio.client.Client) -> None:
    request = msg.data.decode()
    print(f"received {request}")
    reply_subject = msg.header.get("reply-to") if msg.header else None
    response = f"Response from {consumer_name[:8]}: {request.upper()}"
    if reply_subject:
        await nc.publish(reply_subject, response.encode())
        print("sent a response")
    await msg.ack()


async def main() -> None:
    nc = await nats.connect(URL)
    js = nc.jetstream()
    consumer_name = f"consumer_{uuid.uuid4()}"
    handler = partial(message_handler, consumer_name=consumer_name, nc=nc)
    await js.subscribe(
        subject="my.subject.requests",
        durable=consumer_name,
        stream="example_stream",
        cb=handler,
        manual_ack=True,
    )
    print("listening")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
