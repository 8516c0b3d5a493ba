"""NATS JetStream for Python with a native core.

    import jetarrow

    nc = await jetarrow.connect("nats://127.0.0.1:4222")
    js = nc.jetstream()
    result = await js.publish_batch("events.new", [b"one", b"two"])

`jetarrow.sync` has the same API without `await`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Unpack

from jetarrow import _interpreter
from jetarrow.core.arguments import DEFAULT_SERVERS

if TYPE_CHECKING:
    from jetarrow import aio, errors, js, nuid, server, sync
    from jetarrow._jetarrow import __version__
    from jetarrow.client import Client
    from jetarrow.client import Client as NATS
    from jetarrow.core.option_types import ConnectOptions
    from jetarrow.core.tls import TLS

_interpreter.check()

__all__ = ["NATS", "TLS", "Client", "__version__", "aio", "connect", "errors", "js", "nuid", "server", "sync"]


async def connect(servers: str | list[str] = DEFAULT_SERVERS, **options: Unpack[ConnectOptions]) -> Client:
    """Connects to NATS and returns the client.

    Raises the same errors as `Client.connect`.

    Args:
        servers: As `Client.connect`.
        **options: As `Client.connect`.
    """
    from jetarrow.client import Client

    nc = Client()
    await nc.connect(servers, **options)
    return nc


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # The native module is loaded on first use: `jetarrow.server` and the pytest plugin do not need it.
        if name in ("NATS", "Client"):
            from jetarrow.client import Client

            return Client
        if name == "TLS":
            from jetarrow.core.tls import TLS

            return TLS
        if name == "__version__":
            from jetarrow._jetarrow import __version__

            return __version__
        # nats-py provides these after `import nats`: `nats.errors.TimeoutError`, `nats.js.api.StreamConfig`.
        if name in ("aio", "errors", "js", "nuid", "polars", "protocol", "server", "sync"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
