"""The native core. Not public: use the classes of `jetarrow` and `jetarrow.sync`."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from datetime import datetime
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, final

from typing_extensions import Buffer, CapsuleType, disjoint_base

from jetarrow.core import message as _message
from jetarrow.core import metadata as _metadata
from jetarrow.core.session import Session
from jetarrow.jetstream.models import PubAck

_T = TypeVar("_T")
_Payload: TypeAlias = Buffer | str
_Headers: TypeAlias = Mapping[str, str | list[str]]

__all__ = [
    "Array",
    "Batch",
    "Bridge",
    "Call",
    "Connection",
    "ContentIds",
    "Decompressor",
    "Entries",
    "FailedRow",
    "Ids",
    "Loss",
    "Missed",
    "Msg",
    "Notices",
    "PoolServer",
    "PublishOutcome",
    "Publisher",
    "PullSubscription",
    "Reader",
    "Subjects",
    "Subscription",
    "SyncMsg",
    "TableMessages",
    "__debug_build__",
    "__version__",
    "check_name",
    "check_subject",
    "connect",
    "force_panic",
    "key_subjects",
    "last_words",
    "schema_of_payload",
]

# The module

__version__: str
__debug_build__: bool
"""True for a build without optimisation: benchmarks refuse to run on it."""

def connect(options: Mapping[str, object], notices: Notices | None) -> Call[Connection]:
    """Open a connection.

    Args:
        options: Every option by its name, as `jetarrow.aio._options` checks and completes them.
        notices: Takes the connection's events; None in `jetarrow.sync`, where none are reported.

    Returns:
        A call for the connection.

    Raises:
        ValueError: An option has a wrong value.
        TypeError: An option has a wrong type.
    """

def key_subjects(prefix: str, keys: Sequence[str] | object, validate: bool) -> Subjects:
    """Put a prefix before each key of a key-value bucket.

    Args:
        prefix: What the subjects begin with.
        keys: A sequence of str, or anything with an Arrow column of strings.
        validate: Look at the keys.

    Returns:
        The column.

    Raises:
        TypeError: The keys are of another type.
    """

def schema_of_payload(payload: bytes | None) -> CapsuleType | None:
    """Read the schema of a payload that is an Arrow stream.

    Args:
        payload: The payload; None stands for the schema without columns.

    Returns:
        The schema, in a capsule; None where the payload is no Arrow stream.
    """

def check_name(what: str, name: str) -> None:
    """Check the name of a stream or consumer, which becomes one token of an API subject.

    Args:
        what: "stream" or "consumer", for the error.
        name: The name.

    Raises:
        ValueError: It is empty, or has white space, control characters, dots, wildcards or path separators.
    """

def check_subject(subject: str) -> None:
    """Check a subject that is to be published to.

    Args:
        subject: The subject.

    Raises:
        BadSubjectError: It has white space, control characters, empty tokens or wildcards, or is too long.
    """

def last_words(connections: list[Connection], timeout: float) -> Call[None] | None:
    """Wait, at the end of the process, until the servers have all that was sent, or nothing moves any more.

    Args:
        connections: Those that are still there; what those had to send that are gone is waited for too.
        timeout: Most seconds to wait.

    Returns:
        A call, or None where there is nothing to wait for.
    """

def force_panic(spot: str) -> None:
    """Have the next task that comes to a spot panic there: for tests, in debug builds only.

    Args:
        spot: Name of the spot, as in `rust/src/task.rs`.

    Raises:
        ValueError: There is no such spot.
    """

# Waiting

@final
class Call(Generic[_T]):
    """One piece of work: started once, then awaited or waited for."""

    def start(self, event_loop: asyncio.AbstractEventLoop, bridge: Bridge) -> asyncio.Future[_T]:
        """Start the work.

        Args:
            event_loop: The loop that the future is for.
            bridge: That loop's mailbox.

        Returns:
            A future that `bridge` resolves.

        Raises:
            RuntimeError: It was started before.
        """

    def block(self) -> _T:
        """Do the work while this thread waits, the GIL released. Ctrl-C ends it.

        Returns:
            The result.

        Raises:
            RuntimeError: It was started before.
        """

    def cancel(self) -> None:
        """End work that was started; its future is the caller's to cancel."""

@final
class Bridge:
    """One event loop's mailbox: native results wake the loop once for many."""

    def __new__(cls) -> Bridge: ...
    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when `drain` has something to do."""

    def wake_with(self, wake: Callable[[], object]) -> None:
        """Wake a loop without `add_reader` in another way.

        Args:
            wake: Called from any thread when `drain` has something to do.
        """

    def drain(self) -> None:
        """Resolve every future that is due. Runs in the loop's thread."""

    def watch_loop(self, selector: int, ready: Sized, scheduled: Sized, clock: Callable[[], float]) -> None:
        """Show `linger` what an event loop of asyncio's has to do.

        Args:
            selector: Descriptor of its selector.
            ready: Its queue of handles that are due.
            scheduled: Its heap of timers.
            clock: Its clock, in seconds.
        """

    def linger(self) -> None:
        """Wait here for the next result, at most 2 ms, where the loop has nothing else to do. Runs in its thread.

        Whoever awaits a short round trip calls it: this thread then drives the connection, and no result changes
        threads.
        """

