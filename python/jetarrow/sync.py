"""The same names without `await`.

    import jetarrow.sync

    with jetarrow.sync.connect("nats://127.0.0.1:4222") as nc:
        js = nc.jetstream()
        js.publish_batch("events.new", [b"one", b"two"])

Every call blocks in native code with the GIL released and answers Ctrl-C. Works from any thread, and in a process that
was forked before `connect`. There is no second copy of anything: the coroutines of the async face only ever wait for
the connection, and here that blocks, so they run to their end at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import jetarrow.aio.client as aio_client
from jetarrow import _jetarrow, batch, publisher, read
from jetarrow._run import blocked, finish
from jetarrow.aio._status import Status
from jetarrow.aio.msg import Msg
from jetarrow.js import subscription
from jetarrow.js.client import JetStreamContext
from jetarrow.js.subscription import PullSubscription as AsyncPullSubscription

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow

    from jetarrow.js.api import PubAck

_P = ParamSpec("_P")
_T = TypeVar("_T")
_U = TypeVar("_U")

__all__ = ["Client", "JetStream", "MessageBatch", "Publisher", "PullSubscription", "Reader", "connect"]


class _Connection(aio_client.Client):
    """The async client, except that nothing ever suspends."""

    _blocks = True

    async def _run(self, call: _jetarrow.Call[_T], unwanted: object = None) -> _T:
        return await blocked(call)

    def _ack(self, reply: str, kind: str, **options: Any) -> Any:
        return finish(self._send_ack(reply, kind, **options))


def _blocking(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Any, _P], _T]:
    """A method of the async object in `_inner`, run to its end at once."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return finish(method(self._inner, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def _wrapped(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]], wrap: Callable[[_T], _U]
) -> Callable[Concatenate[Any, _P], _U]:
    """The same for a method whose result has a blocking twin."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _U:
        return wrap(finish(method(self._inner, *args, **kwargs)))

    functools.update_wrapper(call, method)
    return call


class MessageBatch(batch.Columns):
    """As `jetarrow.batch.MessageBatch`, blocking."""

    def __init__(self, inner: batch.MessageBatch) -> None:
        super().__init__(inner._nc, inner._native)
        self._inner = inner

    def decode(self, schema: object, mode: str = "PERMISSIVE") -> MessageBatch:
        """As `jetarrow.batch.MessageBatch.decode`."""
        return MessageBatch(self._inner.decode(schema, mode))

    ack = _blocking(batch.MessageBatch.ack)
    ack_sync = _blocking(batch.MessageBatch.ack_sync)
    nak = _blocking(batch.MessageBatch.nak)
    term = _blocking(batch.MessageBatch.term)
    in_progress = _blocking(batch.MessageBatch.in_progress)


class PullSubscription:
    """As the async one, blocking."""

    def __init__(self, inner: AsyncPullSubscription) -> None:
        self._inner = inner

    consumer_info = _blocking(AsyncPullSubscription.consumer_info)
    fetch = _blocking(AsyncPullSubscription.fetch)
    fetch_batch = _wrapped(AsyncPullSubscription.fetch_batch, MessageBatch)

    def messages(self) -> Iterator[Msg]:
        """All messages as they come, without end."""
        messages: list[Msg] = []
        number = 0
        try:
            while True:
                call = self._inner._fetch(subscription.AT_ONCE, timeout=subscription.PATIENCE)
                messages, number = finish(call), 0
                for msg in messages:
                    number += 1
                    yield msg
        finally:
            finish(self._inner._give_back(messages[number:]))


class Publisher:
    """As `jetarrow.publisher.Publisher`, blocking; use it with `with`. Its futures are `concurrent.futures.Future`."""

    def __init__(self, inner: publisher.Publisher) -> None:
        self._inner = inner

    flush = _blocking(publisher.Publisher.flush)

    def publish(
        self,
        payload: bytes | str,
        *,
        subject: str | None = None,
        headers: publisher.Headers | None = None,
        msg_id: str | None = None,
    ) -> Future[PubAck]:
        """As `jetarrow.publisher.Publisher.publish`."""
        call = self._inner.publish(payload, subject=subject, headers=headers, msg_id=msg_id)
        return cast("Future[PubAck]", finish(call))

    @property
    def pending(self) -> int:
        """Messages that have no answer yet."""
        return self._inner.pending

    @property
    def stats(self) -> publisher.Stats:
        """Counts so far: stored, duplicates, errors, pending, pending_bytes."""
        return self._inner.stats

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            finish(self._inner._finish())


class Reader:
    """As `jetarrow.read.Reader`, blocking: iterate it with `for`."""

    def __init__(self, inner: read.Reader) -> None:
        self._inner = inner

    read_all = _blocking(read.Reader.read_all)
    close = _blocking(read.Reader.close)

    @property
    def position(self) -> int | None:
        """The next sequence to be read; None before the first use of a reader without `start_seq`."""
        return self._inner.position

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema of the batches (needs pyarrow)."""
        return self._inner.schema

    def __arrow_c_schema__(self) -> object:
        return self._inner.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._inner.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[MessageBatch]:
        return self

    def __next__(self) -> MessageBatch:
        return MessageBatch(next(self._inner))

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class JetStream:
    """As `jetarrow.js.client.JetStreamContext`, blocking."""

    def __init__(self, inner: JetStreamContext) -> None:
        self._inner = inner

    add_stream = _blocking(JetStreamContext.add_stream)
    stream_info = _blocking(JetStreamContext.stream_info)
    delete_stream = _blocking(JetStreamContext.delete_stream)
    find_stream_name_by_subject = _blocking(JetStreamContext.find_stream_name_by_subject)
    add_consumer = _blocking(JetStreamContext.add_consumer)
    consumer_info = _blocking(JetStreamContext.consumer_info)
    publish = _blocking(JetStreamContext.publish)
    publish_batch = _blocking(JetStreamContext.publish_batch)
    publish_async_completed = _blocking(JetStreamContext.publish_async_completed)

    def publish_async(self, subject: str, payload: bytes | str = b"", **options: Any) -> Future[PubAck]:
        """As `jetarrow.js.client.JetStreamContext.publish_async`, with a future for any thread."""
        return cast("Future[PubAck]", finish(self._inner.publish_async(subject, payload, **options)))

    def publish_async_pending(self) -> int:
        """How many messages of `publish_async` have no answer yet."""
        return self._inner.publish_async_pending()

    def publisher(self, subject: str | None = None, **options: Any) -> Publisher:
        """As `jetarrow.js.client.JetStreamContext.publisher`, with the same options."""
        return Publisher(self._inner.publisher(subject, **options))

    pull_subscribe = _wrapped(JetStreamContext.pull_subscribe, PullSubscription)

    def ordered_consumer(
        self, stream: str, subjects: str | Sequence[str] | None = None, **options: Any
    ) -> Iterator[Msg]:
        """As `jetarrow.js.client.JetStreamContext.ordered_consumer`: iterate it with `for`."""
        with Reader(self._inner.ordered_consumer(stream, subjects, **options)._read()) as reader:
            for batch in reader:
                yield from batch

    def read(self, stream: str, **options: Any) -> Reader:
        """As `jetarrow.js.client.JetStreamContext.read`, with the same options; the reader blocks."""
        return Reader(self._inner.read(stream, **options))


