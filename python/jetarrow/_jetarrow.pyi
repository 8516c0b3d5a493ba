"""The native core. Not public: use the classes of `jetarrow` and `jetarrow.sync`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar, final

from jetarrow.core import metadata as _metadata
from jetarrow.core.session import Session
from jetarrow.jetstream.models import AckKind, PubAck

_T = TypeVar("_T")

__all__ = [
    "Array",
    "Batch",
    "Bridge",
    "Call",
    "Connection",
    "ContentIds",
    "Ids",
    "Msg",
    "Notices",
    "PublishOutcome",
    "Publisher",
    "PullSubscription",
    "Reader",
    "Subscription",
    "__debug_build__",
    "__version__",
    "connect",
    "force_panic",
    "lingering",
]
__version__: str
__debug_build__: bool

def connect(options: Mapping[str, object], notices: Notices | None) -> Call[Connection]: ...
def lingering(timeout: float) -> Call[None] | None:
    """Waits, at most `timeout` seconds, for what goes on although its owner is gone: messages on their way."""

def force_panic() -> Call[None]:
    """Panics inside native code: for tests, in debug builds only."""

@final
class Call(Generic[_T]):
    """One piece of work: started once, then awaited or waited for."""

    def start(self, event_loop: asyncio.AbstractEventLoop, bridge: Bridge) -> asyncio.Future[_T]: ...
    def block(self) -> _T: ...
    def cancel(self) -> None: ...

@final
class Bridge:
    """One event loop's mailbox."""

    def __new__(cls) -> Bridge: ...
    def fileno(self) -> int: ...
    def wake_with(self, wake: Callable[[], object]) -> None: ...
    def drain(self) -> None: ...

@final
class Notices:
    """What a connection tells on its own account: `sink` is called in the event loop with kind and error."""

    def __new__(cls, sink: Callable[[str, Exception | None], None], bridge: Bridge) -> Notices: ...
    def deliver(self) -> None: ...

@final
class Connection:
    @property
    def is_connected(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def max_payload(self) -> int: ...
    @property
    def server_version(self) -> str: ...
    @property
    def client_id(self) -> int: ...
    @property
    def client_ip(self) -> str: ...
    @property
    def connected_url(self) -> str | None: ...
    @property
    def servers(self) -> list[tuple[str, int, bool]]: ...
    @property
    def last_error(self) -> Exception | None: ...
    @property
    def stats(self) -> dict[str, int]: ...
    def force_reconnect(self) -> Call[None]: ...
    def set_server_pool(self, servers: Sequence[str]) -> None: ...
    def close(self, hurry: bool = False) -> Call[None]: ...
    def request(
        self,
        subject: str,
        payload: bytes,
        timeout: float,
    ) -> Call[bytes]: ...
    def request_msg(
        self,
        session: Session,
        subject: str,
        payload: object,
        *,
        timeout: float,
        headers: Mapping[str, str | list[str]] | None = None,
    ) -> Call[Msg]: ...
    def request_future(
        self,
        event_loop: asyncio.AbstractEventLoop,
        bridge: Bridge,
        session: Session,
        subject: str,
        payload: object,
        timeout: float,
        headers: Mapping[str, str | list[str]] | None,
    ) -> asyncio.Future[Msg] | None: ...
    def ack_one(
        self,
        event_loop: asyncio.AbstractEventLoop | None,
        reply: str,
        kind: str,
        *,
        delay: float | None = None,
        reason: str | None = None,
    ) -> None: ...
    def kick(self) -> None: ...
    def send(
        self,
        event_loop: asyncio.AbstractEventLoop | None,
        subject: str,
        payload: object,
        reply: str,
        headers: Mapping[str, str | list[str]] | None,
        limit: int,
    ) -> int: ...
    def room(self, bytes: int) -> Call[None]: ...
    def flush(self, timeout: float) -> Call[None]: ...
    def new_inbox(self) -> str: ...
    @property
    def pending_bytes(self) -> int: ...
    def subscribe(
        self,
        subject: str,
        *,
        queue: str | None,
        pending_messages: int,
        pending_bytes: int,
        kind: str,
        bridge: Bridge | None = None,
        on_notice: Callable[[int, tuple[int, int, int] | None], object] | None = None,
    ) -> Call[Subscription]: ...
    def publish(
        self,
        subject: str,
        payload: object,
        *,
        timeout: float,
        headers: Mapping[str, str | list[str]] | None = None,
    ) -> Call[tuple[str, int, bool, str | None]]: ...
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
        timeout: float,
        resend: bool | None,
        progress: Callable[[int, int | None], object] | None,
    ) -> Call[PublishOutcome]: ...
    def publisher(
        self,
        bridge: Bridge,
        *,
        max_inflight: int,
        max_bytes: int | None,
        timeout: float,
        by_turn: bool,
        keep_failed: bool,
    ) -> Publisher: ...
    def pull_subscribe(self, prefix: str, stream: str, consumer: str) -> PullSubscription: ...
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
    ) -> Call[Reader]: ...
    def ack_rows(
        self,
        batch: Batch,
        kind: str,
        rows: Iterable[int] | Iterable[bool] | None,
        *,
        delay: float | None = None,
        reason: str | None = None,
        confirm: float | None = None,
    ) -> Call[None]: ...
    def ack(
        self,
        replies: Sequence[str],
        kind: str,
        *,
        delay: float | None = None,
        reason: str | None = None,
        confirm: float | None = None,
    ) -> Call[None]: ...

