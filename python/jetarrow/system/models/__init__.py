"""Types of the servers' responses. Fields that this version does not have are kept: `as_dict` includes them."""

from __future__ import annotations

from jetarrow.system.models.connections import (
    ConnInfo,
    Connz,
    Gatewayz,
    LeafInfo,
    Leafz,
    RouteInfo,
    Routez,
    SubDetail,
    Subsz,
)
from jetarrow.system.models.jetstream import AccountDetail, Accountz, ConsumerDetail, Jsz, StreamDetail
from jetarrow.system.models.servers import (
    DataStats,
    Healthz,
    HealthzError,
    JetStreamServerConfig,
    JetStreamServerStats,
    JetStreamState,
    MetaCluster,
    ServerInfo,
    ServerStats,
    SlowConsumerStats,
    Varz,
)

__all__ = [
    "AccountDetail",
    "Accountz",
    "ConnInfo",
    "Connz",
    "ConsumerDetail",
    "DataStats",
    "Gatewayz",
    "Healthz",
    "HealthzError",
    "JetStreamServerConfig",
    "JetStreamServerStats",
    "JetStreamState",
    "Jsz",
    "LeafInfo",
    "Leafz",
    "MetaCluster",
    "RouteInfo",
    "Routez",
    "ServerInfo",
    "ServerStats",
    "SlowConsumerStats",
    "StreamDetail",
    "SubDetail",
    "Subsz",
    "Varz",
]