@final
class Notices:
    """The events of a connection, on their way to the user's callbacks.

    Args:
        sink: Called in the event loop with the kind of event (error, disconnected, reconnected, closed,
            discovered_server, lame_duck_mode) and, for an error, the exception.
        bridge: The loop's mailbox.
        in_loop: False where a thread of its own drains the bridge: the functions given to `connect` do not run there.
    """

    def __new__(
        cls, sink: Callable[[str, Exception | None], None], bridge: Bridge, *, in_loop: bool = True
    ) -> Notices: ...
    def wake(self) -> None:
        """Wake whoever drains the bridge."""

    def deliver(self) -> None:
        """Call the sink now for what has come so far."""

# The connection

@final
class PoolServer:
    """One server that a connection may use."""

    @property
    def url(self) -> str:
        """Its address, without user and password."""

    @property
    def failures(self) -> int:
        """Failed attempts to connect since the last success."""

    @property
    def discovered(self) -> bool:
        """True where another server announced it."""

@final
class Connection:
    """A connection, its state and its verbs."""

    # State

    @property
    def is_connected(self) -> bool:
        """True while the link is up."""

    @property
    def is_closed(self) -> bool:
        """True once no reconnect is tried any more."""

    @property
    def max_payload(self) -> int:
        """The server's limit for one message, in bytes, headers counted."""

    @property
    def server_version(self) -> str:
        """Version of the server."""

    @property
    def client_id(self) -> int:
        """The number that the server gave this connection."""

    @property
    def client_ip(self) -> str:
        """Our address as the server sees it."""

    @property
    def server_info(self) -> dict[str, Any]:
        """The server's INFO, by the names of the protocol."""

    @property
    def connected_url(self) -> str | None:
        """Address of the server, without user and password; None while there is no connection."""

    @property
    def servers(self) -> list[PoolServer]:
        """Every server that may be connected to."""

    @property
    def last_error(self) -> Exception | None:
        """The last error that no call waited for."""

    @property
    def stats(self) -> dict[str, int]:
        """Counts so far: in_msgs, out_msgs, in_bytes and out_bytes (payloads only), reconnects, errors_received."""

    # Life

    def troubles(self) -> tuple[int, int]: ...
    def ack_latency(self) -> tuple[list[tuple[float, int]], int, float]: ...
    def force_reconnect(self) -> Call[None]:
        """Drop the link and connect anew, to another server where there are several."""

    def set_server_pool(self, servers: Sequence[str]) -> None:
        """Put another list of servers in the place of the present one, for the next reconnect.

        Args:
            servers: Addresses.

        Raises:
            BadAddressError: One is not an address, or has another transport than the connection.
        """

    def close(self, hurry: bool = False) -> Call[None]:
        """Send what is queued and end the connection.

        Args:
            hurry: Do not wait for a server that is slow. Default: False.
        """

    # Core publish

    def send(
        self,
        event_loop: asyncio.AbstractEventLoop | None,
        subject: str,
        payload: _Payload,
        reply: str | None,
        headers: _Headers | None,
    ) -> int:
        """Queue one message.

        Args:
            event_loop: Messages of one turn of this loop are sent together at its end; None sends at once.
            subject: Where to.
            payload: What.
            reply: Where an answer goes; an empty string is nowhere.
            headers: Read as nats-py does: names and values are trimmed.

        Returns:
            Bytes that are queued now.

        Raises:
            BadSubjectError: `subject` or `reply` is not valid.
            MaxPayloadError: The server does not take a message of this size.
            ConnectionClosedError: The connection is closed.
            OutboundBufferLimitError: `limit` is reached.
        """

    def kick(self) -> None:
        """Send what was queued in this turn of the loop."""

    def room(self, bytes: int) -> Call[None]:
        """Wait for room in the queue, or until the link is down.

        Args:
            bytes: Most that may still be queued.
        """

    @property
    def pending_bytes(self) -> int:
        """Payload bytes of core messages that are queued."""

    def flush(self, timeout: float | None) -> Call[None]:
        """Make a round trip through the server.

        Args:
            timeout: Most seconds.
        """

    # Requests

    def new_inbox(self) -> str:
        """Return a subject that is used nowhere else."""

    def request(self, subject: str, payload: bytes, timeout: float | None) -> Call[bytes]:
        """Ask the JetStream API.

        Args:
            subject: An API subject.
            payload: JSON, or nothing.
            timeout: Most seconds.

        Returns:
            A call for the payload of the answer.

        Raises:
            BadSubjectError: The subject is not valid.
        """

    def request_msg(
        self,
        session: Session,
        subject: str,
        payload: _Payload,
        *,
        timeout: float | None,
        headers: _Headers | None = None,
    ) -> Call[Msg]:
        """Send one request.

        Args:
            session: What the verbs of the answer go through.
            subject: Where to.
            payload: What.
            timeout: Most seconds.
            headers: As in `send`. Default: none.

        Returns:
            A call for the answer.

        Raises:
            BadSubjectError: The subject is not valid.
            MaxPayloadError: The server does not take a message of this size.
        """

    def request_future(
        self,
        event_loop: asyncio.AbstractEventLoop,
        bridge: Bridge,
        session: Session,
        subject: str,
        payload: _Payload,
        timeout: float | None,
        headers: _Headers | None,
    ) -> asyncio.Future[Msg]:
        """Send one request without a task for it.

        Args:
            event_loop: The loop that the future is for.
            bridge: That loop's mailbox.
            session: As in `request_msg`, like the rest.
            subject: Where to.
            payload: What.
            timeout: Most seconds.
            headers: As in `send`.

        Returns:
            A future.

        Raises:
            BadSubjectError: The subject is not valid.
            MaxPayloadError: The server does not take a message of this size.
            OutboundBufferLimitError: The link is down, and `pending_size` bytes are queued.
            ConnectionClosedError: The connection is closed.
        """

    def cancel_request(self, future: asyncio.Future[Msg]) -> None:
        """End a request of `request_future` whose future was cancelled: where it was not sent it never will be.

        Args:
            future: What `request_future` returned.
        """

    # Subscribing

    def subscribe(
        self,
        subject: str,
        *,
        queue: str | None,
        pending_messages: int,
        pending_bytes: int,
        kind: str,
        msg_class: type[_message.Common],
        bridge: Bridge | None = None,
        on_notice: Callable[[int, Missed | None], object] | None = None,
    ) -> Subscription:
        """Subscribe, before all that is asked of the connection from now on.

        Args:
            subject: What to; wildcards are allowed.
            queue: The queue group, if any.
            pending_messages: Most messages that wait; 0 is no limit.
            pending_bytes: Most bytes of them; 0 is no limit.
            kind: "core", "push" or "ordered".
            msg_class: Of which class its messages are.
            bridge: The mailbox of the loop in which `on_notice` is called. Default: it is not called.
            on_notice: Called with the number of messages that the limits made it drop and None, or with 0 and what was
                missed. Default: None.

        Returns:
            The subscription.

        Raises:
            BadSubjectError: The subject, or the name of the queue group, is not valid.
            ValueError: There is no such kind.
        """

    # JetStream: publishing

    def publish(
        self,
        subject: str,
        payload: _Payload,
        *,
        prefix: str,
        timeout: float | None,
        headers: _Headers | None = None,
    ) -> Call[PubAck]:
        """Publish one message and wait for its ack.

        Args:
            subject: Where to.
            payload: What.
            prefix: First tokens of the API's subjects.
            timeout: Most seconds.
            headers: As they are. Default: none.

        Returns:
            A call for the ack.

        Raises:
            BadSubjectError: The subject is not valid.
            BadHeaderError: A header is not valid.
            MaxPayloadError: The server does not take a message of this size.
        """

    def publish_batch(
        self,
        subject: object,
        payloads: object,
        *,
        prefix: str,
        headers: object,
        msg_ids: object,
        msg_ttl: str | None,
        expected_stream: str | None,
        mode: str,
        max_inflight: int,
        max_bytes: int,
        timeout: float,
        resend: bool | None,
        progress: Callable[[int, int | None], object] | None,
        first_row: int = 0,
        ignore_extra: bool = False,
    ) -> Call[PublishOutcome]:
        """Publish many messages.

        Args:
            subject: One for all rows, one per row (a sequence or an Arrow column), or None: the table has it.
            payloads: A sequence of bytes-like or str, or anything with the Arrow PyCapsule interface.
            prefix: Prefix of the JetStream API.
            headers: One dict for all rows, one per row, or None.
            msg_ids: One id (or None) per row, or None.
            msg_ttl: How long the messages are kept, as the server reads it.
            expected_stream: Refuse rows that another stream would take.
            mode: "window", "fast", "atomic" or "auto".
            max_inflight: Most rows that are unanswered at once.
            max_bytes: Most bytes of them; a larger row goes alone.
            timeout: Seconds that the server may be silent.
            resend: After a lost link: None sends rows with an id again within the stream's duplicate window, a bool
                forces it either way.
            progress: Called with rows done and, where it is known, rows in all.
            first_row: The number of the first row. All errors count rows from here: in their texts, in
                `FailedRow.row` and in `BatchError.row`. Default: 0.
            ignore_extra: Columns of a table that mean nothing here are left out, instead of refused.

        Returns:
            A call for what became of each row.

        Raises:
            ValueError: A wrong value; in a row, the exception has the attributes `row` (its number) and `reason` (the
                text without the row).
            TypeError: A wrong type.
            BadSubjectError: A subject is not valid.
            BadHeaderError: A header is not valid.
            MaxPayloadError: The server does not take a message of this size.
        """

    def publisher(
        self,
        bridge: Bridge,
        *,
        prefix: str,
        max_inflight: int,
        max_bytes: int | None,
        timeout: float,
        by_turn: bool,
        keep_failed: bool,
    ) -> Publisher:
        """Make a publisher for one event loop.

        Args:
            bridge: The loop's mailbox.
            prefix: Prefix of the JetStream API.
            max_inflight: Most messages that are unanswered at once.
            max_bytes: Most bytes of them; None is no limit.
            timeout: Seconds until a message without an answer fails.
            by_turn: Hand the messages of one turn of the loop over together, at its end.
            keep_failed: Keep failed futures for `take_failed`.

        Returns:
            The publisher.

        Raises:
            ValueError: `max_inflight` is 0, or `timeout` is no number of seconds.
        """

    # JetStream: receiving

    def pull_subscribe(self, prefix: str, stream: str, consumer: str) -> PullSubscription:
        """Make a subscription to a pull consumer. Nothing is sent.

        Args:
            prefix: Prefix of the JetStream API.
            stream: The stream's name.
            consumer: The consumer's name.

        Returns:
            The subscription.

        Raises:
            ValueError: A name is not valid.
        """

    def read(
        self,
        prefix: str,
        stream: str,
        *,
        start_seq: int | None,
        end_seq: int | None,
        start_time: str | None,
        end_time: str | None,
        subjects: Sequence[str],
        follow: bool,
        columns: Sequence[str] | None,
        batch_rows: int,
        batch_bytes: int,
        fetch_bytes: int,
        microseconds: bool,
        warn_on_loss: bool,
        direct: bool | None,
        schema: object | None,
        mode: str,
        timeout: float | None,
        latest: bool = False,
        markers: bool = True,
        bucket: str | None = None,
        flatten: bool = False,
        limit: int | None = None,
        format: str = "json",
    ) -> Call[Reader]:
        """Open a read of a range of a stream.

        Args:
            prefix: Prefix of the JetStream API.
            stream: The stream's name.
            start_seq: First sequence; None begins with the first message.
            end_seq: One past the last sequence; None ends with the last message at opening.
            start_time: Instead of `start_seq`: the first message at or after it, in RFC 3339.
            end_time: Instead of `end_seq`, exclusive too.
            subjects: Filters; none is all.
            follow: Go on with new messages, without end.
            columns: Columns of the batches; None is the default ones.
            batch_rows: Most rows of a batch.
            batch_bytes: Most bytes of a batch.
            fetch_bytes: Most bytes outstanding at the server.
            microseconds: Timestamps in microseconds, not nanoseconds.
            warn_on_loss: A loss is an item of the reader, not an error.
            direct: By direct gets, not by a consumer; None where a consumer would take the messages away.
            schema: Decode `data` as JSON into columns of this schema, anything with an Arrow schema; None does not.
            mode: "PERMISSIVE", "DROPMALFORMED" or "FAILFAST": what becomes of payloads that cannot be decoded.
            timeout: Seconds that the answer to one question to JetStream may take.
            latest: Only the last message of each subject, as of the end.
            markers: With `latest`: deletion markers too.
            bucket: What the subjects of a key-value bucket begin with: the columns are those of its entries.
            flatten: The fields of `schema` are columns of their own.
            limit: Most rows; None is all.
            format: "arrow": with `schema` every payload is an Arrow stream with rows of these columns.

        Returns:
            A call for the reader.

        Raises:
            ValueError: A wrong value.
            TypeError: `schema` is no schema.
            BadSubjectError: A filter is not valid.
        """

    # Key-value

    def get_entry(self, entries: Entries, subject: str, payload: bytes, timeout: float | None) -> Call[Any]:
        """Make one direct get.

        Args:
            entries: How the entry is made.
            subject: The request's subject.
            payload: Its payload.
            timeout: Most seconds.

        Returns:
            A call for the entry, or for the number of the status that came in its place.
        """

    def get_entry_future(
        self,
        event_loop: asyncio.AbstractEventLoop,
        bridge: Bridge,
        entries: Entries,
        subject: str,
        payload: bytes,
        timeout: float | None,
    ) -> asyncio.Future[Any]:
        """Make one direct get, as a future of the loop; see `request_future`."""

    # JetStream: acknowledging

    def ack_one(
        self,
        event_loop: asyncio.AbstractEventLoop | None,
        reply: str,
        kind: str,
        *,
        delay: float | None = None,
        reason: str | None = None,
    ) -> None:
        """Queue one ack.

        Args:
            event_loop: As in `send`.
            reply: The message's reply subject.
            kind: "ack", "nak", "in_progress" or "term".
            delay: For a nak: seconds until the message is delivered again. Default: at once.
            reason: For a term: what the server's advisory says. Default: nothing.

        Raises:
            BadSubjectError: `reply` is not valid.
            ConnectionClosedError: The connection is closed.
            ValueError: There is no such kind, or `delay` is no number of seconds.
        """

    def ack(
        self,
        replies: Sequence[str],
        kind: str,
        *,
        delay: float | None = None,
        reason: str | None = None,
        confirm: float | None = None,
    ) -> Call[None]:
        """Send one ack to each reply subject.

        Args:
            replies: Reply subjects of messages.
            kind: As in `ack_one`, like `delay` and `reason`.
            delay: For a nak. Default: at once.
            reason: For a term. Default: nothing.
            confirm: Wait up to this many seconds for the server's word on each. Default: do not wait for it.

        Returns:
            A call that ends when all are sent, or confirmed.

        Raises:
            BadSubjectError: A reply subject is not valid.
            ValueError: There is no such kind, or a number of seconds is none.
        """

    def ack_rows(
        self,
        batch: Batch,
        kind: str,
        rows: Iterable[int] | Iterable[bool] | None,
        *,
        delay: float | None = None,
        reason: str | None = None,
        confirm: float | None = None,
    ) -> Call[None]:
        """Send one ack for each chosen row of a batch.

        Args:
            batch: Fetched messages.
            kind: As in `ack_one`, like `delay` and `reason`.
            rows: Row numbers or a mask (also an Arrow one); None is all rows.
            delay: For a nak. Default: at once.
            reason: For a term. Default: nothing.
            confirm: As in `ack`. Default: do not wait.

        Returns:
            A call that ends when all are sent, or confirmed.

        Raises:
            IndexError: There is no such row.
            ValueError: The mask has another length, or the messages were read without a consumer that takes acks.
        """

