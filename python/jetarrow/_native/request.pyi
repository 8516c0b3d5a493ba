"""Requests, flushes and inboxes."""

import asyncio

from jetarrow._native.bridge import Bridge
from jetarrow._native.call import Call
from jetarrow._native.message import Msg
from jetarrow._native.types import Headers, Payload
from jetarrow.core.session import Session

class RequestVerbs:
    """Verbs of a `Connection`."""

    def flush(self, timeout: float | None) -> Call[None]:
        """Wait for a round trip to the server.

        Args:
            timeout: Maximum seconds.
        """
    def new_inbox(self) -> str:
        """Return a unique subject."""
    def request(self, subject: str, payload: bytes, timeout: float | None) -> Call[bytes]:
        """Send a request to the JetStream API.

        Args:
            subject: An API subject.
            payload: JSON, or empty.
            timeout: Maximum seconds.

        Returns:
            A call for the payload of the response.

        Raises:
            BadSubjectError: The subject is invalid.
        """
    def request_msg(
        self,
        session: Session,
        subject: str,
        payload: Payload,
        *,
        timeout: float | None,
        headers: Headers | None = None,
    ) -> Call[Msg]:
        """Send a request.

        Args:
            session: The session for the verbs of the response.
            subject: The subject to publish to.
            payload: The payload.
            timeout: Maximum seconds.
            headers: As in `send`. Default: none.

        Returns:
            A call for the response.

        Raises:
            BadSubjectError: The subject is invalid.
            MaxPayloadError: The message exceeds the server's `max_payload`.
        """
    def request_future(
        self,
        event_loop: asyncio.AbstractEventLoop,
        bridge: Bridge,
        session: Session,
        subject: str,
        payload: Payload,
        timeout: float | None,
        headers: Headers | None,
    ) -> asyncio.Future[Msg]:
        """Send a request, with a future instead of a task.

        Args:
            event_loop: The loop that the future is for.
            bridge: That loop's mailbox.
            session: As in `request_msg`, like the rest.
            subject: The subject to publish to.
            payload: The payload.
            timeout: Maximum seconds.
            headers: As in `send`.

        Returns:
            A future for the response.

        Raises:
            BadSubjectError: The subject is invalid.
            MaxPayloadError: The message exceeds the server's `max_payload`.
            OutboundBufferLimitError: The client is disconnected, and `pending_size` bytes are queued.
            ConnectionClosedError: The connection is closed.
        """
    def cancel_request(self, future: asyncio.Future[Msg]) -> None:
        """End a request of `request_future` whose future was cancelled. If it was not sent, it will not be.

        Args:
            future: The future that `request_future` returned.
        """
