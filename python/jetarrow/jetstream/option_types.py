"""Options of JetStream's verbs, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from jetarrow.jetstream.expect import PublishExtras
from jetarrow.jetstream.priority import PriorityOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from jetarrow.core.session import Headers
    from jetarrow.jetstream.arrow import ArrowSchema
    from jetarrow.jetstream.models import (
        AckPolicy,
        ConsumerConfig,
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
    from jetarrow.jetstream.progress import Progress


class ManagerOptions(TypedDict, total=False):
    """Options of `nc.jsm`."""

    prefix: str
    """First tokens of the API's subjects; default `$JS.API`."""
    timeout: float | None
    """Seconds an API request, or a `publish`, may take; default 5, None is as long as it takes."""
    domain: str | None
    """JetStream domain, instead of a prefix; default none."""
    api_prefix: str | None
    """Another name for `prefix`."""


class JetStreamOptions(ManagerOptions, total=False):
    """Options of `nc.jetstream` and `nc.jetstream_manager`."""

    publish_async_max_pending: int | None
    """Most unanswered messages of `publish` and `publish_async` together; default 5000."""
    max_ack_inflight: int | None
    """Another name for `publish_async_max_pending`."""
    backpressure_on_inflight: bool
    """At that limit `publish_async` waits; False raises `MaxAckPendingError`. Default True."""
    ack_timeout: float
    """Seconds until a `publish_async` without an answer fails; default 30."""


class PublishAsyncOptions(PublishExtras, total=False):
    """Options of the sync twin's `js.publish_async`."""

    wait_stall: float | None
    """Seconds to wait for room; default None, as long as it takes."""
    stream: str | None
    """The stream that must take it; default any."""
    headers: Headers | None
    """Name to value, or to a list of values; default none."""
    msg_ttl: float | timedelta | str | None
    """Seconds until the message goes, or "never"; default the stream's `max_age`."""
    msg_id: str | None
    """The stream stores one message per id within its duplicate window; default none."""
    expected_stream: str | None
    """Another name for `stream`."""
    expected_last_seq: int | None
    """The stream's last sequence must be this; default any."""
    expected_last_subject_seq: int | None
    """The last sequence of the subject must be this, 0 for none; default any."""
    expected_last_msg_id: str | None
    """The last message's id must be this; default any."""


class FetchOptions(PriorityOptions, total=False):
    """Options of `js.fetch`."""

    timeout: float | None
    """Seconds to wait for the first message, with `no_wait` for the server's answer; default 5."""
    heartbeat: float | None
    """Seconds between the server's signs of life while it has nothing; default none."""
    batch_size: int | None
    """Another name for `batch`."""
    max_messages: int | None
    """Another name for `batch`."""
    max_bytes: int | None
    """Most bytes of messages, as the server counts them; default no limit."""
    no_wait: bool
    """Only what the server has now; default False."""


class PublisherPublishOptions(PublishExtras, total=False):
    """Options of the sync twin's `publisher.publish`."""

    subject: str | None
    """Default the publisher's."""
    headers: Headers | None
    """Name to value, or to a list of values; default none."""
    msg_id: str | None
    """The stream stores one message per id within its duplicate window; default none."""
    msg_ttl: float | timedelta | str | None
    """Seconds until the message goes, or "never"; default the stream's `max_age`."""
    expected_stream: str | None
    """The stream that must take it; default any."""
    expected_last_seq: int | None
    """The stream's last sequence must be this; default any."""
    expected_last_subject_seq: int | None
    """The last sequence of the subject must be this, 0 for none; default any."""
    expected_last_msg_id: str | None
    """The last message's id must be this; default any."""


class PublisherOptions(TypedDict, total=False):
    """Options of `js.publisher`."""

    max_inflight: int
    """Most messages that are unanswered at once; default 5000."""
    max_bytes: int
    """Most bytes of them, subjects and headers counted; default 64 MiB."""
    backpressure: bool
    """At the limit `publish` waits; False raises `MaxAckPendingError`. Default True."""
    ack_timeout: float
    """Seconds until a message without an answer fails; default 30."""


class OrderedConsumerOptions(TypedDict, total=False):
    """Options of the sync twin's `js.ordered_consumer`."""

    start_seq: int | None
    """First sequence; default the first there is."""
    start_time: datetime | str | None
    """Instead of a sequence: the first message at or after this time (without a zone local time)."""
    deliver_policy: DeliverPolicy | str | None
    """Instead of either: "all", "new", "last" or "last_per_subject"; default all."""
    replay_policy: ReplayPolicy | str | None
    """"instant" (default), or "original": at the pace at which the messages were published."""
    headers_only: bool
    """Leave the data out; default False."""