# Publishing

@final
class FailedRow:
    """A row that was not stored."""

    @property
    def row(self) -> int:
        """Its number, counted from `first_row`."""

    @property
    def error(self) -> Exception:
        """Why. Where the text begins with the row, it has the attributes `row` and `reason` (the text without it)."""

@final
class PublishOutcome:
    """What became of every row of a batch. As an Arrow producer: columns row, seq, status and error."""

    @property
    def stream(self) -> str | None:
        """The stream that took the rows; None where there were several, or none."""

    @property
    def count(self) -> int:
        """Rows given."""

    @property
    def stored(self) -> int:
        """Rows that were stored."""

    @property
    def duplicates(self) -> int | None:
        """Rows whose id the stream knew; None where the server does not say."""

    @property
    def seqs(self) -> Array:
        """The stream sequence of each row; null where there is none."""

    def errors(self) -> list[FailedRow]:
        """Return the rows that were not stored, in order."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...

@final
class Publisher:
    """A publish loop fed message by message, for one event loop."""

    def publish(
        self,
        event_loop: asyncio.AbstractEventLoop,
        subject: str,
        payload: _Payload,
        headers: _Headers | None,
        msg_id: str | None,
        timeout: float | None,
    ) -> asyncio.Future[PubAck] | None:
        """Queue one message.

        Args:
            event_loop: The loop that the future is for.
            subject: Where to.
            payload: What.
            headers: As they are; None is none.
            msg_id: Its id; None is none.
            timeout: Seconds until it fails without an answer; None is the publisher's.

        Returns:
            A future for its ack, or None where there is no room.

        Raises:
            BadSubjectError: The subject is not valid.
            BadHeaderError: A header is not valid.
            MaxPayloadError: The server does not take a message of this size.
        """

    def full(self) -> bool:
        """Return whether the next message has to wait."""

    def hand_over(self) -> None:
        """Hand over what was published in this turn of the loop."""

    def room(self, event_loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Wait for room.

        Args:
            event_loop: The loop that the future is for.

        Returns:
            A future that resolves when some message has got its answer.
        """

    @property
    def pending(self) -> int:
        """Messages that have no answer yet."""

    @property
    def pending_bytes(self) -> int:
        """Bytes of them."""

    @property
    def stored(self) -> int:
        """Messages stored so far."""

    @property
    def duplicates(self) -> int:
        """Messages so far whose id the stream knew."""

    @property
    def errors(self) -> int:
        """Messages that failed so far."""

    def take_failed(self) -> list[asyncio.Future[PubAck]]:
        """Return the futures that failed since the last call."""