class Client(Status):
    """As `jetarrow.aio.client.Client`, blocking, and a context manager. Many threads may share one."""

    def __init__(self) -> None:
        self._inner = _Connection()

    connect = _blocking(aio_client.Client.connect)
    close = _blocking(aio_client.Client.close)
    flush = _blocking(aio_client.Client.flush)
    rtt = _blocking(aio_client.Client.rtt)
    force_reconnect = _blocking(aio_client.Client.force_reconnect)

    def set_server_pool(self, servers: list[str]) -> None:
        """As `jetarrow.aio.client.Client.set_server_pool`."""
        self._inner.set_server_pool(servers)

    def new_inbox(self) -> str:
        """A subject that nobody else uses, for answers."""
        return self._inner.new_inbox()

    def jetstream(self, **options: Any) -> JetStream:
        """As `jetarrow.aio.client.Client.jetstream`, with the same options; the context blocks."""
        return JetStream(self._inner.jetstream(**options))

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def options(self) -> dict[str, Any]:
        """What `connect` was given, without secrets."""
        return self._inner.options

    def _seen(self) -> _jetarrow.Connection | None:
        return self._inner._seen()

    @property
    def _phase(self) -> str:
        return self._inner._phase

    @property
    def _error(self) -> Exception | None:
        return self._inner._error

    def _tls(self) -> Any:
        return self._inner._tls()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(servers: str | list[str] = "nats://localhost:4222", **options: Any) -> Client:
    """Connects to NATS and returns the client.

    Takes the same options as `jetarrow.aio.client.Client.connect`, and raises the same errors; but callbacks raise
    TypeError, for nothing could run them. The other functions run in a thread of their own.
    """
    client = Client()
    client.connect(servers, **options)
    return client
