"""Core NATS with the names of nats-core: `client = await jetarrow.nats.client.connect("nats://localhost:4222")`."""

from __future__ import annotations

from jetarrow._jetarrow import __version__
from jetarrow.nats.client.client import Client
from jetarrow.nats.client.connect import (
    JWTCredentials,
    JWTHandler,
    JWTHandlers,
    JWTSignatureHandler,
    NkeyHandlers,
    NkeyPublicKeyHandler,
    NkeySeed,
    NkeySignatureHandler,
    connect,
)
from jetarrow.nats.client.errors import NoRespondersError, SlowConsumerError, StatusError
from jetarrow.nats.client.message import Headers, Message, Status
from jetarrow.nats.client.server_info import ClientStatistics, ClientStatus, ServerInfo
from jetarrow.nats.client.subscription import Subscription

__all__ = [
    "Client",
    "ClientStatistics",
    "ClientStatus",
    "Headers",
    "JWTCredentials",
    "JWTHandler",
    "JWTHandlers",
    "JWTSignatureHandler",
    "Message",
    "NkeyHandlers",
    "NkeyPublicKeyHandler",
    "NkeySeed",
    "NkeySignatureHandler",
    "NoRespondersError",
    "ServerInfo",
    "SlowConsumerError",
    "Status",
    "StatusError",
    "Subscription",
    "__version__",
    "connect",
]