@final
class ContentIds:
    """Message ids made of what messages say: the same rows, in any order, have the same ids.

    Args:
        scope: Names the rows that may be taken for each other; rows of another scope have other ids. None: only rows
            with an id of their own have one.
    """

    def __new__(cls, scope: bytes | None) -> ContentIds: ...
    def column(self, table: object, subject: str | None = None) -> Ids:
        """Make one id per row.

        Args:
            table: One Arrow table: `data`, and `subject`, `headers`, `msg_id` where it has them.
            subject: Instead of the column. Default: the column.

        Returns:
            The ids. A row's own `msg_id` stays; a row without data has none.

        Raises:
            TypeError: It is no Arrow table, or a column has another type.
            ValueError: There is no column `data`.
        """

    def forget(self) -> None:
        """Forget the rows that were not seen since the last call."""

@final
class TableMessages:
    """A table's rows as messages, made when they are asked for: an Arrow stream of what `publish_batch` takes.

    Args:
        table: Any Arrow data with columns.
        columns: The columns of the payload; None is all.
        subject: A subject, or a template of columns; None is the column `subject`.
        msg_id: A column, "content", or None.
        nulls: Whether null fields are written.
        arrow: For Arrow messages: the compression, and most rows and bytes of each. None makes each row JSON.

    Raises:
        TypeError: It is no table, or a column has a type that has no JSON.
        ValueError: A column is missing, or the template is wrong.
        BadSubjectError: The subject is wrong whatever the columns hold.
    """

    def __new__(
        cls,
        table: object,
        *,
        columns: list[str] | None,
        subject: str | None,
        msg_id: str | None,
        nulls: bool,
        arrow: tuple[str | None, int, int] | None = None,
    ) -> TableMessages: ...
    def __len__(self) -> int:
        """Return how many messages there are.

        Raises:
            ValueError: The table is a stream, or messages have many rows.
        """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the messages, once.

        Raises:
            ValueError: They were taken already.
        """

@final
class Ids:
    """A column of strings; any Arrow library takes it without a copy."""

    def __len__(self) -> int: ...
    @property
    def repeated(self) -> tuple[int, str] | None:
        """The first row whose own id an earlier row had, and that id; None where there is none."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...

