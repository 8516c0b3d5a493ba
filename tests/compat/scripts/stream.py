"""Makes the stream that the other scripts use; an old one goes first."""

import asyncio
import os

from jetarrow.aio.client import Client as NATS
from jetarrow.js.api import RetentionPolicy, StorageType, StreamConfig

URL = os.environ.get("NATS_URL", "nats://localhost:4222")


async def main() -> None:
    nc = NATS()
    await nc.connect(servers=[URL])
    js = nc.jetstream()
    name = "example_stream"
    try:
        await js.stream_info(name)
        await js.delete_stream(name)
        print(f"old stream {name} deleted")
    except Exception:
        print(f"no stream {name} yet")
    config = StreamConfig(
        name=name,
        subjects=["my.subject.*"],
        retention=RetentionPolicy.LIMITS,
        storage=StorageType.FILE,
        max_age=9 * 10**9,  # Meant as nanoseconds: 9 s.
        max_msgs=1000,
        max_bytes=10 * 1024 * 1024,
    )
    try:
        await js.add_stream(config=config)
        print(f"stream {config.name} made")
    except Exception as error:
        print(f"not made: {error}")
    info = await js.stream_info(name)
    print(f"max_age {info.config.max_age:g} s, max_msgs {info.config.max_msgs}, {info.config.storage}")
    await nc.close()


if __name__ == "__main__":
    asyncio.run(main())
