"""The servers: their state over the system account (`nc.system()`), and the way of a message (`nc.trace()`)."""

from __future__ import annotations

from jetarrow.system.models import (
    AccountDetail,
    Accountz,
    ConnInfo,
    Connz,
    ConsumerDetail,
    Gatewayz,
    Healthz,
    Jsz,
    Leafz,
    RouteInfo,
    Routez,
    ServerInfo,
    ServerStats,
    StreamDetail,
    SubDetail,
    Subsz,
    Varz,
)
from jetarrow.system.requests import ServerAnswer, ServerAnswers
from jetarrow.system.system import System
from jetarrow.system.trace import Trace, TraceEvent

__all__ = [
    "AccountDetail",
    "Accountz",
    "ConnInfo",
    "Connz",
    "ConsumerDetail",
    "Gatewayz",
    "Healthz",
    "Jsz",
    "Leafz",
    "RouteInfo",
    "Routez",
    "ServerAnswer",
    "ServerAnswers",
    "ServerInfo",
    "ServerStats",
    "StreamDetail",
    "SubDetail",
    "Subsz",
    "System",
    "Trace",
    "TraceEvent",
    "Varz",
]