# Receiving

@final
class Entries:
    """How the entries of a key-value bucket are made.

    Args:
        class_: Their class.
        bucket: Their bucket.
        hidden: How many bytes of a subject come before the key.
    """

    def __new__(cls, class_: type, bucket: str, hidden: int) -> Entries: ...

@final
class Subjects:
    """A column of subjects."""

    invalid: int | None
    """The first row that is not valid, or null."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...

@final
class Missed:
    """Messages of a push consumer that did not come, as its heartbeat says."""

    @property
    def seq(self) -> int:
        """Stream sequence of the last message that came."""

    @property
    def consumer_seq(self) -> int:
        """Its consumer sequence."""

    @property
    def last_consumer_seq(self) -> int:
        """Consumer sequence of the last message that the server sent."""

@final
class Subscription:
    """A subscription: messages wait in it, within limits, until they are taken."""

    def set_origin(
        self,
        prefix: str,
        stream: str,
        consumer: str,
        *,
        filters: Sequence[str],
        headers_only: bool,
        after: int | None,
    ) -> None:
        """Say which consumer sends the messages, so that those which the connection cannot read are found.

        Args:
            prefix: First tokens of the API's subjects.
            stream: The stream.
            consumer: The consumer.
            filters: What it takes; none is all.
            headers_only: It leaves payloads out.
            after: The last sequence that is not for this subscription, where that is known.

        Raises:
            ValueError: A name or subject is not valid.
        """

    def take(self, session: Session, sid: int) -> Msg | None:
        """Take the next message.

        Args:
            session: What the message's verbs go through.
            sid: The subscription's number.

        Returns:
            The message, or None where none waits.
        """

    def take_entries(
        self, entries: Entries, after: int, deletes: bool, initial: int, most: int
    ) -> tuple[list[Any], int | None]:
        """Take the entries of a key-value bucket whose messages wait.

        Args:
            entries: How they are made.
            after: Messages up to this revision are passed over.
            deletes: Markers too.
            initial: How many messages of this consumer were there at its beginning.
            most: How many entries at most.

        Returns:
            The entries, and after how many of them the initial ones are over; None where they are not.
        """

    def ready(
        self, silence: float | None = None, wait: float | None = None
    ) -> Call[Literal["messages", "ended", "gap", "silent", "relinked", "late"]]:
        """Wait for a message.

        Args:
            silence: Most seconds without a sign of life, heartbeats included. Default: no limit.
            wait: Most seconds in all. Default: no limit.

        Returns:
            A call for why the wait is over: "messages", "ended", "gap" (a message of an ordered subscription is
            missing), "silent", "relinked" (of an ordered one, once after the link broke and came back) or "late".
        """

    def quiet(self, silence: float) -> Call[Literal["ended", "silent", "relinked"]]:
        """Wait until nothing comes any more, whether anybody takes what has come, or not.

        Args:
            silence: Most seconds without a sign of life, heartbeats included.

        Returns:
            A call for what it is: see `ready`.
        """

    def unsubscribe(self, limit: int = 0) -> None:
        """Take no more messages; those that wait stay.

        Args:
            limit: Only once this many have come. Default: now.
        """

    def drain(self, timeout: float) -> Call[None]:
        """Unsubscribe, and wait until what the server had sent has come.

        Args:
            timeout: Most seconds.
        """

    def emptied(self) -> Call[None]:
        """Wait until all messages were taken."""

    @property
    def pending_msgs(self) -> int:
        """Messages that wait."""

    @property
    def pending_bytes(self) -> int:
        """Payload bytes of them."""

    @property
    def delivered(self) -> int:
        """Messages that came so far, dropped ones counted."""

    @property
    def dropped(self) -> int:
        """Messages that the limits made it drop."""

    @property
    def last_seq(self) -> int:
        """Stream sequence of the last message in order, for ordered subscriptions; 0 before the first."""

@final
class PullSubscription:
    """The messages of a pull consumer, for whoever asks."""

    def fetch_batch(
        self,
        max_messages: int,
        *,
        max_bytes: int | None,
        timeout: float,
        min_messages: int,
        heartbeat: float | None,
        columns: Sequence[str] | None,
        group: tuple[str, int, int, int] | None = None,
    ) -> Call[Batch]:
        """Fetch messages as Arrow columns.

        Args:
            max_messages: Most messages.
            max_bytes: Most bytes; None is no limit.
            timeout: Most seconds.
            min_messages: Once this many are there it does not wait for more.
            heartbeat: Seconds between the server's signs of life; None is chosen by `timeout`.
            columns: Columns of the batch; None is the default ones.
            group: The priority group: its name, `min_pending`, `min_ack_pending` and `priority`. Default: none.

        Returns:
            A call for the batch.

        Raises:
            ValueError: A limit or a column is not valid.
        """

    def fetch(
        self,
        session: Session,
        sid: int,
        max_messages: int,
        *,
        max_bytes: int | None,
        timeout: float,
        min_messages: int,
        heartbeat: float | None,
        group: tuple[str, int, int, int] | None = None,
    ) -> Call[list[Msg]]:
        """Fetch messages one by one.

        Args:
            session: What their verbs go through, and which names their class.
            sid: Number of their subscription.
            max_messages: As in `fetch_batch`, like the rest.
            max_bytes: Most bytes.
            timeout: Most seconds.
            min_messages: Enough not to wait for more.
            heartbeat: Seconds between the server's signs of life.
            group: As in `fetch_batch`. Default: none.

        Returns:
            A call for the messages.

        Raises:
            ValueError: A limit is not valid.
        """

    @property
    def ack_window(self) -> int | None:
        """How many messages the consumer gives before it wants acks; None where the server has not said, or any."""

    def limit_request(self, most: int) -> None:
        """No request asks for more than this many messages.

        Args:
            most: How many.
        """

    def set_ack_window(self, most: int | None) -> None:
        """Tells what the server said of that.

        Args:
            most: Messages; None is any number.
        """

    def set_ways(self, wants_acks: bool, headers_only: bool) -> None:
        """Tells what the server said of the consumer.

        Args:
            wants_acks: Its ack policy is another one than "none".
            headers_only: It leaves payloads out.
        """

    def put_back(self, messages: Sequence[Msg]) -> Call[None]:
        """Take back messages that nobody has got.

        Args:
            messages: Messages of this subscription, in their order.

        Returns:
            A call that gives them back to the server where the consumer wants acks; otherwise the next call has them.
        """

    def put_back_rows(self, batch: Batch) -> Call[None]:
        """The same with a batch.

        Args:
            batch: A batch of this subscription.

        Returns:
            As `put_back`.
        """

    def give_back(self) -> None:
        """Give back what came too late for its call, and what is still to come."""

@final
class Decompressor:
    """Decompresses the payloads of batches, one after another.

    Args:
        codec: "zlib" (also with a gzip header) or "zstd".
        max_payload_bytes: Most bytes that one payload may stand for, up to 512 MiB.
        batch_bytes: A batch of what came out ends with the payload that has it at this many bytes, up to 512 MiB.

    Raises:
        ValueError: There is no such codec.
    """

    def __new__(cls, codec: str, *, max_payload_bytes: int, batch_bytes: int) -> Decompressor: ...
    def rows(self, batch: Batch, start: int) -> tuple[Batch, list[tuple[int, bool]]]:
        """Decompress some rows.

        Args:
            batch: Rows with `data`.
            start: The first row.

        Returns:
            The rows from there on until a batch is full; and those among them whose payload stayed as it was: their
            number in the new batch, and whether it stands for too many bytes (else it is not compressed so).

        Raises:
            ValueError: There is no `data`.
        """

@final
class Loss:
    """Messages that a read asked for and that the stream no longer has. Its `str` says so, and what to do about it.

    Args:
        stream: The stream's name.
        asked: The range that was asked for: first sequence, and one past the last.
        available: The first sequence that can still be read.
    """

    def __new__(cls, stream: str, asked: tuple[int, int], available: int) -> Loss: ...
    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def asked(self) -> tuple[int, int]:
        """The range that was asked for, as in `DataLossError.asked`."""

    @property
    def available(self) -> int:
        """The first sequence that can still be read."""

    @property
    def summary(self) -> str:
        """The text without what to do about it."""

    def __eq__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[str, tuple[int, int], int]: ...

@final
class Reader:
    """Reads a range of a stream. As an Arrow producer it is the rest of the range, without losses that only warn."""

    @property
    def start(self) -> int:
        """The first sequence that is read."""

    @property
    def end(self) -> int:
        """One past the last sequence that is read."""

    @property
    def created(self) -> str:
        """When the stream was created, as the server writes it."""

    def next(self) -> Call[Batch | Loss | None]:
        """Read on.

        Returns:
            A call for the next batch, a loss that is only to be warned about, or None at the end.
        """

    def close(self) -> Call[None]:
        """Stop reading and remove the consumer."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType: ...