@final
class PublishOutcome:
    @property
    def stream(self) -> str | None: ...
    @property
    def count(self) -> int: ...
    @property
    def stored(self) -> int: ...
    @property
    def duplicates(self) -> int | None: ...
    @property
    def seqs(self) -> Array: ...
    def errors(self) -> list[tuple[int, Exception]]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class Publisher:
    """A publish loop fed message by message, for one event loop."""

    def publish(
        self,
        event_loop: asyncio.AbstractEventLoop,
        subject: str,
        payload: object,
        headers: Mapping[str, str | list[str]] | None,
        msg_id: str | None,
        timeout: float | None,
    ) -> asyncio.Future[PubAck] | None: ...
    def full(self) -> bool: ...
    def hand_over(self) -> None: ...
    def room(self, event_loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]: ...
    @property
    def pending(self) -> int: ...
    @property
    def pending_bytes(self) -> int: ...
    @property
    def counts(self) -> tuple[int, int, int]: ...
    def take_failed(self) -> list[asyncio.Future[PubAck]]: ...

@final
class PullSubscription:
    def fetch_batch(
        self,
        max_messages: int,
        *,
        max_bytes: int | None,
        timeout: float,
        min_messages: int,
        heartbeat: float | None,
        columns: Sequence[str] | None,
    ) -> Call[Batch]: ...
    def fetch(
        self,
        session: Session,
        max_messages: int,
        *,
        max_bytes: int | None,
        timeout: float,
        min_messages: int,
        heartbeat: float | None,
    ) -> Call[list[Msg]]: ...

