"""Options of JetStream's verbs, as typed dictionaries: see `jetarrow.core.option_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from jetarrow.jetstream.config_options import ConsumerOptions as ConsumerOptions
from jetarrow.jetstream.config_options import NamedConsumerOptions as NamedConsumerOptions
from jetarrow.jetstream.config_options import PushConsumerOptions as PushConsumerOptions
from jetarrow.jetstream.config_options import StreamOptions as StreamOptions
from jetarrow.jetstream.priority import PriorityOptions
from jetarrow.jetstream.publish_headers import PublishExtras, TimeToLive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from os import PathLike

    from jetarrow.core.session import Headers
    from jetarrow.jetstream.arrow import ArrowSchema
    from jetarrow.jetstream.binary_schema import ProtobufSchema
    from jetarrow.jetstream.literals import (
        DecodeMode,
        OnDataLoss,
        OnRollback,
        PayloadFormat,
        TimestampNumbers,
        TimestampUnit,
    )
    from jetarrow.jetstream.models import (
        ConsumerConfig,
        DeliverPolicy,
        ReplayPolicy,
    )
    from jetarrow.jetstream.progress import Progress
    from jetarrow.jetstream.registry import SchemaRegistry


class ManagerOptions(TypedDict, total=False):
    """Options of `nc.jsm`."""

    prefix: str
    """First tokens of the API's subjects; default `$JS.API`."""
    timeout: float | None
    """Seconds that an API request or a `publish` may take; default 5, None waits without a limit."""
    domain: str | None
    """JetStream domain, instead of a prefix; default none."""
    api_prefix: str | None
    """Another name for `prefix`."""


class JetStreamOptions(ManagerOptions, total=False):
    """Options of `nc.jetstream` and `nc.jetstream_manager`."""

    publish_async_max_pending: int | None
    """Most unacknowledged messages of `publish` and `publish_async` together; default None, which sizes the window by
    the path to the server, at least 5000."""
    max_ack_inflight: int | None
    """Another name for `publish_async_max_pending`."""
    backpressure_on_inflight: bool
    """When the window is full, `publish_async` waits; False raises `MaxAckPendingError`. Default True."""
    ack_timeout: float
    """Seconds after which a `publish_async` without an ack fails; default 30."""


class PublishAsyncOptions(PublishExtras, total=False):
    """Options of the sync twin's `js.publish_async`."""

    wait_stall: float | None
    """Seconds to wait for room in the window; default None, without a limit."""
    stream: str | None
    """The stream that must store it; default any."""
    headers: Headers | None
    """Name to value, or to a list of values; default none."""
    msg_ttl: TimeToLive | None
    """Seconds after which the server deletes the message, or "never"; default the stream's `max_age`."""
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
    """Seconds to wait for the first message, with `no_wait` for the server's response; default 5."""
    heartbeat: float | None
    """Seconds between the server's heartbeats while it has no messages; default a quarter of `timeout`."""
    batch_size: int | None
    """Another name for `batch`."""
    max_messages: int | None
    """Another name for `batch`."""
    max_bytes: int | None
    """Most bytes of messages, as the server counts them; default no limit."""
    no_wait: bool
    """Only the messages that the server has now; default False."""


class PublisherPublishOptions(PublishExtras, total=False):
    """Options of the sync twin's `publisher.publish`."""

    subject: str | None
    """Default the publisher's."""
    headers: Headers | None
    """Name to value, or to a list of values; default none."""
    msg_id: str | None
    """The stream stores one message per id within its duplicate window; default none."""
    msg_ttl: TimeToLive | None
    """Seconds after which the server deletes the message, or "never"; default the stream's `max_age`."""
    expected_stream: str | None
    """The stream that must store it; default any."""
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
    """Seconds after which a batch ends with the rows that it has; default 60."""
    bytes: int
    """Bytes of messages at which a batch ends; default 64 MiB."""
    columns: Sequence[str] | None
    """Columns of the batches; default stream, seq, subject, timestamp, headers, data."""


