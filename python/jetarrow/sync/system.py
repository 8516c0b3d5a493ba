"""Blocking requests to the servers."""

from __future__ import annotations

from jetarrow.sync.blocking import blocking, inner_repr
from jetarrow.system.system import System as AsyncSystem


class System:
    """As `jetarrow.system.System`, blocking."""

    def __init__(self, inner: AsyncSystem) -> None:
        self._inner = inner

    __repr__ = inner_repr
    ping = blocking(AsyncSystem.ping)
    varz = blocking(AsyncSystem.varz)
    connz = blocking(AsyncSystem.connz)
    jsz = blocking(AsyncSystem.jsz)
    healthz = blocking(AsyncSystem.healthz)
    subsz = blocking(AsyncSystem.subsz)
    routez = blocking(AsyncSystem.routez)
    gatewayz = blocking(AsyncSystem.gatewayz)
    leafz = blocking(AsyncSystem.leafz)
    accountz = blocking(AsyncSystem.accountz)
