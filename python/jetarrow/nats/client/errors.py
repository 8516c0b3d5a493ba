"""Errors of the client."""

from __future__ import annotations

__all__ = ["NoRespondersError", "SlowConsumerError", "StatusError"]


class StatusError(Exception):
    """The answer to a request is a status of the server.

    Args:
        status: The code, such as "503".
        description: The server's text.
        subject: The subject of the request.
    """

    def __init__(self, status: str, description: str, subject: str | None = None) -> None:
        super().__init__(f"{status}: {description}")
        self.status = status
        self.description = description
        self.subject = subject

    @classmethod
    def from_status(cls, status: str, description: str, *, subject: str | None = None) -> StatusError:
        """Returns the error of a status: `NoRespondersError` for 503, else an error of this class."""
        return (NoRespondersError if status == "503" else cls)(status, description, subject)


class NoRespondersError(StatusError):
    """No subscription receives the request (status 503)."""

    def __init__(self, status: str, description: str, subject: str | None = None) -> None:
        super().__init__(status, description, subject)


class SlowConsumerError(Exception):
    """A subscription has as many unread messages or bytes as its limits allow, and drops further ones.

    Args:
        subject: The subject of the subscription.
        sid: Its number.
        pending_messages: Its unread messages.
        pending_bytes: Their payload bytes.
    """

    def __init__(self, subject: str, sid: str, pending_messages: int, pending_bytes: int) -> None:
        super().__init__(
            f"Slow consumer on subject '{subject}': {pending_messages} pending messages, {pending_bytes} pending bytes"
        )
        self.subject = subject
        self.sid = sid
        self.pending_messages = pending_messages
        self.pending_bytes = pending_bytes
