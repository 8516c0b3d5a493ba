"""Two workers of one queue group in one process; Ctrl-C ends them."""

import asyncio
import os
from functools import partial

from jetarrow.aio.client import Client as NATS
from jetarrow.aio.errors import ErrNoServers
from jetarrow.aio.msg import Msg
from jetarrow.js import JetStreamContext

URL = os.environ.get("NATS_URL", "nats://localhost:4222")


async def message_handler(msg: Msg, name: str) -> None:
    print(f"[{name}] received on {msg.subject}: {msg.data.decode()}")
    await msg.ack()


async def subscribe_to_subject(js: JetStreamContext, subject: str, queue_group: str, name: str) -> None:
    handler = partial(message_handler, name=name)
    try:
        await js.subscribe(subject, queue=queue_group, cb=handler)
        print(f"[{name}] listening on {subject} in {queue_group}")
    except Exception as error:
        print(f"[{name}] subscribing failed: {error}")


async def main(name: str) -> None:
    nc = NATS()
    try:
        await nc.connect(servers=[URL])
        js = nc.jetstream()
        await subscribe_to_subject(js, "my.subject.*", "workers", name)
        while True:
            await asyncio.sleep(1)
    except ErrNoServers as error:
        print(f"no server: {error}")
    except asyncio.CancelledError:
        pass
    finally:
        await nc.close()
        print(f"[{name}] disconnected")


async def both() -> None:
    await asyncio.gather(main("Consumer1"), main("Consumer2"))


if __name__ == "__main__":
    try:
        asyncio.run(both())
    except KeyboardInterrupt:
        print("shutting down")
