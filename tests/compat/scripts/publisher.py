"""Publishes five messages (or tasks) to the stream."""

import asyncio
import os

from jetarrow.aio.client import Client as NATS
from jetarrow.aio.errors import ErrConnectionClosed, ErrNoServers, ErrTimeout
from jetarrow.js import JetStreamContext

URL = os.environ.get("NATS_URL", "nats://localhost:4222")


async def publish_messages(js: JetStreamContext, subject: str) -> None:
    try:
        for number in range(1, 6):
            text = f"Message {number}"
            await js.publish(subject, text.encode())
            print(f"published {text}")
            await asyncio.sleep(0.02)
    except (ErrConnectionClosed, ErrTimeout) as error:
        print(f"publishing failed: {error}")


async def main() -> None:
    nc = NATS()
    try:
        await nc.connect(servers=[URL], connect_timeout=10, max_reconnect_attempts=1, reconnect_time_wait=0.01)
        print("publisher connected")
        js = nc.jetstream()
        await publish_messages(js, "my.subject.test")
    except ErrNoServers as error:
        print(f"no server: {error}")
    except Exception as error:
        print(f"something else: {error}")
    finally:
        await nc.close()
        print("publisher disconnected")


if __name__ == "__main__":
    asyncio.run(main())
