"""Services (ADR-32), as in nats-py's `nats.micro`: endpoints that answer requests, with discovery and statistics.

service = await jetarrow.micro.add_service(nc, name="math", version="1.0.0")
await service.add_endpoint("double", handler)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jetarrow.client import Client
from jetarrow.micro.config import EndpointConfig as EndpointConfig
from jetarrow.micro.config import GroupConfig as GroupConfig
from jetarrow.micro.config import ServiceConfig as ServiceConfig
from jetarrow.micro.request import Handler as Handler
from jetarrow.micro.request import Request as Request
from jetarrow.micro.request import ServiceError as ServiceError
from jetarrow.micro.service import Service as Service

__all__ = ["add_service"]


async def add_service(nc: Client, config: ServiceConfig | None = None, **kwargs: Any) -> Service:
    """Starts a service on a connection. `await service.stop()` or the end of an `async with` block stops it.

    Args:
        nc: The async client.
        config: Configuration of the service.
        **kwargs: Fields of `ServiceConfig`, by name; they override `config`.

    Returns:
        The service, which answers `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS`. Add endpoints to it.

    Raises:
        ValueError: A name, version or queue group is invalid.
        ConnectionClosedError: The connection is closed.
    """
    service = Service(nc, ServiceConfig(**kwargs) if config is None else replace(config, **kwargs))
    await service.start()
    return service
