"""Responses of the JetStream API as they are in JSON. Public as `jetarrow.nats.jetstream.api.types`."""

# No postponed annotations: with them TypedDict does not recognise NotRequired, and every key would be required.

from typing import Literal, NotRequired, TypedDict

from jetarrow.nats.jetstream.api.type_assets import (
    ConsumerInfo,
    StreamConfig,
    StreamInfo,
    StreamState,
    StreamTemplateInfo,
)
from jetarrow.nats.jetstream.api.type_objects import AccountInfo, ErrorResponse, IterableResponse, StoredMessage


class AccountInfoResponse(AccountInfo):
    """Usage and limits of an account."""

    type: Literal["io.nats.jetstream.api.v1.account_info_response"]


class AccountPurgeResponse(TypedDict):
    """Whether the removal of an account began."""

    initiated: NotRequired[bool]
    type: NotRequired[Literal["io.nats.jetstream.api.v1.account_purge_response"]]


class StreamCreateResponse(StreamInfo):
    """The created stream."""

    type: Literal["io.nats.jetstream.api.v1.stream_create_response"]


class StreamUpdateResponse(StreamInfo):
    """The updated stream."""

    type: Literal["io.nats.jetstream.api.v1.stream_update_response"]


class StreamInfoResponse(StreamInfo):
    """A stream, with a page of its subjects."""

    limit: NotRequired[int]
    offset: NotRequired[int]
    total: NotRequired[int]
    type: Literal["io.nats.jetstream.api.v1.stream_info_response"]


class StreamListResponse(IterableResponse):
    """A page of streams."""

    missing: NotRequired[list[str]]
    streams: list[StreamInfo]
    type: Literal["io.nats.jetstream.api.v1.stream_list_response"]


class StreamNamesResponse(IterableResponse):
    """A page of names of streams."""

    streams: NotRequired[list[str]]
    type: Literal["io.nats.jetstream.api.v1.stream_names_response"]


class StreamDeleteResponse(TypedDict):
    """Whether the stream was deleted."""

    success: bool
    type: Literal["io.nats.jetstream.api.v1.stream_delete_response"]


class StreamPurgeResponse(TypedDict):
    """Number of removed messages."""

    purged: int
    success: bool
    type: Literal["io.nats.jetstream.api.v1.stream_purge_response"]


class StreamMsgGetResponse(TypedDict):
    """A stored message."""

    message: StoredMessage
    type: Literal["io.nats.jetstream.api.v1.stream_msg_get_response"]


class StreamMsgDeleteResponse(TypedDict):
    """Whether the message was removed."""

    success: bool
    type: Literal["io.nats.jetstream.api.v1.stream_msg_delete_response"]


class StreamSnapshotResponse(TypedDict):
    """The stream that is backed up."""

    config: StreamConfig
    state: StreamState
    type: NotRequired[Literal["io.nats.jetstream.api.v1.stream_snapshot_response"]]


class StreamRestoreResponse(TypedDict):
    """The subject that takes the backup."""

    deliver_subject: str
    type: NotRequired[Literal["io.nats.jetstream.api.v1.stream_restore_response"]]


class StreamRemovePeerResponse(TypedDict):
    """Whether the replica was removed."""

    success: bool
    type: NotRequired[Literal["io.nats.jetstream.api.v1.stream_remove_peer_response"]]


class StreamLeaderStepdownResponse(TypedDict):
    """Whether the leader stepped down."""

    success: bool
    type: NotRequired[Literal["io.nats.jetstream.api.v1.stream_leader_stepdown_response"]]


class StreamTemplateCreateResponse(StreamTemplateInfo):
    """The created stream template."""

    type: Literal["io.nats.jetstream.api.v1.stream_template_create_response"]


class StreamTemplateInfoResponse(StreamTemplateInfo):
    """A stream template."""

    type: Literal["io.nats.jetstream.api.v1.stream_template_info_response"]


class StreamTemplateNamesResponse(IterableResponse):
    """A page of names of stream templates."""

    consumers: NotRequired[list[str]]
    type: Literal["io.nats.jetstream.api.v1.stream_template_names_response"]


class StreamTemplateDeleteResponse(TypedDict):
    """Whether the stream template was deleted."""

    success: bool
    type: Literal["io.nats.jetstream.api.v1.stream_template_delete_response"]


class ConsumerCreateResponse(ConsumerInfo):
    """The created or updated consumer."""

    type: Literal["io.nats.jetstream.api.v1.consumer_create_response"]


class ConsumerInfoResponse(ConsumerInfo):
    """A consumer."""

    type: Literal["io.nats.jetstream.api.v1.consumer_info_response"]


class ConsumerListResponse(IterableResponse):
    """A page of consumers."""

    consumers: list[ConsumerInfo]
    type: Literal["io.nats.jetstream.api.v1.consumer_list_response"]


class ConsumerNamesResponse(IterableResponse):
    """A page of names of consumers."""

    consumers: list[str]
    type: Literal["io.nats.jetstream.api.v1.consumer_names_response"]


class ConsumerDeleteResponse(TypedDict):
    """Whether the consumer was deleted."""

    success: bool
    type: Literal["io.nats.jetstream.api.v1.consumer_delete_response"]


class ConsumerPauseResponse(TypedDict):
    """Whether and until when a consumer is paused."""

    pause_remaining: NotRequired[int]
    pause_until: NotRequired[str]
    paused: NotRequired[bool]
    type: NotRequired[Literal["io.nats.jetstream.api.v1.consumer_pause_response"]]


class ConsumerResetResponse(ConsumerInfo):
    """The consumer after a reset, with its sequence."""

    reset_seq: int
    type: Literal["io.nats.jetstream.api.v1.consumer_reset_response"]


class ConsumerUnpinResponse(TypedDict):
    """The result of unpinning."""

    error: NotRequired[ErrorResponse]
    type: Literal["io.nats.jetstream.api.v1.consumer_pause_response"]


class ConsumerLeaderStepdownResponse(TypedDict):
    """Whether the leader stepped down."""

    success: bool
    type: NotRequired[Literal["io.nats.jetstream.api.v1.consumer_leader_stepdown_response"]]


class MetaLeaderStepdownResponse(TypedDict):
    """Whether the leader stepped down."""

    success: bool
    type: NotRequired[Literal["io.nats.jetstream.api.v1.meta_leader_stepdown_response"]]


class MetaServerRemoveResponse(TypedDict):
    """Whether the server was removed."""

    success: bool
    type: NotRequired[Literal["io.nats.jetstream.api.v1.meta_server_remove_response"]]