@final
class Batch:
    """Messages in columns."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory."""

    @property
    def seqs(self) -> Array:
        """The stream sequence of each row."""

    @property
    def column_names(self) -> list[str]:
        """Names of its columns, in order."""

    def message(self, session: Session, index: int) -> Any:
        """Make one row a message; what the batch does not hold is empty.

        Args:
            session: What the message's verbs go through.
            index: Number of the row; below 0 it counts from the end.

        Returns:
            The message.

        Raises:
            IndexError: There is no such row.
        """

    def payload(self) -> bytes:
        """Return the payloads of all rows, one after the other; nothing where there is no column `data`."""

    def decode(self, schema: object, mode: str) -> Batch:
        """Decode `data` from JSON.

        Args:
            schema: Anything with an Arrow schema.
            mode: As in `Connection.read`.

        Returns:
            The rows with `value` in the place of `data`.

        Raises:
            ValueError: The schema has a type that cannot be decoded, or there is no `data`.
            TypeError: `schema` is no schema.
            DecodeError: A payload cannot be decoded, and the mode is "FAILFAST".
        """

    def filter(self, mask: object) -> Batch:
        """Choose rows.

        Args:
            mask: An Arrow array of booleans, as long as the batch.

        Returns:
            The rows where the mask is true.

        Raises:
            ValueError: The mask has another length or type.
        """

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...

