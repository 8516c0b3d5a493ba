"""Services (ADR-32), as nats-py's `nats.micro`: endpoints that answer requests, and say what they are and do.

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
    """Starts a service on a connection. `await service.stop()` ends it, and so does `async with`.

    Args:
        nc: The connection, of the asynchronous client.
        config: What the service is.
        **kwargs: Fields of `ServiceConfig`, by name; they win over `config`.

    Returns:
        The service, which answers `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS`; endpoints are added to it.

    Raises:
        ValueError: A name, version or queue group that is not valid.
        ConnectionClosedError: The connection is closed.
    """
    service = Service(nc, ServiceConfig(**kwargs) if config is None else replace(config, **kwargs))
    await service.start()
    return service