@final
class Reader:
    @property
    def range(self) -> tuple[int, int]: ...
    @property
    def created(self) -> str: ...
    def next(self) -> Call[Batch | str | None]: ...
    def close(self) -> Call[None]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Batch:
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def seqs(self) -> Array: ...
    @property
    def column_names(self) -> list[str]: ...
    def message(self, session: Session, index: int) -> Msg: ...
    def decode(self, schema: object, mode: str) -> Batch: ...
    def with_data(self, data: object) -> Batch: ...
    def filter(self, mask: object) -> Batch: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class Msg:
    """A message.

    Made by subscriptions; the constructor is for tests: client, subject, reply, payload, headers (name to value, or to
    a list of values). The ack verbs are for messages of a stream: each may be sent once, `in_progress` before that as
    often as needed. On the async face they are awaited, in `jetarrow.sync` they block.
    """

    def __new__(
        cls,
        _client: object | None = None,
        subject: str = "",
        reply: str = "",
        data: bytes | None = None,
        headers: Mapping[str, str | list[str]] | None = None,
    ) -> Msg: ...
    @property
    def subject(self) -> str:
        """What it was published to."""
    @property
    def reply(self) -> str:
        """Where an answer goes; for a message of a stream, where its acknowledgement goes."""
    @property
    def data(self) -> bytes:
        """The payload."""
    @property
    def headers(self) -> dict[str, str] | None:
        """Header name to its value, the last where there are several; None without headers."""
    @property
    def header(self) -> dict[str, str] | None:
        """The same as `headers`."""
    @property
    def headers_all(self) -> dict[str, list[str]] | None:
        """Header name to all its values; None without headers."""
    @property
    def seq(self) -> int | None:
        """Sequence in the stream; None where it comes from no stream."""
    @property
    def redelivered(self) -> bool:
        """True when it was delivered before."""
    @property
    def metadata(self) -> _metadata.Metadata:
        """Where it stands in stream and consumer. Raises `NotJSMessageError` where it comes from no stream."""
    def ack(self) -> Awaitable[None]:
        """It was processed and does not come again. Raises `MsgAlreadyAckdError`, `NotJSMessageError`."""
    def ack_sync(self, timeout: float = 1.0) -> Awaitable[None]:
        """The same, and waits up to `timeout` seconds for the server's word. Raises `TimeoutError` too."""
    def nak(self, delay: float | None = None) -> Awaitable[None]:
        """Gives it back: it is delivered again, after `delay` seconds (default at once)."""
    def in_progress(self) -> Awaitable[None]:
        """Work goes on: the time to acknowledge starts anew."""
    def term(self, reason: str | None = None) -> Awaitable[None]:
        """Gives it up: it is not delivered again. `reason` goes into the server's advisory."""
    Ack: ClassVar[type[_metadata.Ack]]
    Metadata: ClassVar[type[_metadata.Metadata]]
    @property
    def is_acked(self) -> bool:
        """True once `ack`, `ack_sync`, `nak` or `term` was called."""
    @property
    def sid(self) -> int:
        """Number of the subscription that it came from. Raises `Error` where it came from none."""
    @property
    def info(self) -> _metadata.Metadata:
        """The same as `metadata`."""
    def working(self) -> Awaitable[None]:
        """The same as `in_progress`."""
    def ack_with(self, kind: AckKind, *, delay: float | None = None, reason: str | None = None) -> Awaitable[None]:
        """The ack verb that `kind` names. `delay` (seconds) is for NAK, `reason` for TERM."""
    def respond(self, data: bytes | str) -> Awaitable[None]:
        """Publishes an answer to `reply`, with this message's headers. Raises `Error` without a reply subject."""

@final
class Array:
    """A column of 64-bit integers; any Arrow library takes it without a copy."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> int | None: ...
    def to_pylist(self) -> list[int | None]: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class ContentIds:
    """Message ids out of what messages say: the same rows, in any order, have the same ids.

    `scope` names the rows that may be taken for each other; rows of another scope have other ids.
    """

    def __new__(cls, scope: bytes) -> ContentIds: ...
    def column(self, table: object, subject: str | None = None) -> Ids:
        """One id per row of one Arrow table (`data`, and `subject`, `headers`, `msg_id` where it has them).

        A row's own `msg_id` stays; a row without data has none. `subject` wins over the column.
        """

    def forget(self) -> None:
        """Forgets the rows that were not seen since the last call."""

@final
class Ids:
    """A column of strings; any Arrow library takes it without a copy."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@final
class Subscription:
    def take(self, session: Session, sid: int) -> Msg | None: ...
    def ready(self, silence: float | None = None) -> Call[str]: ...
    def unsubscribe(self, limit: int = 0) -> None: ...
    def drain(self, timeout: float) -> Call[None]: ...
    def emptied(self) -> Call[None]: ...
    @property
    def counts(self) -> tuple[int, int, int, int]: ...
    @property
    def last_seq(self) -> int: ...
