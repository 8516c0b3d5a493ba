"""Streams and consumers of the JetStream API as they are in JSON. Public as `jetarrow.nats.jetstream.api.types`."""

# No postponed annotations: with them TypedDict does not recognise NotRequired, and every key would be required.

from typing import Any, Literal, NotRequired, TypedDict

from jetarrow.nats.jetstream.api.type_objects import (
    ClusterInfo,
    LostStreamData,
    Placement,
    PriorityGroupState,
    PriorityPolicy,
    StreamSource,
    StreamSourceInfo,
    SubjectTransform,
)


class StreamConsumerLimits(TypedDict):
    """Limits of a stream's consumers."""

    inactive_threshold: NotRequired[int]
    max_ack_pending: NotRequired[int]


class SequencePair(TypedDict):
    """Sequences of the consumer and of the stream."""

    consumer_seq: int
    stream_seq: int


class SequenceInfo(SequencePair):
    """Sequences, with the time of the last activity."""

    last_active: NotRequired[str]


class ConsumerConfig(TypedDict):
    """Configuration of a consumer; durations in nanoseconds."""

    ack_policy: NotRequired[Literal["none", "all", "explicit", "flow_control"]]
    ack_wait: NotRequired[int]
    backoff: NotRequired[list[int]]
    deliver_group: NotRequired[str]
    deliver_policy: NotRequired[Literal["all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"]]
    deliver_subject: NotRequired[str]
    description: NotRequired[str]
    direct: NotRequired[bool]
    durable_name: NotRequired[str]
    filter_subject: NotRequired[str]
    filter_subjects: NotRequired[list[str]]
    flow_control: NotRequired[bool]
    headers_only: NotRequired[bool]
    idle_heartbeat: NotRequired[int]
    inactive_threshold: NotRequired[int]
    max_ack_pending: NotRequired[int]
    max_batch: NotRequired[int]
    max_bytes: NotRequired[int]
    max_deliver: NotRequired[int]
    max_expires: NotRequired[int]
    max_waiting: NotRequired[int]
    mem_storage: NotRequired[bool]
    metadata: NotRequired[dict[str, str]]
    name: NotRequired[str]
    num_replicas: NotRequired[int]
    opt_start_seq: NotRequired[int]
    opt_start_time: NotRequired[str]
    pause_until: NotRequired[str]
    priority_groups: NotRequired[list[str]]
    priority_policy: NotRequired[PriorityPolicy]
    priority_timeout: NotRequired[Any]
    rate_limit_bps: NotRequired[int]
    replay_policy: NotRequired[Literal["instant", "original"]]
    sample_freq: NotRequired[str]


class ConsumerInfo(TypedDict):
    """Configuration and state of a consumer."""

    ack_floor: SequenceInfo
    cluster: NotRequired[ClusterInfo]
    config: ConsumerConfig
    created: str
    delivered: SequenceInfo
    name: str
    num_ack_pending: int
    num_pending: int
    num_redelivered: int
    num_waiting: int
    pause_remaining: NotRequired[int]
    paused: NotRequired[bool]
    priority_groups: NotRequired[list[PriorityGroupState]]
    push_bound: NotRequired[bool]
    stream_name: str
    ts: NotRequired[str]


class Republish(TypedDict):
    """Publication of stored messages under other subjects."""

    dest: str
    headers_only: NotRequired[bool]
    src: str


class StreamAlternate(TypedDict):
    """A mirror from which a stream may be read."""

    cluster: str
    domain: NotRequired[str]
    name: str


class StreamState(TypedDict):
    """State of a stream."""

    bytes: int
    consumer_count: int
    deleted: NotRequired[list[int]]
    first_seq: int
    first_ts: NotRequired[str]
    last_seq: int
    last_ts: NotRequired[str]
    lost: NotRequired[LostStreamData]
    messages: int
    num_deleted: NotRequired[int]
    num_subjects: NotRequired[int]
    subjects: NotRequired[dict[str, int]]


class StreamConfig(TypedDict):
    """Configuration of a stream; durations in nanoseconds."""

    allow_atomic: NotRequired[bool]
    allow_batched: NotRequired[bool]
    allow_direct: NotRequired[bool]
    allow_msg_counter: NotRequired[bool]
    allow_msg_schedules: NotRequired[bool]
    allow_msg_ttl: NotRequired[bool]
    allow_rollup_hdrs: NotRequired[bool]
    compression: NotRequired[Literal["none", "s2"]]
    consumer_limits: NotRequired[StreamConsumerLimits]
    deny_delete: NotRequired[bool]
    deny_purge: NotRequired[bool]
    description: NotRequired[str]
    discard: NotRequired[Literal["old", "new"]]
    discard_new_per_subject: NotRequired[bool]
    duplicate_window: NotRequired[int]
    first_seq: NotRequired[int]
    max_age: int
    max_bytes: int
    max_consumers: int
    max_msg_size: NotRequired[int]
    max_msgs: int
    max_msgs_per_subject: NotRequired[int]
    metadata: NotRequired[dict[str, str]]
    mirror: NotRequired[StreamSource]
    mirror_direct: NotRequired[bool]
    name: NotRequired[str]
    no_ack: NotRequired[bool]
    num_replicas: int
    persist_mode: NotRequired[Literal["default", "async"]]
    placement: NotRequired[Placement]
    republish: NotRequired[Republish]
    retention: Literal["limits", "interest", "workqueue"]
    sealed: NotRequired[bool]
    sources: NotRequired[list[StreamSource]]
    storage: Literal["file", "memory"]
    subject_delete_marker_ttl: NotRequired[int]
    subject_transform: NotRequired[SubjectTransform]
    subjects: NotRequired[list[str]]
    template_owner: NotRequired[str]


class StreamInfo(TypedDict):
    """Configuration and state of a stream."""

    alternates: NotRequired[list[StreamAlternate]]
    cluster: NotRequired[ClusterInfo]
    config: Any
    created: str
    mirror: NotRequired[StreamSourceInfo]
    sources: NotRequired[list[StreamSourceInfo]]
    state: Any
    ts: NotRequired[str]


class StreamTemplateConfig(TypedDict):
    """Configuration of a stream template."""

    config: StreamConfig
    max_streams: int
    name: str


class StreamTemplateInfo(TypedDict):
    """A stream template and its streams."""

    config: StreamTemplateConfig
    streams: list[str]
