"""Requests of the JetStream API as they are in JSON. Public as `jetarrow.nats.jetstream.api.types`."""

# No postponed annotations: with them TypedDict does not recognise NotRequired, and every key would be required.

from typing import NotRequired, TypedDict

from jetarrow.nats.jetstream.api.type_assets import ConsumerConfig, StreamConfig, StreamState, StreamTemplateConfig
from jetarrow.nats.jetstream.api.type_objects import Placement


class StreamCreateRequest(StreamConfig):
    """Creates a stream."""

    pedantic: NotRequired[bool]


class StreamUpdateRequest(StreamConfig):
    """Replaces the configuration of a stream."""


class StreamInfoRequest(TypedDict):
    """Asks for a stream."""

    deleted_details: NotRequired[bool]
    offset: NotRequired[int]
    subjects_filter: NotRequired[str]


class StreamListRequest(TypedDict):
    """Asks for a page of streams."""

    offset: NotRequired[int]
    subject: NotRequired[str]


class StreamNamesRequest(StreamListRequest):
    """Asks for a page of names of streams."""


class StreamPurgeRequest(TypedDict):
    """Removes messages of a stream."""

    filter: NotRequired[str]
    keep: NotRequired[int]
    seq: NotRequired[int]


class StreamMsgGetRequest(TypedDict):
    """Asks for a message."""

    batch: NotRequired[int]
    last_by_subj: NotRequired[str]
    max_bytes: NotRequired[int]
    multi_last: NotRequired[list[str]]
    next_by_subj: NotRequired[str]
    seq: NotRequired[int]
    start_time: NotRequired[str]
    up_to_seq: NotRequired[int]
    up_to_time: NotRequired[str]


class StreamMsgDeleteRequest(TypedDict):
    """Removes a message."""

    no_erase: NotRequired[bool]
    seq: int


class StreamSnapshotRequest(TypedDict):
    """Asks for a backup of a stream."""

    chunk_size: NotRequired[int]
    deliver_subject: str
    jsck: NotRequired[bool]
    no_consumers: NotRequired[bool]


class StreamRestoreRequest(TypedDict):
    """Restores a stream from a backup."""

    config: StreamConfig
    state: StreamState


class StreamRemovePeerRequest(TypedDict):
    """Removes a replica of a stream."""

    peer: str


class StreamLeaderStepdownRequest(TypedDict):
    """Elects another leader of a stream."""

    placement: NotRequired[Placement]


class StreamTemplateCreateRequest(StreamTemplateConfig):
    """Creates a stream template."""


class StreamTemplateNamesRequest(TypedDict):
    """Asks for a page of names of stream templates."""

    offset: int


class ConsumerCreateRequest(TypedDict):
    """Creates or updates a consumer, as `action` requests."""

    action: NotRequired[str]
    config: ConsumerConfig
    pedantic: NotRequired[bool]
    stream_name: str


class ConsumerListRequest(TypedDict):
    """Asks for a page of consumers."""

    offset: int


class ConsumerNamesRequest(TypedDict):
    """Asks for a page of names of consumers."""

    offset: int
    subject: NotRequired[str]


class ConsumerPauseRequest(TypedDict):
    """Pauses a consumer, or resumes it if no time is given."""

    pause_until: NotRequired[str]


class ConsumerResetRequest(TypedDict):
    """Resets the delivery state of a consumer (ADR-60)."""

    seq: NotRequired[int]


class ConsumerGetnextRequest(TypedDict):
    """Asks for messages of a pull consumer."""

    batch: NotRequired[int]
    expires: NotRequired[int]
    idle_heartbeat: NotRequired[int]
    max_bytes: NotRequired[int]
    no_wait: NotRequired[bool]


class ConsumerUnpinRequest(TypedDict):
    """Unpins the client of a priority group."""

    group: str


class ConsumerLeaderStepdownRequest(TypedDict):
    """Elects another leader of a consumer."""

    placement: NotRequired[Placement]


class MetaLeaderStepdownRequest(TypedDict):
    """Elects another leader of the meta group."""

    placement: NotRequired[Placement]


class MetaServerRemoveRequest(TypedDict):
    """Removes a server from the meta group."""

    peer: NotRequired[str]
    peer_id: NotRequired[str]
