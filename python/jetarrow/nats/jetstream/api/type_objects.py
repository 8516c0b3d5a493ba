"""Objects of the JetStream API as they are in JSON. Public as `jetarrow.nats.jetstream.api.types`."""

# No postponed annotations: with them TypedDict does not recognise NotRequired, and every key would be required.

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

PriorityPolicy: TypeAlias = Literal["none", "overflow", "pinned_client"]


class SubjectTransform(TypedDict):
    """Rewrite of subjects: those that match `src` become `dest`."""

    dest: str
    src: str


class ExternalStreamSource(TypedDict):
    """Location of a stream in another account or domain."""

    api: str
    deliver: NotRequired[str]


class StreamConsumerSource(TypedDict):
    """A durable push consumer through which a stream is copied (ADR-60)."""

    name: str
    deliver_subject: str


class StreamSource(TypedDict):
    """Another stream that is copied."""

    consumer: NotRequired[StreamConsumerSource]
    external: NotRequired[ExternalStreamSource]
    filter_subject: NotRequired[str]
    name: str
    opt_start_seq: NotRequired[int]
    opt_start_time: NotRequired[str]
    subject_transforms: NotRequired[Any]


class PriorityGroupState(TypedDict):
    """State of a priority group of a consumer."""

    group: str
    pinned_client_id: NotRequired[str]
    pinned_ts: NotRequired[str]


class Error(TypedDict):
    """The server's error object."""

    code: int
    description: NotRequired[str]
    err_code: NotRequired[int]


class StreamSourceInfo(TypedDict):
    """Progress of copying from another stream."""

    active: int
    error: NotRequired[Error]
    external: NotRequired[ExternalStreamSource]
    filter_subject: NotRequired[str]
    lag: int
    name: str
    subject_transforms: NotRequired[Any]


class LostStreamData(TypedDict):
    """Messages that the server found damaged."""

    bytes: NotRequired[int]
    msgs: NotRequired[Any]


class Placement(TypedDict):
    """Servers on which an asset may be placed."""

    cluster: NotRequired[str]
    preferred: NotRequired[str]
    tags: NotRequired[list[str]]


class PeerInfo(TypedDict):
    """A replica of an asset."""

    active: float
    current: bool
    lag: NotRequired[int]
    name: str
    observer: NotRequired[bool]
    offline: NotRequired[bool]


class ClusterInfo(TypedDict):
    """The replicas of an asset."""

    leader: NotRequired[str]
    name: NotRequired[str]
    raft_group: NotRequired[str]
    replicas: NotRequired[list[PeerInfo]]


class ApiStats(TypedDict):
    """Counts of an account's API requests."""

    errors: int
    inflight: NotRequired[int]
    level: NotRequired[int]
    total: int


class AccountLimits(TypedDict):
    """Limits of an account."""

    max_ack_pending: NotRequired[int]
    max_bytes_required: NotRequired[bool]
    max_consumers: int
    max_memory: int
    max_storage: int
    max_streams: int
    memory_max_stream_bytes: NotRequired[int]
    storage_max_stream_bytes: NotRequired[int]


class Tier(TypedDict):
    """Usage and limits of an account at one replication level."""

    consumers: int
    limits: AccountLimits
    memory: int
    reserved_memory: NotRequired[int]
    reserved_storage: NotRequired[int]
    storage: int
    streams: int


class AccountInfo(TypedDict):
    """Usage and limits of an account."""

    api: ApiStats
    consumers: int
    domain: NotRequired[str]
    limits: AccountLimits
    memory: int
    storage: int
    streams: int
    tiers: NotRequired[dict[str, Tier]]


class StoredMessage(TypedDict):
    """A stored message; data and headers are base64."""

    data: NotRequired[str]
    hdrs: NotRequired[str]
    seq: int
    subject: str
    time: str


class IterableRequest(TypedDict):
    """Request for a page of a list."""

    offset: int


class IterableResponse(TypedDict):
    """Position of a page in a list."""

    limit: int
    offset: int
    total: int


class ErrorResponse(TypedDict):
    """A response that reports an error."""

    error: Error


class LastPerSubjectDeliverPolicy(TypedDict):
    """Start at the last message of each subject."""

    deliver_policy: Literal["last_per_subject"]


class AllDeliverPolicy(TypedDict):
    """Start at the first message."""

    deliver_policy: Literal["all"]


class StartTimeDeliverPolicy(TypedDict):
    """Start at a time."""

    deliver_policy: Literal["by_start_time"]
    opt_start_time: str


class LastDeliverPolicy(TypedDict):
    """Start at the last message."""

    deliver_policy: Literal["last"]


class NewDeliverPolicy(TypedDict):
    """Start at the next message."""

    deliver_policy: Literal["new"]


class StartSequenceDeliverPolicy(TypedDict):
    """Start at a sequence."""

    deliver_policy: Literal["by_start_sequence"]
    opt_start_seq: int


# The same shapes under the names that the schema gives them in a union.
DeliverPolicy_LastPerSubjectDeliverPolicy = LastPerSubjectDeliverPolicy
DeliverPolicy_AllDeliverPolicy = AllDeliverPolicy
DeliverPolicy_StartTimeDeliverPolicy = StartTimeDeliverPolicy
DeliverPolicy_LastDeliverPolicy = LastDeliverPolicy
DeliverPolicy_NewDeliverPolicy = NewDeliverPolicy
DeliverPolicy_StartSequenceDeliverPolicy = StartSequenceDeliverPolicy

DeliverPolicy: TypeAlias = (
    AllDeliverPolicy
    | LastDeliverPolicy
    | NewDeliverPolicy
    | StartSequenceDeliverPolicy
    | StartTimeDeliverPolicy
    | LastPerSubjectDeliverPolicy
)


class PublishAck(TypedDict):
    """The server's response to a published message."""

    batch: NotRequired[str]
    count: NotRequired[int]
    domain: NotRequired[str]
    duplicate: NotRequired[bool]
    error: NotRequired[Error]
    seq: NotRequired[int]
    stream: str
    val: NotRequired[str]
