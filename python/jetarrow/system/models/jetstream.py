"""JetStream of a server: usage, accounts, streams."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from jetarrow.jetstream.models.account import APIStats
from jetarrow.jetstream.models.base import Base, Codec, Moment, Nested
from jetarrow.jetstream.models.consumers import ConsumerConfig, ConsumerInfo
from jetarrow.jetstream.models.stream_info import ClusterInfo, StreamSourceInfo, StreamState
from jetarrow.jetstream.models.streams import StreamConfig
from jetarrow.system.models.servers import JetStreamServerConfig, MetaCluster

# The server sends -1, no limit, as an unsigned number.
_UNSIGNED = 2**64


class _Limit(Codec):
    """A number of bytes; -1 has no limit."""

    def load(self, value: Any) -> Any:
        return value - _UNSIGNED if value == _UNSIGNED - 1 else value

    def dump(self, value: Any) -> Any:
        return value + _UNSIGNED if value == -1 else value


@dataclass
class ConsumerDetail(ConsumerInfo):
    """A consumer of a stream, as one of its servers has it: a `ConsumerInfo` whose fields may be absent.

    Attributes:
        name: Its name.
        stream_name: Its stream's name.
        created: Time of its creation, UTC.
        config: Its configuration, requested with `config`.
    """

    name: str = ""
    stream_name: str = ""
    # The API of JetStream always has these.
    config: ConsumerConfig | None = None  # type: ignore[assignment]
    created: datetime | None = None  # type: ignore[assignment]


@dataclass
class StreamDetail(Base):
    """A stream of an account, as one of its servers has it.

    Attributes:
        name: Its name.
        created: Time of its creation, UTC.
        cluster: Its leader and replicas; None on a server without a cluster.
        config: Its configuration, requested with `config`.
        state: Its state on this server.
        consumer_detail: Its consumers, requested with `consumers`.
        mirror: Progress of the mirror. Default: it is none.
        sources: Progress of its sources. Default: it has none.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "created": Moment(),
        "cluster": Nested(ClusterInfo),
        "config": Nested(StreamConfig),
        "state": Nested(StreamState),
        "consumer_detail": Nested(ConsumerDetail),
        "mirror": Nested(StreamSourceInfo),
        "sources": Nested(StreamSourceInfo),
    }

    name: str = ""
    created: datetime | None = None
    cluster: ClusterInfo | None = None
    config: StreamConfig | None = None
    state: StreamState | None = None
    consumer_detail: list[ConsumerDetail] | None = None
    mirror: StreamSourceInfo | None = None
    sources: list[StreamSourceInfo] | None = None


@dataclass
class AccountDetail(Base):
    """JetStream of an account on a server. Sizes in bytes.

    Attributes:
        name: Name of the account.
        id: Its id.
        memory: Used memory.
        storage: Used bytes of files.
        reserved_memory: Memory that the account may use; -1 has no limit.
        reserved_storage: Bytes of files that the account may use; -1 has no limit.
        accounts: The server's counter, 0 here.
        ha_assets: The server's counter, 0 here.
        api: Counters of API requests.
        stream_detail: Its streams, requested with `streams`.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "api": Nested(APIStats),
        "reserved_memory": _Limit(),
        "reserved_storage": _Limit(),
        "stream_detail": Nested(StreamDetail),
    }

    name: str = ""
    id: str = ""
    memory: int = 0
    storage: int = 0
    reserved_memory: int | None = None
    reserved_storage: int | None = None
    accounts: int = 0
    ha_assets: int = 0
    api: APIStats | None = None
    stream_detail: list[StreamDetail] | None = None


@dataclass
class Jsz(Base):
    """Response to `jsz`: JetStream of a server. Sizes in bytes.

    Attributes:
        now: The server's clock, UTC.
        disabled: Whether JetStream is disabled on the server.
        config: Configuration of JetStream.
        memory: Used memory.
        storage: Used bytes of files.
        reserved_memory: Memory reserved by the `max_bytes` of streams.
        reserved_storage: Bytes of files reserved by the `max_bytes` of streams.
        accounts: Number of accounts with JetStream.
        ha_assets: Number of replicated streams and consumers with a replica on the server.
        api: Counters of API requests.
        streams: Number of streams with a replica on the server.
        consumers: Number of their consumers.
        messages: Number of their messages.
        bytes: Bytes of their messages.
        meta_cluster: The group that manages streams; None without a cluster.
        account_details: The accounts, requested with `accounts`, `streams` or `consumers`.
        total: Number of accounts that match.
    """

    _codecs: ClassVar[dict[str, Codec]] = {
        "now": Moment(),
        "config": Nested(JetStreamServerConfig),
        "api": Nested(APIStats),
        "meta_cluster": Nested(MetaCluster),
        "account_details": Nested(AccountDetail),
    }

    now: datetime | None = None
    disabled: bool = False
    config: JetStreamServerConfig | None = None
    memory: int = 0
    storage: int = 0
    reserved_memory: int | None = None
    reserved_storage: int | None = None
    accounts: int = 0
    ha_assets: int = 0
    api: APIStats | None = None
    streams: int = 0
    consumers: int = 0
    messages: int = 0
    bytes: int = 0
    meta_cluster: MetaCluster | None = None
    account_details: list[AccountDetail] | None = None
    total: int = 0


@dataclass
class Accountz(Base):
    """Response to `accountz`: the accounts of a server.

    Attributes:
        now: The server's clock, UTC.
        system_account: Name of the system account.
        accounts: Names of all accounts; None if one was requested.
        account_detail: The requested account, as the server sent it.
    """

    _codecs: ClassVar[dict[str, Codec]] = {"now": Moment()}

    now: datetime | None = None
    system_account: str | None = None
    accounts: list[str] | None = None
    account_detail: dict[str, object] | None = None
