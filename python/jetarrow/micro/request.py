"""Requests to a service, and their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from jetarrow._jetarrow import Msg
from jetarrow.client import Client

ERROR_HEADER = "Nats-Service-Error"
ERROR_CODE_HEADER = "Nats-Service-Error-Code"


class Request:
    """A request to an endpoint. Handlers are given them."""

    def __init__(self, msg: Msg, *, client: Client | None = None) -> None:
        self._msg = msg
        self._client: Any = client
        # What `respond_error` was told, for the endpoint's counters.
        self._error: ServiceError | None = None

    @property
    def subject(self) -> str:
        """The subject that it was sent to."""
        return self._msg.subject

    @property
    def headers(self) -> dict[str, str] | None:
        """Its headers, name to the last value; None without headers."""
        return self._msg.headers

    @property
    def data(self) -> bytes:
        """Its payload."""
        return self._msg.data

    async def respond(self, data: bytes | str = b"", headers: dict[str, str] | None = None) -> None:
        """Answers it.

        Args:
            data: Bytes-like, or str, which is sent as UTF-8.
            headers: Name to value.

        Raises:
            ValueError: Whoever sent it does not wait for an answer.
        """
        if not self._msg.reply:
            raise ValueError("no reply subject set")
        client = self._client if self._client is not None else self._msg._client
        await client.publish(self._msg.reply, data, headers=headers)

    async def respond_error(
        self,
        code: str,
        description: str,
        data: bytes | str = b"",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Answers it with an error, which also counts as one in the endpoint's `stats`.

        Args:
            code: The error's code, such as "404".
            description: What went wrong, in words; line breaks become spaces.
            data: As `respond`.
            headers: As `respond`; the error's own come beside them.

        Raises:
            ValueError: As `respond`.
        """
        self._error = ServiceError(code, description)
        words = " ".join(description.splitlines())
        await self.respond(data, {**(headers or {}), ERROR_HEADER: words, ERROR_CODE_HEADER: code})


Handler = Callable[[Request], Awaitable[None]]
"""What answers the requests of an endpoint: a coroutine function; raising is an answer too."""


@dataclass
class ServiceError(Exception):
    """An error that a handler raises to answer with it.

    Attributes:
        code: Its code, such as "404".
        description: What went wrong, in words.
    """

    code: str
    description: str

    def __repr__(self) -> str:
        return f"{self.code}:{self.description}"

    def __str__(self) -> str:
        return repr(self)

    def to_dict(self) -> dict[str, Any]:
        """Convert to a dict."""
        return {"code": self.code, "description": self.description}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ServiceError:
        """Read from a dict; what is missing is empty.

        Args:
            data: With `code` and `description`.
        """
        return cls(code=data.get("code", ""), description=data.get("description", ""))
