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
    """The fields of `StreamConfig`, as keywords; they win over the configuration that is given with them."""

    name: str | None
    """Its name: letters, digits, `-` and `_`."""
    description: str | None
    """A text for people; default none."""
    subjects: list[str] | str | None
    """What it stores, wildcards allowed; default its name, none for a mirror."""
    retention: RetentionPolicy | str | None
    """When messages go; default at the limits."""
    max_consumers: int | None
    """Most consumers; default no limit."""
    max_msgs: int | None
    """Most messages; default no limit."""
    max_bytes: int | None
    """Most bytes of all messages; default no limit."""
    discard: DiscardPolicy | str | None
    """What to do at a limit: drop the "old" messages (default), or refuse "new" ones."""
    discard_new_per_subject: bool
    """With "new": whether `max_msgs_per_subject` refuses too; default False."""
    max_age: float | timedelta | None
    """Seconds that a message stays; default no limit."""
    max_msgs_per_subject: int
    """Most messages of one subject; default no limit."""
    max_msg_size: int | None
    """Most bytes of one message; default no limit."""
    storage: StorageType | str | None
    """Where messages are kept, "file" (default) or "memory"."""
    num_replicas: int | None
    """How many servers keep them; default 1."""
    no_ack: bool
    """Publishes are not acknowledged; default False."""
    template_owner: str | None
    """For nats-py's sake; servers no longer know it."""
    duplicate_window: float | timedelta | None
    """Seconds in which a message id is remembered; default the server's two minutes."""
    placement: Placement | None
    """Which servers may keep it; default any."""
    mirror: StreamSource | None
    """The stream that it copies; default none."""
    sources: list[StreamSource] | None
    """The streams that it gathers; default none."""
    sealed: bool
    """Nothing may change any more; default False."""
    deny_delete: bool
    """Messages may not be deleted; default False."""
    deny_purge: bool
    """It may not be purged; default False."""
    allow_rollup_hdrs: bool
    """A message may replace those before it, by a header; default False."""
    first_seq: int | None
    """The first message's sequence; default 1."""
    republish: RePublish | None
    """What to publish again; default nothing."""
    subject_transform: SubjectTransform | None
    """How to rewrite subjects on the way in; default not at all."""
    allow_direct: bool | None
    """Whether any replica may answer reads of single messages; default the server decides."""
    mirror_direct: bool | None
    """Whether a mirror may answer them too; default the server decides."""
    compression: StoreCompression | str | None
    """How files are compressed, "none" (default) or "s2"."""
    allow_msg_ttl: bool | None
    """Whether messages may carry their own time to live (server 2.11); default no."""
    allow_msg_schedules: bool | None
    """Whether it takes scheduled messages (server 2.12); default no."""
    allow_atomic: bool | None
    """Whether it takes atomic batches (server 2.12); default no."""
    allow_batched: bool | None
    """Whether it takes fast batches (server 2.14); default no."""
    allow_msg_counter: bool | None
    """Whether it is a counter (server 2.12); default no."""
    persist_mode: PersistMode | str | None
    """Whether a message is acknowledged after it was written ("default"), or before ("async")."""
    metadata: dict[str, str] | None
    """Texts by name, for your own use; default none."""
    consumer_limits: StreamConsumerLimits | None
    """Limits for its consumers; default none."""
    subject_delete_marker_ttl: float | timedelta | None
    """Seconds that a marker is left where the last message of a subject expired (server 2.11); default none."""
    max_messages: int | None
    """Another name for `max_msgs`."""
    max_messages_per_stream: int | None
    """Another name for `max_msgs`."""
    max_messages_per_subject: int
    """Another name for `max_msgs_per_subject`."""
    first_sequence: int | None
    """Another name for `first_seq`."""


class _ConsumerOptions(TypedDict, total=False):
    """The fields of `ConsumerConfig` that are no parameters of their own in any function."""

    durable_name: str | None
    """Its name, for a consumer that stays while it is not used; default none."""
    description: str | None
    """A text for people; default none."""
    opt_start_seq: int | None
    """The sequence for `by_start_sequence`."""
    opt_start_time: datetime | str | None
    """The time for `by_start_time`; without a zone it is local time."""
    ack_policy: AckPolicy | str | None
    """What is acknowledged; default "explicit"."""
    ack_wait: float | timedelta | None
    """Seconds until a message that is not acknowledged comes again; default 30."""
    max_deliver: int | None
    """How often a message comes; default without end."""
    backoff: Sequence[float | timedelta] | None
    """Seconds before each further delivery, instead of `ack_wait`; default none."""
    filter_subject: str | None
    """The subject that it delivers, wildcards allowed; default all."""
    filter_subjects: list[str] | str | None
    """Several subjects instead, which do not overlap; default all."""
    replay_policy: ReplayPolicy | str | None
    """How fast messages come, "instant" (default) or "original"."""
    rate_limit_bps: int | None
    """Push: most bits per second; default no limit."""
    sample_freq: str | None
    """How many of the acks are reported as events, for example "100%"; default none."""
    max_waiting: int | None
    """Pull: most requests that may wait at once; default 512."""
    max_ack_pending: int | None
    """Most messages that may be unacknowledged, -1 for no limit; default 1000."""
    deliver_subject: str | None
    """Push: the subject that messages go to; default none, a pull consumer."""
    deliver_group: str | None
    """Push: the queue group there; default none."""
    num_replicas: int | None
    """How many servers keep its state; default as the stream."""
    mem_storage: bool | None
    """Whether its state is kept in memory; default as the stream."""
    metadata: dict[str, str] | None
    """Texts by name, for your own use; default none."""
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
    """Pull: how the clients of the group share (server 2.11); default none."""
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
    """Its name; default the server makes one up."""


class NamedConsumerOptions(_ConsumerOptions, total=False):
    """The fields of `ConsumerConfig`, as keywords of `get_or_create_consumer`, which has `name` as a parameter."""

    deliver_policy: DeliverPolicy | str | None
    """Where it starts; default at the stream's beginning."""
    flow_control: bool | None
    """Push: whether the server waits for the client; default no."""
    idle_heartbeat: float | timedelta | None
    """Push: seconds between signs of life while there is nothing; default none."""
    headers_only: bool | None
    """Leave the data out; default no."""
    inactive_threshold: float | timedelta | None
    """Seconds without use after which it is removed; default 5 for an ephemeral one, else never."""


class ConsumerOptions(NamedConsumerOptions, total=False):
    """The fields of `ConsumerConfig`, as keywords; they win over the configuration that is given with them."""

    name: str | None
    """Its name; default the server makes one up."""
