"""Asks through the stream, with the reply subject in a header, and collects the answer."""

import asyncio
import os
from functools import partial

import jetarrow as nats
from jetarrow.aio.msg import Msg

URL = os.environ.get("NATS_URL", "nats://localhost:4222")


async def response_handler(msg: Msg, responses: list[str]) -> None:
    responses.append(msg.data.decode())
    print(f"received {responses[-1]}")


async def collect_responses(responses: list[str]) -> None:
    while len(responses) < 1:
        await asyncio.sleep(0.02)


async def main() -> None:
    nc = await nats.connect(URL)
    js = nc.jetstream()
    reply_subject = nc.new_inbox()
    responses: list[str] = []
    handler = partial(response_handler, responses=responses)
    await nc.subscribe(reply_subject, cb=handler)
    headers = {"reply-to": reply_subject}
    await js.publish(subject="my.subject.requests", payload=b"Hello, Consumers!", headers=headers)
    print("request published")
    try:
        await asyncio.wait_for(collect_responses(responses), timeout=10)
    except TimeoutError:
        print("no answer in time")
    print(f"all responses: {responses}")
    await nc.close()


if __name__ == "__main__":
    asyncio.run(main())
