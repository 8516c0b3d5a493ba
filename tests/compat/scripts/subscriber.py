"""Prints every message of the stream until Ctrl-C."""

import asyncio
import os

from jetarrow.aio.client import Client as NATS
from jetarrow.aio.errors import ErrNoServers
from jetarrow.aio.msg import Msg
from jetarrow.js import JetStreamContext

URL = os.environ.get("NATS_URL", "nats://localhost:4222")


async def message_handler(msg: Msg) -> None:
    print(f"received on {msg.subject}: {msg.data.decode()}")
    await msg.ack()


async def subscribe_to_subject(js: JetStreamContext, subject: str) -> None:
    try:
        await js.subscribe(subject, cb=message_handler)
        print(f"listening on {subject}")
    except Exception as error:
        print(f"subscribing failed: {error}")


async def main() -> None:
    nc = NATS()
    try:
        await nc.connect(servers=[URL])
        print("subscriber connected")
        js = nc.jetstream()
        await subscribe_to_subject(js, "my.subject.*")
        while True:
            await asyncio.sleep(1)
    except ErrNoServers as error:
        print(f"no server: {error}")
    except asyncio.CancelledError:
        pass
    finally:
        await nc.close()
        print("subscriber disconnected")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("stopped before it was set up")
