"""The blocking client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, cast

from jetarrow._jetarrow import Msg, SyncMsg
from jetarrow.client import Client as AsyncClient
from jetarrow.core.arguments import DEFAULT_SERVERS
from jetarrow.core.blocking_session import BlockingSession
from jetarrow.core.client import MessageClass
from jetarrow.core.session import Headers, run_to_completion
from jetarrow.core.status import Status
from jetarrow.sync.blocking import blocking, blocking_messages, forwarded, iterate_messages, with_signature_of, wrapped
from jetarrow.sync.context import JetStream
from jetarrow.sync.manager import JetStreamManager
from jetarrow.sync.subscription import Subscription, without_callbacks

if TYPE_CHECKING:
    from jetarrow.core.option_types import SubscribeOptions, SyncConnectOptions
    from jetarrow.jetstream.option_types import JetStreamOptions, ManagerOptions
    from jetarrow.sync.system import System
    from jetarrow.system.option_types import SystemOptions


class Client(Status):
    """As `jetarrow.aio.client.Client`, blocking, and a context manager. Thread-safe."""

    msg_class = MessageClass(SyncMsg)

    def __init__(self) -> None:
        self._session = BlockingSession()
        self._inner = AsyncClient(_session=self._session)
        self._session.set_client(self)
        if type(self).msg_class is not SyncMsg:
            self._session.msg_class = type(self).msg_class

    @with_signature_of(AsyncClient.connect)
    def connect(  # noqa: D102
        self, servers: str | list[str] = DEFAULT_SERVERS, **options: Unpack[SyncConnectOptions]
    ) -> None:
        given: Any = options
        run_to_completion(self._inner.connect(servers, **given))

    close = blocking(AsyncClient.close)
    request = blocking_messages(AsyncClient.request)
    flush = blocking(AsyncClient.flush)
    rtt = blocking(AsyncClient.rtt)
    drain = blocking(AsyncClient.drain)
    force_reconnect = blocking(AsyncClient.force_reconnect)

    @with_signature_of(AsyncClient.publish)
    def publish(  # noqa: D102
        self, subject: str, payload: bytes | str = b"", reply: str | None = "", headers: Headers | None = None
    ) -> None:
        # Not through a coroutine, which takes 17 % of the time of a publish.
        wait_for_room = self._session.send(subject, payload, reply, headers)
        if wait_for_room is not None:
            wait_for_room.block()

    @with_signature_of(AsyncClient.subscribe)
    def subscribe(self, subject: str, queue: str = "", **options: Unpack[SubscribeOptions]) -> Subscription:
        """As `jetarrow.aio.client.Client.subscribe`: no callbacks; iterate it with `for`."""
        return Subscription(run_to_completion(self._inner.subscribe(subject, queue, **without_callbacks(options))))

    @with_signature_of(AsyncClient.request_many)
    def request_many(  # noqa: D102
        self,
        subject: str,
        payload: bytes | str = b"",
        *,
        timeout: float = 1.0,
        max_messages: int | None = None,
        stall: float | None = None,
        sentinel: Callable[[SyncMsg], bool] | bool = False,
        headers: Headers | None = None,
    ) -> Iterator[SyncMsg]:
        answers = self._inner.request_many(
            subject,
            payload,
            timeout=timeout,
            max_messages=max_messages,
            stall=stall,
            # The session makes messages of the class `SyncMsg`.
            sentinel=cast("Callable[[Msg], bool] | bool", sentinel),
            headers=headers,
        )
        return iterate_messages(answers)

    new_inbox = forwarded(AsyncClient.new_inbox)

    @with_signature_of(AsyncClient.jetstream)
    def jetstream(self, **options: Unpack[JetStreamOptions]) -> JetStream:  # noqa: D102
        return JetStream(self._inner.jetstream(**options))

    @with_signature_of(AsyncClient.jsm)
    def jsm(self, **options: Unpack[ManagerOptions]) -> JetStreamManager:  # noqa: D102
        return JetStreamManager(self._inner.jsm(**options))

    jetstream_manager = wrapped(AsyncClient.jetstream_manager, JetStream)

    @with_signature_of(AsyncClient.system)
    def system(self, **options: Unpack[SystemOptions]) -> System:  # noqa: D102
        from jetarrow.sync.system import System

        return System(self._inner.system(**options))

    trace = blocking(AsyncClient.trace)

    set_server_pool = forwarded(AsyncClient.set_server_pool)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_to_completion(self._inner.__aexit__(kind, error, trace))


def connect(  # noqa: D103
    servers: str | list[str] = DEFAULT_SERVERS, **options: Unpack[SyncConnectOptions]
) -> Client:
    client = Client()
    client.connect(servers, **options)
    return client


# `help` shows the options, which are those of the method.
connect.__doc__ = Client.connect.__doc__
