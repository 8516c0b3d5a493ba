"""NATS JetStream for Python with a native core.

    import jetarrow

    nc = await jetarrow.connect("nats://127.0.0.1:4222")
    js = nc.jetstream()
    result = await js.publish_batch("events.new", [b"one", b"two"])

The same names without `await` are in `jetarrow.sync`.
"""

from __future__ import annotations

from typing import Any

from jetarrow._jetarrow import __version__
from jetarrow.aio.client import Client
from jetarrow.aio.client import Client as NATS

__all__ = ["NATS", "Client", "__version__", "connect"]


async def connect(servers: str | list[str] = "nats://localhost:4222", **options: Any) -> Client:
    """Connects to NATS and returns the client.

    Takes the same options as `Client.connect`, and raises the same errors.
    """
    nc = Client()
    await nc.connect(servers, **options)
    return nc
