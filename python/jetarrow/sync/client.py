"""A connection that blocks."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import jetarrow.core.client as aio_client
from jetarrow import _jetarrow
from jetarrow.core.session import finish
from jetarrow.core.status import Status
from jetarrow.sync.blocking import Connection, blocking, wrapped
from jetarrow.sync.context import JetStream
from jetarrow.sync.manager import JetStreamManager
from jetarrow.sync.subscription import Subscription, without_callbacks


class Client(Status):
    """As `jetarrow.aio.client.Client`, blocking, and a context manager. Many threads may share one."""

    def __init__(self) -> None:
        self._inner = Connection()

    connect = blocking(aio_client.Client.connect)
    close = blocking(aio_client.Client.close)
    publish = blocking(aio_client.Client.publish)
    request = blocking(aio_client.Client.request)
    flush = blocking(aio_client.Client.flush)
    rtt = blocking(aio_client.Client.rtt)
    drain = blocking(aio_client.Client.drain)
    force_reconnect = blocking(aio_client.Client.force_reconnect)

    def subscribe(self, subject: str, queue: str = "", **options: Any) -> Subscription:
        """As `jetarrow.aio.client.Client.subscribe`, without callbacks: iterate the subscription with `for`.

        Parameters:
            subject, queue, max_msgs, pending_msgs_limit, pending_bytes_limit: as there.

        Raises:
            TypeError: a callback or a future is given.
        """
        return Subscription(finish(self._inner.subscribe(subject, queue, **without_callbacks(options))))

    def new_inbox(self) -> str:
        """A subject that nobody else uses, for answers."""
        return self._inner.new_inbox()

    def jetstream(self, **options: Any) -> JetStream:
        """As `jetarrow.aio.client.Client.jetstream`, with the same options; the context blocks."""
        return JetStream(self._inner.jetstream(**options))

    def jsm(self, **options: Any) -> JetStreamManager:
        """As `jetarrow.aio.client.Client.jsm`, with the same options; the manager blocks."""
        return JetStreamManager(self._inner.jsm(**options))

    jetstream_manager = wrapped(aio_client.Client.jetstream_manager, JetStream)

    def set_server_pool(self, servers: list[str]) -> None:
        """As `jetarrow.aio.client.Client.set_server_pool`."""
        self._inner.set_server_pool(servers)

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
        finish(self._inner.__aexit__(kind, error, trace))


def connect(servers: str | list[str] = "nats://localhost:4222", **options: Any) -> Client:
    """Connects to NATS and returns the client.

    Takes the same options as `jetarrow.aio.client.Client.connect`, and raises the same errors; but callbacks raise
    TypeError, for nothing could run them. The other functions run in a thread of their own.
    """
    client = Client()
    client.connect(servers, **options)
    return client