class ConsumerBatchesOptions(PriorityOptions, total=False):
    """Options of a consumer's `batches`."""

    rows: int | None
    """As in `BatchesOptions`; with `rows`, `seconds` or `bytes` the batches are kept from redelivery; default none."""
    seconds: float | None
    """As `rows`."""
    bytes: int | None
    """As `rows`."""
    max_bytes: int | None
    """Without `rows`, `seconds` and `bytes`: most bytes of a batch, as the server counts them; default no limit."""
    timeout: float
    """As `max_bytes`: seconds after which a batch ends with the rows that it has; default 30."""
    min_messages: int
    """As `max_bytes`: rows before which a batch does not end early; default 1."""
    columns: Sequence[str] | None
    """Columns of the batches; default stream, seq, subject, timestamp, headers, data."""


class PublisherOptions(TypedDict, total=False):
    """Options of `js.publisher`."""

    max_inflight: int | None
    """Most unacknowledged messages; default None, which sizes the window by the path to the server."""
    max_bytes: int
    """Most bytes of unacknowledged messages, including subjects and headers; default 64 MiB."""
    backpressure: bool
    """When the window is full, `publish` waits; False raises `MaxAckPendingError`. Default True."""
    ack_timeout: float
    """Seconds after which a message without an ack fails; default 30."""
    durable: bool
    """Store the messages that wait in atomic batches (group commit); default False."""


class OrderedConsumerOptions(TypedDict, total=False):
    """Options of the sync twin's `js.ordered_consumer`."""

    start_seq: int | None
    """First sequence; default the first of the stream."""
    start_time: datetime | str | None
    """Instead of a sequence: the first message at or after this time (without a zone local time)."""
    deliver_policy: DeliverPolicy | str | None
    """Instead of either: "all", "new", "last" or "last_per_subject"; default all."""
    replay_policy: ReplayPolicy | str | None
    """"instant" (default), or "original": at the pace at which the messages were published."""
    headers_only: bool
    """Deliver messages without their payloads; default False."""
    on_rollback: OnRollback
    """Reaction to a stream that was rolled back behind the position: "fail" (default), "continue" or "earliest"."""


class ReadOptions(TypedDict, total=False):
    """Options of `js.read`."""

    start_seq: int | None
    """First sequence; default the first of the stream."""
    start_time: datetime | timedelta | str | None
    """Instead of a sequence: the first message at or after a time; a timedelta or span ("1h") counts back from now."""
    end_seq: int | None
    """One past the last sequence; default one past the stream's last sequence at opening."""
    end_time: datetime | timedelta | str | None
    """Instead of `end_seq`: the first message at or after this time is the first left out."""
    subjects: str | Sequence[str] | None
    """Filters, one or several that do not overlap; default all."""
    columns: Sequence[str] | None
    """Columns of the batches, in this order; default stream, seq, subject, timestamp, headers, data."""
    schema: ArrowSchema | Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None
    """Decodes payloads: `value` replaces `data` (Arrow schema, DDL, dict, "infer", or of the format); default none."""
    mode: DecodeMode
    """Handling of malformed rows: "PERMISSIVE" (default), "DROPMALFORMED" or "FAILFAST"."""
    format: PayloadFormat
    """Encoding of payloads that are decoded: "json" (default), "arrow" (IPC streams of rows), "avro" or "protobuf"."""
    registry: SchemaRegistry | str | None
    """Schema registry whose ids payloads begin with, its URL or a `jetarrow.SchemaRegistry`; default none."""
    flatten: bool
    """The fields of `value` are columns of their own; default False."""
    limit: int | None
    """Most rows; default all."""
    batch_rows: int | None
    """Most rows of a batch; default 65536, and fewer in the first ones."""
    batch_bytes: int
    """Bytes of messages at which a batch ends; default 16 MiB."""
    fetch_bytes: int
    """Most bytes requested and not yet received, at most 32 MiB."""
    direct: bool | None
    """Read by direct gets instead of a consumer; default None, for work-queue and interest streams."""
    follow: bool
    """Continues with new messages, without end; default False."""
    timestamp_unit: TimestampUnit
    """Unit of the timestamps: "ns" (default), or "us" for readers without support for nanoseconds."""
    time_zone: str
    """Zone of JSON texts without an offset, an IANA name or an offset; default "UTC"."""
    timestamp_numbers: TimestampNumbers | None
    """Unit of numbers in timestamp fields: "seconds", "millis", "micros", "nanos", or "error"; default None,
    the unit of an Arrow schema's field, else "error"."""
    on_data_loss: OnDataLoss
    """Missing messages raise `DataLossError` with "error" (default); "warn" warns and reads the rest."""
    on_rollback: OnRollback
    """Reaction to a stream that was rolled back behind the position: "fail" (default), "continue" or "earliest"."""
    progress: Progress | bool | None
    """Called with (sequences done, total or None); True shows a bar on a terminal. Default none."""


