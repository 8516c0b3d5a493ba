"""Options of JetStream's verbs, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from jetarrow.jetstream.config_options import ConsumerOptions as ConsumerOptions
from jetarrow.jetstream.config_options import NamedConsumerOptions as NamedConsumerOptions
from jetarrow.jetstream.config_options import PushConsumerOptions as PushConsumerOptions
from jetarrow.jetstream.config_options import StreamOptions as StreamOptions
from jetarrow.jetstream.priority import PriorityOptions
from jetarrow.jetstream.publish_headers import PublishExtras

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from jetarrow.core.session import Headers
    from jetarrow.jetstream.arrow import ArrowSchema
    from jetarrow.jetstream.literals import DecodeMode, OnDataLoss, OnRollback, PayloadFormat, TimestampUnit
    from jetarrow.jetstream.models import (
        ConsumerConfig,
        DeliverPolicy,
        ReplayPolicy,
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
    """Most unanswered messages of `publish` and `publish_async` together; default None, as many as the way to the
    server carries, and at least 5000."""
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


class BatchesOptions(PriorityOptions, total=False):
    """Options of a pull subscription's `batches`."""

    rows: int
    """Most rows of a batch; default 50,000."""
    seconds: float
    """A batch waits no longer for more rows; default 60."""
    bytes: int
    """Nor once its messages have this number of bytes; default 64 MiB."""
    columns: Sequence[str] | None
    """What is built; default stream, seq, subject, timestamp, headers, data."""


class ConsumerBatchesOptions(PriorityOptions, total=False):
    """Options of a consumer's `batches`."""

    rows: int | None
    """As in `BatchesOptions`; with it, `seconds` or `bytes` the batches are kept from redelivery; default none."""
    seconds: float | None
    """Likewise."""
    bytes: int | None
    """Likewise."""
    max_bytes: int | None
    """Without these three: most bytes of a batch, as the server counts them; default no limit."""
    timeout: float
    """Likewise: seconds after which a batch has what came until then; default 30."""
    min_messages: int
    """Likewise: rows worth waiting for; default 1."""
    columns: Sequence[str] | None
    """What is built; default stream, seq, subject, timestamp, headers, data."""


class PublisherOptions(TypedDict, total=False):
    """Options of `js.publisher`."""

    max_inflight: int | None
    """Most messages that are unanswered at once; default None, as many as the way to the server carries."""
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
    on_rollback: OnRollback
    """Where the server went back behind what was read: "fail" (default), "continue" or "earliest"."""


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
    mode: DecodeMode
    """What happens to malformed rows: "PERMISSIVE" (default), "DROPMALFORMED" or "FAILFAST"."""
    format: PayloadFormat
    """What payloads are, with a schema: "json" (default), or "arrow", streams of rows."""
    flatten: bool
    """The fields of `value` are columns of their own; default False."""
    limit: int | None
    """Most rows; default all."""
    batch_rows: int | None
    """Most rows of a batch; default 65536, and fewer in the first ones."""
    batch_bytes: int
    """A batch is cut when its messages have this number of bytes; default 16 MiB."""
    fetch_bytes: int
    """Most bytes on their way at a time, at most 32 MiB."""
    direct: bool | None
    """Read by direct gets instead of a consumer; default None, for work-queue and interest streams."""
    follow: bool
    """Goes on for ever with what comes; default False."""
    timestamp_unit: TimestampUnit
    """Unit of the timestamps: "ns" (default), or "us" for readers that know no nanoseconds."""
    on_data_loss: OnDataLoss
    """What is gone raises `DataLossError` with "error" (default); "warn" warns and reads what is left."""
    on_rollback: OnRollback
    """Where the server went back behind what was read: "fail" (default), "continue" or "earliest"."""
    progress: Progress | bool | None
    """Called with (sequences done, in all or None); True shows a bar on a terminal. Default none."""


class LatestOptions(TypedDict, total=False):
    """Options of `js.latest`."""

    columns: Sequence[str] | None
    """What is built, in this order; default stream, seq, subject, timestamp, headers, data."""
    schema: ArrowSchema | Mapping[str, Any] | str | None
    """Decodes JSON payloads: `data` gives way to `value` of it (Arrow, DDL, dict, "infer"); default none."""
    mode: DecodeMode
    """What happens to malformed rows: "PERMISSIVE" (default), "DROPMALFORMED" or "FAILFAST"."""
    format: PayloadFormat
    """What payloads are, with a schema: "json" (default), or "arrow", streams of rows."""
    flatten: bool
    """The fields of `value` are columns of their own; default False."""
    as_of_seq: int | None
    """The state when this was the last sequence; default now."""
    as_of_time: datetime | timedelta | str | None
    """Instead of `as_of_seq`: the state right before this time; a timedelta or a span ("1h") is so long ago."""
    deleted: bool
    """Subjects whose last message is a deletion marker have a row too; default False."""
    limit: int | None
    """Most rows; default all."""
    batch_rows: int | None
    """Most rows of a batch; default 65536, and fewer in the first ones."""
    batch_bytes: int
    """A batch is cut when its messages have this number of bytes; default 16 MiB."""
    fetch_bytes: int
    """Most bytes on their way at a time, at most 32 MiB."""
    timestamp_unit: TimestampUnit
    """Unit of the timestamps: "ns" (default), or "us" for readers that know no nanoseconds."""
    progress: Progress | bool | None
    """Called with (sequences done, in all); True shows a bar on a terminal. Default none."""


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