class ReadOptions(TypedDict, total=False):
    """Options of `js.read`."""

    start_seq: int | None
    """First sequence; default the first there is."""
    start_time: datetime | timedelta | str | None
    """Instead of a sequence: the first message at or after this time; a timedelta or a span ("1h") is so long ago."""
    end_seq: int | None
    """One past the last sequence; default one past the last at opening."""
    end_time: datetime | timedelta | str | None
    """Instead of `end_seq`: the first message at or after this time is the first left out."""
    subjects: str | Sequence[str] | None
    """Filters, one or several that do not overlap; default all."""
    columns: Sequence[str] | None
    """What is built, in this order; default stream, seq, subject, timestamp, headers, data."""
    schema: ArrowSchema | Mapping[str, Any] | str | None
    """Decodes JSON payloads: `data` gives way to `value` of it (Arrow, DDL, dict, "infer"); default none."""
    mode: str
    """What happens to malformed rows: "PERMISSIVE" (default), "DROPMALFORMED" or "FAILFAST"."""
    flatten: bool
    """The fields of `value` are columns of their own; default False."""
    limit: int | None
    """Most rows; default all."""
    batch_rows: int
    """Most rows of a batch; default 65536."""
    batch_bytes: int
    """A batch is cut when its messages have this number of bytes; default 16 MiB."""
    fetch_bytes: int
    """Most bytes on their way at a time, at most 32 MiB."""
    direct: bool | None
    """Read by direct gets instead of a consumer; default None, for work-queue and interest streams."""
    follow: bool
    """Goes on for ever with what comes; default False."""
    timestamp_unit: str
    """Unit of the timestamps: "ns" (default), or "us" for readers that know no nanoseconds."""
    on_data_loss: str
    """What is gone raises `DataLossError` with "error" (default); "warn" warns and reads what is left."""
    progress: Progress | bool | None
    """Called with (sequences done, in all or None); True shows a bar on a terminal. Default none."""


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


class BindOptions(TypedDict, total=False):
    """Options of the sync twin's `js.subscribe_bind`."""

    config: ConsumerConfig | str | None
    """The consumer's configuration, or its name; default None, which asks the server."""
    consumer: str | None
    """The consumer's name."""
    manual_ack: bool
    """Without effect here: there are no callbacks that could acknowledge."""
    ordered_consumer: bool
    """All messages in order, without acks; default False."""
    pending_msgs_limit: int
    """Most messages that may wait to be taken; default 524288."""
    pending_bytes_limit: int
    """Most payload bytes that may wait to be taken; default 256 MiB."""


class PushSubscribeOptions(PushConsumerOptions, total=False):
    """Options of the sync twin's `js.subscribe`; those of `ConsumerConfig` are for a new consumer."""

    durable: str | None
    """Name of a consumer that stays; default None, one that goes with the subscription."""
    stream: str | None
    """The stream; default None, found by the subject."""
    config: ConsumerConfig | None
    """Configuration of a new consumer; default none."""
    manual_ack: bool
    """Without effect here: there are no callbacks that could acknowledge."""
    ordered_consumer: bool
    """All messages in order, without acks; default False."""
    idle_heartbeat: float | None
    """Seconds between signs of life while there is nothing; default 5 for an ordered consumer."""
    flow_control: bool
    """The server waits until what it has sent was taken; default False."""
    pending_msgs_limit: int
    """Most messages that may wait to be taken; default 524288."""
    pending_bytes_limit: int
    """Most payload bytes that may wait to be taken; default 256 MiB."""
    deliver_policy: DeliverPolicy | str | None
    """Where it starts; default at the stream's beginning."""
    headers_only: bool | None
    """Leave the data out; default no."""
    inactive_threshold: float | None
    """Seconds without use after which it is removed."""


class KeyValueOptions(TypedDict, total=False):
    """The fields of `KeyValueConfig`, as keywords; they win over the configuration that is given with them."""

    bucket: str
    """Its name: letters, digits, `-` and `_`."""
    description: str | None
    """A text for people; default none."""
    max_value_size: int | None
    """Most bytes of one value; default no limit."""
    history: int
    """Revisions kept per key, 1 to 64; default 1."""
    ttl: float | timedelta | None
    """Seconds that a value lives; default for ever."""
    max_bytes: int | None
    """Most bytes of the whole; default no limit."""
    storage: StorageType | str | None
    """Where it is kept; default in files."""
    replicas: int
    """How many servers keep it; default 1."""
    placement: Placement | None
    """Which servers may keep it; default any."""
    republish: RePublish | None
    """What to publish again; default nothing."""
    direct: bool | None
    """Whether any replica may answer reads; default True."""
    limit_marker_ttl: float | timedelta | None
    """Seconds that a marker stays where a key expired; default no markers."""
    compression: StoreCompression | str | bool | None
    """True (or "s2") compresses what is kept in files; default no."""
    metadata: dict[str, str] | None
    """Texts by name, for your own use; default none."""
    mirror: StreamSource | None
    """The bucket that this one copies; default none."""
    sources: list[StreamSource] | None
    """Buckets that this one gathers; default none."""


class BucketReadOptions(TypedDict, total=False):
    """Options of `kv.read`."""

    mode: str
    """What happens to values that do not fit the schema: "PERMISSIVE" (default), "DROPMALFORMED" or "FAILFAST"."""
    batch_rows: int
    """Most rows of a batch; default 65536."""
    batch_bytes: int
    """A batch is cut when its values have this number of bytes; default 16 MiB."""
    timestamp_unit: str
    """Unit of the timestamps: "ns" (default), or "us" for readers that know no nanoseconds."""
    progress: Progress | bool | None
    """Called with (sequences done, in all); True shows a bar on a terminal. Default none."""