class LatestOptions(TypedDict, total=False):
    """Options of `js.latest`."""

    columns: Sequence[str] | None
    """Columns of the batches, in this order; default stream, seq, subject, timestamp, headers, data."""
    schema: ArrowSchema | Mapping[str, Any] | str | PathLike[str] | ProtobufSchema | type | None
    """Decodes payloads: `value` replaces `data` (Arrow schema, DDL, dict, "infer", or of the format); default none."""
    mode: DecodeMode
    """Handling of malformed rows: "PERMISSIVE" (default), "DROPMALFORMED" or "FAILFAST"."""
    format: PayloadFormat
    """Encoding of payloads that are decoded: "json" (default), "arrow" (IPC streams of rows), "avro" or "protobuf"."""
    registry: SchemaRegistry | str | None
    """Schema registry whose ids payloads begin with, its URL or a `jetarrow.SchemaRegistry`; default none."""
    flatten: bool
    """The fields of `value` are columns of their own; default False."""
    as_of_seq: int | None
    """The state at the time when this was the last sequence; default now."""
    as_of_time: datetime | timedelta | str | None
    """Instead of `as_of_seq`: the state right before this time; a timedelta or a span ("1h") counts back from now."""
    deleted: bool
    """Whether subjects whose last message is a deletion marker have a row; default False."""
    limit: int | None
    """Most rows; default all."""
    batch_rows: int | None
    """Most rows of a batch; default 65536, and fewer in the first ones."""
    batch_bytes: int
    """Bytes of messages at which a batch ends; default 16 MiB."""
    fetch_bytes: int
    """Most bytes requested and not yet received, at most 32 MiB."""
    timestamp_unit: TimestampUnit
    """Unit of the timestamps: "ns" (default), or "us" for readers without support for nanoseconds."""
    time_zone: str
    """Zone of JSON texts without an offset, an IANA name or an offset; default "UTC"."""
    timestamp_numbers: TimestampNumbers | None
    """Unit of numbers in timestamp fields: "seconds", "millis", "micros", "nanos", or "error"; default None,
    the unit of an Arrow schema's field, else "error"."""
    progress: Progress | bool | None
    """Called with (sequences done, total); True shows a bar on a terminal. Default none."""


class BindOptions(TypedDict, total=False):
    """Options of the sync twin's `js.subscribe_bind`."""

    config: ConsumerConfig | str | None
    """The consumer's configuration, or its name; default None, which requests it from the server."""
    consumer: str | None
    """The consumer's name."""
    manual_ack: bool
    """Ignored: the sync face has no callbacks, so it acknowledges nothing automatically."""
    ordered_consumer: bool
    """All messages in order, without acks; default False."""
    pending_msgs_limit: int
    """Most buffered messages; default 524288."""
    pending_bytes_limit: int
    """Most bytes of buffered payloads; default 256 MiB."""


class PushSubscribeOptions(PushConsumerOptions, total=False):
    """Options of the sync twin's `js.subscribe`; those of `ConsumerConfig` are for a new consumer."""

    durable: str | None
    """Name of a durable consumer; default None, an ephemeral one that ends with the subscription."""
    stream: str | None
    """The stream; default None, looked up by the subject."""
    config: ConsumerConfig | None
    """Configuration of a new consumer; default none."""
    manual_ack: bool
    """Ignored: the sync face has no callbacks, so it acknowledges nothing automatically."""
    ordered_consumer: bool
    """All messages in order, without acks; default False."""
    idle_heartbeat: float | None
    """Seconds between heartbeats while there are no messages; default 5 for an ordered consumer."""
    flow_control: bool
    """The server pauses until the messages that it has sent were processed; default False."""
    pending_msgs_limit: int
    """Most buffered messages; default 524288."""
    pending_bytes_limit: int
    """Most bytes of buffered payloads; default 256 MiB."""
    deliver_policy: DeliverPolicy | str | None
    """First message to deliver; default the first of the stream."""
    headers_only: bool | None
    """Deliver messages without their payloads; default no."""
    inactive_threshold: float | None
    """Seconds without use after which the server removes it."""
