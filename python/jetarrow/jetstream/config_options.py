"""The fields of configurations as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from jetarrow.jetstream.models import (
        AckPolicy,
        DeliverPolicy,
        DiscardPolicy,
        PersistMode,
        Placement,
        PriorityPolicy,
        ReplayPolicy,
        RePublish,
        RetentionPolicy,
        StorageType,
        StoreCompression,
        StreamConsumerLimits,
        StreamSource,
        SubjectTransform,
    )


class StreamOptions(TypedDict, total=False):
    """The fields of `StreamConfig`, as keywords; they override the configuration that is given with them."""

    name: str | None
    """Its name: letters, digits, `-` and `_`."""
    description: str | None
    """A description for people; default none."""
    subjects: list[str] | str | None
    """Subjects that it stores, wildcards allowed; default its name, none for a mirror."""
    retention: RetentionPolicy | str | None
    """When the server deletes messages; default at the limits."""
    max_consumers: int | None
    """Most consumers; default no limit."""
    max_msgs: int | None
    """Most messages; default no limit."""
    max_bytes: int | None
    """Most bytes of all messages; default no limit."""
    discard: DiscardPolicy | str | None
    """Action at a limit: delete "old" messages (default), or reject "new" ones."""
    discard_new_per_subject: bool
    """With "new": whether `max_msgs_per_subject` rejects too; default False."""
    max_age: float | timedelta | None
    """Seconds after which a message is deleted; default no limit."""
    max_msgs_per_subject: int
    """Most messages of one subject; default no limit."""
    max_msg_size: int | None
    """Most bytes of one message; default no limit."""
    storage: StorageType | str | None
    """Storage of messages: "file" (default) or "memory"."""
    num_replicas: int | None
    """Number of replicas; default 1."""
    no_ack: bool
    """Publishes are not acknowledged; default False."""
    template_owner: str | None
    """Accepted for compatibility with nats-py; servers ignore it."""
    duplicate_window: float | timedelta | None
    """Seconds for which message ids are remembered; default two minutes, by the server."""
    placement: Placement | None
    """Servers that may store it; default any."""
    mirror: StreamSource | None
    """The stream that it mirrors; default none."""
    sources: list[StreamSource] | None
    """The streams that it copies from; default none."""
    sealed: bool
    """Messages can be neither added nor deleted; default False."""
    deny_delete: bool
    """Messages may not be deleted; default False."""
    deny_purge: bool
    """It may not be purged; default False."""
    allow_rollup_hdrs: bool
    """Whether the header `Nats-Rollup` may replace earlier messages; default False."""
    first_seq: int | None
    """Sequence of the first message; default 1."""
    republish: RePublish | None
    """Subjects on which stored messages are published again; default none."""
    subject_transform: SubjectTransform | None
    """Transform of the subjects of incoming messages; default none."""
    allow_direct: bool | None
    """Whether any replica may answer direct gets; default the server decides."""
    mirror_direct: bool | None
    """Whether a mirror may answer direct gets too; default the server decides."""
    compression: StoreCompression | str | None
    """Compression of files: "none" (default) or "s2"."""
    allow_msg_ttl: bool | None
    """Whether messages may have their own time to live (server 2.11); default no."""
    allow_msg_schedules: bool | None
    """Whether it accepts scheduled messages (server 2.12); default no."""
    allow_atomic: bool | None
    """Whether it accepts atomic batches (server 2.12); default no."""
    allow_batched: bool | None
    """Whether it accepts fast batches (server 2.14); default no."""
    allow_msg_counter: bool | None
    """Whether its subjects are counters (server 2.12); default no."""
    persist_mode: PersistMode | str | None
    """Whether a message is acknowledged after ("default") or before ("async") it is written."""
    metadata: dict[str, str] | None
    """Key-value pairs for the application; default none."""
    consumer_limits: StreamConsumerLimits | None
    """Limits for its consumers; default none."""
    subject_delete_marker_ttl: float | timedelta | None
    """Seconds that a marker is kept after the last message of a subject expired (server 2.11); default none."""
    max_messages: int | None
    """Another name for `max_msgs`."""
    max_messages_per_stream: int | None
    """Another name for `max_msgs`."""
    max_messages_per_subject: int
    """Another name for `max_msgs_per_subject`."""
    first_sequence: int | None
    """Another name for `first_seq`."""


class _ConsumerOptions(TypedDict, total=False):
    """The fields of `ConsumerConfig` that no function has as a parameter."""

    durable_name: str | None
    """Its name, for a durable consumer; default none."""
    description: str | None
    """A description for people; default none."""
    opt_start_seq: int | None
    """The sequence for `by_start_sequence`."""
    opt_start_time: datetime | str | None
    """The time for `by_start_time`; local time if it has no zone."""
    ack_policy: AckPolicy | str | None
    """Messages that must be acknowledged; default "explicit", each one."""
    ack_wait: float | timedelta | None
    """Seconds after which an unacknowledged message is redelivered; default 30."""
    max_deliver: int | None
    """Most deliveries of a message; default no limit."""
    backoff: Sequence[float | timedelta] | None
    """Seconds before each further delivery, instead of `ack_wait`; default none."""
    filter_subject: str | None
    """The subject that it delivers, wildcards allowed; default all."""
    filter_subjects: list[str] | str | None
    """Several subjects instead, which do not overlap; default all."""
    replay_policy: ReplayPolicy | str | None
    """Pace of delivery: "instant" (default) or "original"."""
    rate_limit_bps: int | None
    """Push: most bits per second; default no limit."""
    sample_freq: str | None
    """Share of the acks that are reported as events, for example "100%"; default none."""
    max_waiting: int | None
    """Pull: most waiting requests; default 512."""
    max_ack_pending: int | None
    """Most unacknowledged messages, -1 for no limit; default 1000."""
    deliver_subject: str | None
    """Push: the subject that messages are delivered to; default none, a pull consumer."""
    deliver_group: str | None
    """Push: the queue group of the deliver subject; default none."""
    num_replicas: int | None
    """Number of replicas of its state; default as the stream."""
    mem_storage: bool | None
    """Whether its state is kept in memory; default as the stream."""
    metadata: dict[str, str] | None
    """Key-value pairs for the application; default none."""
    pause_until: datetime | str | None
    """Deliver nothing before this time (server 2.11); default at once."""
    max_request_batch: int | None
    """Pull: most messages that one request may ask for; default no limit."""
    max_request_expires: float | timedelta | None
    """Pull: most seconds that one request may wait; default no limit."""
    max_request_max_bytes: int | None
    """Pull: most bytes that one request may ask for; default no limit."""
    priority_groups: list[str] | None
    """Pull: the name of its priority group, in a list (server 2.11); default none."""
    priority_policy: PriorityPolicy | str | None
    """Pull: distribution of messages among the clients of the group (server 2.11); default none."""
    priority_timeout: float | timedelta | None
    """Pull: seconds of idleness after which a pinned client is replaced (server 2.11)."""
    opt_start_sequence: int | None
    """Another name for `opt_start_seq`."""
    rate_limit: int | None
    """Another name for `rate_limit_bps`."""
    max_pull_waiting: int | None
    """Another name for `max_waiting`."""


class PushConsumerOptions(_ConsumerOptions, total=False):
    """The fields of `ConsumerConfig`, as keywords of `js.subscribe`, which has the others as parameters."""

    name: str | None
    """Its name; default generated by the server."""


class NamedConsumerOptions(_ConsumerOptions, total=False):
    """The fields of `ConsumerConfig`, as keywords of `get_or_create_consumer`, which has `name` as a parameter."""

    deliver_policy: DeliverPolicy | str | None
    """First message to deliver; default the first of the stream."""
    flow_control: bool | None
    """Push: whether the server pauses until the client has processed messages; default no."""
    idle_heartbeat: float | timedelta | None
    """Push: seconds between heartbeats while there are no messages; default none."""
    headers_only: bool | None
    """Deliver messages without their payloads; default no."""
    inactive_threshold: float | timedelta | None
    """Seconds without use after which the server removes it; default 5 for an ephemeral one, else never."""


class ConsumerOptions(NamedConsumerOptions, total=False):
    """The fields of `ConsumerConfig`, as keywords; they override the configuration that is given with them."""

    name: str | None
    """Its name; default generated by the server."""
