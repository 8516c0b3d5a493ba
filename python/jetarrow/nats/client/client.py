"""Client: the connection of `jetarrow.Client` with the names of nats-core."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Self
from uuid import uuid4

from jetarrow.client import Client as NatsClient
from jetarrow.core import errors
from jetarrow.nats.client.errors import StatusError
from jetarrow.nats.client.message import Headers, Message, Status, message_of
from jetarrow.nats.client.server_info import ClientStatistics, ClientStatus, ServerInfo
from jetarrow.nats.client.subscription import Subscription

_log = logging.getLogger("jetarrow.callbacks")

# The text of nats-core for a status without a description.
NO_DESCRIPTION = "Unknown error"
_CLOSED = "Connection is closed"


class Client(AbstractAsyncContextManager["Client"]):
    """A connection to NATS. Made by `connect`, or from a client of nats-py's names: `Client(nc)`.

    Args:
        nc: The client whose connection it shares; it remains usable. The attribute `nc` has it, with all verbs of
            jetarrow.
    """

    def __init__(self, nc: NatsClient) -> None:
        self.nc = nc
        self._disconnected: list[Callable[[], None]] = []
        self._reconnected: list[Callable[[], None]] = []
        self._errors: list[Callable[[Exception | str], None]] = []
        # Strongly: a subscription that the program does not hold receives messages, too.
        self._subscriptions: dict[str, Subscription] = {}
        self._phase: ClientStatus | None = None
        self._last_error: str | None = None

    def __repr__(self) -> str:
        return f"<Client: {self.status.value}>"

    @property
    def server_info(self) -> ServerInfo | None:
        """The INFO of the server, or of the last one."""
        info = self.nc._server_info
        return ServerInfo.from_protocol(info) if info else None

    @property
    def status(self) -> ClientStatus:
        """The phase of the connection."""
        if self.nc.is_closed:
            return ClientStatus.CLOSED
        if self._phase is not None:
            return self._phase
        if self.nc.is_draining:
            return ClientStatus.DRAINING
        if self.nc.is_connecting:
            return ClientStatus.CONNECTING
        return ClientStatus.CONNECTED if self.nc.is_connected else ClientStatus.RECONNECTING

    @property
    def last_error(self) -> str | None:
        """The text of the last error that the server reported."""
        return self._last_error

    def stats(self) -> ClientStatistics:
        """Returns the counters of the connection."""
        counts = self.nc.stats
        return ClientStatistics(
            in_messages=counts["in_msgs"],
            out_messages=counts["out_msgs"],
            in_bytes=counts["in_bytes"],
            out_bytes=counts["out_bytes"],
            reconnects=counts["reconnects"],
        )

    async def rtt(self, timeout: float | None = None) -> float:
        """Measures the round trip time to the server, in seconds.

        Args:
            timeout: Maximum seconds; None has no limit.

        Raises:
            ConnectionError: The connection is closed.
            TimeoutError: No answer in time.
        """
        try:
            return await self.nc.rtt(timeout)
        except errors.ConnectionClosedError:
            raise ConnectionError("connection is closed") from None

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until the server has processed all that was sent. Does nothing if the connection is closed.

        Args:
            timeout: Maximum seconds; None has no limit.

        Raises:
            TimeoutError: No answer in time.
        """
        with suppress(errors.ConnectionClosedError):
            await self.nc.flush(timeout)

    async def publish(
        self,
        subject: str | bytes,
        payload: bytes,
        *,
        reply: str | bytes | None = None,
        headers: Headers | dict[str, str | list[str]] | None = None,
    ) -> None:
        """Publishes a message. It is queued, and sent with others.

        Args:
            subject: The subject.
            payload: The payload.
            reply: The subject for replies.
            headers: Value, or list of values, by name.

        Raises:
            RuntimeError: The connection is closed.
            BadSubjectError: The subject is invalid.
            MaxPayloadError: The message exceeds the server's limit.
        """
        session = self.nc._session
        if isinstance(subject, bytes):
            subject = subject.decode()
        if isinstance(reply, bytes):
            reply = reply.decode()
        if isinstance(headers, Headers):
            headers = dict(headers.items())
        try:
            wait_for_room = session.send(subject, payload, reply, headers or None)
            if wait_for_room is not None:
                await session.run(wait_for_room)
        except errors.ConnectionClosedError:
            raise RuntimeError(_CLOSED) from None

    async def subscribe(
        self,
        subject: str | bytes,
        *,
        queue: str | bytes = "",
        max_pending_messages: int | None = 65536,
        max_pending_bytes: int | None = 67108864,
    ) -> Subscription:
        """Subscribes to a subject.

        Args:
            subject: The subject; may contain wildcards.
            queue: Queue group; each message is delivered to one member.
            max_pending_messages: Most unread messages; further ones are dropped and reported to the error callbacks.
                None has no limit.
            max_pending_bytes: Most payload bytes of unread messages, likewise; default 64 MiB.

        Returns:
            The subscription.

        Raises:
            RuntimeError: The connection is closed.
            BadSubjectError: The subject or the queue group is invalid.
        """
        if self.nc.is_closed:
            raise RuntimeError(_CLOSED)
        subject = subject.decode() if isinstance(subject, bytes) else subject
        queue = queue.decode() if isinstance(queue, bytes) else queue
        sid = str(self.nc._session.next_sid())
        subscription = Subscription(subject, sid, queue, self, max_pending_messages, max_pending_bytes)
        self._subscriptions[sid] = subscription
        return subscription

    def new_inbox(self) -> str:
        """Returns a unique subject below the inbox prefix."""
        return f"{self.nc._inbox_prefix.decode()}.{uuid4().hex}"

    async def request(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout: float = 2.0,
        headers: dict[str, str | list[str]] | None = None,
        return_on_error: bool = False,
    ) -> Message:
        """Publishes a request, and waits for the first reply.

        Args:
            subject: The subject.
            payload: The payload.
            timeout: Maximum seconds.
            headers: Value, or list of values, by name.
            return_on_error: Whether a status of the server is returned as a message, and not raised.

        Returns:
            The reply.

        Raises:
            NoRespondersError: No subscription receives the request.
            StatusError: The reply is another status.
            TimeoutError: No reply in time.
            RuntimeError: The connection is closed.
        """
        try:
            reply = message_of(await self.nc._session.request(subject, payload, timeout, headers))
        except errors.NoRespondersError:
            # As servers from 2.11 on answer.
            named = Headers({"Nats-Subject": subject})
            reply = Message(self.new_inbox(), b"", headers=named, status=Status("503"))
        except errors.TimeoutError:
            raise TimeoutError("Request timeout") from None
        except errors.ConnectionClosedError:
            raise RuntimeError(_CLOSED) from None
        status = reply.status
        if status is None or return_on_error or status.code == "200":
            return reply
        raise StatusError.from_status(status.code, status.description or NO_DESCRIPTION, subject=subject)

    async def drain(self, timeout: float = 30.0) -> None:
        """Drains all subscriptions, flushes, and closes the connection. A second call does nothing.

        Messages that have arrived can be read afterwards.

        Args:
            timeout: Maximum seconds.

        Raises:
            TimeoutError: It took longer; the connection is closed.
        """
        if self._phase is not None or self.nc.is_closed:
            return
        self._phase = ClientStatus.DRAINING
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(sub.drain() for sub in list(self._subscriptions.values())))
                self._phase = ClientStatus.DRAINED
                await self.nc.flush(None)
        except errors.ConnectionClosedError:
            pass
        except TimeoutError:
            raise TimeoutError(f"Drain operation timed out after {timeout} seconds") from None
        finally:
            await self.close()

    async def close(self) -> None:
        """Sends what is queued, ends all subscriptions and closes the connection. A second call does nothing."""
        if self.nc.is_closed:
            return
        self._phase = ClientStatus.CLOSING
        for subscription in list(self._subscriptions.values()):
            await subscription.unsubscribe()
        await self.nc.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.close()

    def add_disconnected_callback(self, callback: Callable[[], None]) -> None:
        """Adds a function that is called after each disconnect that a reconnect follows."""
        self._disconnected.append(callback)

    def add_reconnected_callback(self, callback: Callable[[], None]) -> None:
        """Adds a function that is called after each reconnect."""
        self._reconnected.append(callback)

    def add_error_callback(self, callback: Callable[[Exception | str], None]) -> None:
        """Adds a function that is called with each error that no call raises.

        Args:
            callback: The function. It gets the text of an error of the server, and else a `SlowConsumerError`.
        """
        self._errors.append(callback)

    def _report(self, error: Exception | str) -> None:
        for callback in list(self._errors):
            _call(callback, error)

    # Callbacks of the connection.

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, errors.PermissionsViolationError | errors.AuthorizationError | errors.ProtocolError):
            self._last_error = _server_text(error)
            self._report(self._last_error)

    async def _on_disconnected(self) -> None:
        if self._phase is None and self.nc.options.get("allow_reconnect", True):
            for callback in list(self._disconnected):
                _call(callback)

    async def _on_reconnected(self) -> None:
        for callback in list(self._reconnected):
            _call(callback)


def _server_text(error: Exception) -> str:
    """The text of an error as servers send it."""
    text = str(error).removeprefix("nats: ")
    for words in ("Permissions Violation", "for Publish", "for Subscription", "Authorization Violation"):
        text = text.replace(words.lower(), words, 1)
    return text


def _call(callback: Callable[..., None], *arguments: object) -> None:
    try:
        callback(*arguments)
    except Exception:
        _log.exception("a callback of the client failed")