class _MsgBase(_message.Common):
    """What a message says."""

    Ack: ClassVar[type[_metadata.Ack]]
    Metadata: ClassVar[type[_metadata.Metadata]]

    @property
    def header(self) -> dict[str, str] | None:
        """The same as `headers`."""

    @property
    def headers_all(self) -> dict[str, list[str]] | None:
        """Header name to all its values; None without headers."""

    @property
    def sid(self) -> int:
        """Number of the subscription that it came from.

        Raises:
            Error: It came from none.
        """

    @property
    def seq(self) -> int | None:
        """Sequence in the stream; None where it comes from no stream."""

    @property
    def stream(self) -> str | None:
        """Name of its stream; None, as what follows, where it comes from no stream."""

    @property
    def consumer(self) -> str | None:
        """Name of its consumer."""

    @property
    def stream_sequence(self) -> int | None:
        """Sequence in the stream, as `seq`."""

    @property
    def consumer_sequence(self) -> int | None:
        """Its number among the consumer's deliveries."""

    @property
    def delivered(self) -> int | None:
        """How often it was delivered, this time included."""

    @property
    def pending(self) -> int | None:
        """Messages of the consumer that are still to come."""

    @property
    def published(self) -> datetime | None:
        """When it was stored: in UTC, in microseconds."""

    @property
    def ack_subject(self) -> str | None:
        """The subject that its acks go to."""

    @property
    def redelivered(self) -> bool:
        """True when it was delivered before."""

    @property
    def metadata(self) -> _metadata.Metadata:
        """Where it stands in stream and consumer.

        Raises:
            NotJSMessageError: It comes from no stream.
        """

    @property
    def info(self) -> _metadata.Metadata:
        """The same as `metadata`."""

    @property
    def is_acked(self) -> bool:
        """True once `ack`, `ack_sync`, `nak` or `term` was called."""

@disjoint_base
class Msg(_MsgBase, _message.Awaited):
    """A message whose verbs are awaited."""

    def __new__(
        cls,
        _client: Any = None,
        subject: str = "",
        reply: str = "",
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        _metadata: _metadata.Metadata | None = None,
        _ackd: bool = False,
        _sid: int | None = None,
    ) -> Self: ...

class SyncMsg(_MsgBase, _message.Blocking):
    """A message whose verbs block."""

    def __new__(
        cls,
        _client: Any = None,
        subject: str = "",
        reply: str = "",
        data: bytes = b"",
        headers: dict[str, str] | None = None,
        _metadata: _metadata.Metadata | None = None,
        _ackd: bool = False,
        _sid: int | None = None,
    ) -> Self: ...

@final
class Array:
    """A column of 64-bit integers; any Arrow library takes it without a copy."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> int | None: ...
    def to_pylist(self) -> list[int | None]:
        """Return the values as a list."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...
