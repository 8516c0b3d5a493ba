"""Requests to a service, and their responses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jetarrow._jetarrow import Msg
from jetarrow.client import Client

ERROR_HEADER = "Nats-Service-Error"
ERROR_CODE_HEADER = "Nats-Service-Error-Code"

# Suffix of a truncated text.
_TRUNCATED = " ... (cut)"
# Bytes of the header block without headers: the version line and the final empty line.
_BLOCK_BYTES = len(b"NATS/1.0\r\n\r\n")
# Bytes of a header without its name and value.
_HEADER_BYTES = len(b": \r\n")


class Request:
    """A request to an endpoint; the argument of handlers."""

    def __init__(self, msg: Msg, *, client: Client | None = None) -> None:
        self._msg = msg
        self._client: Any = client
        # The error of `respond_error`, for the endpoint's counters.
        self._error: ServiceError | None = None

    @property
    def subject(self) -> str:
        """The subject of the request."""
        return self._msg.subject

    @property
    def headers(self) -> dict[str, str] | None:
        """The last value by header name; None without headers."""
        return self._msg.headers

    @property
    def data(self) -> bytes:
        """The payload."""
        return self._msg.data

    async def respond(self, data: bytes | str = b"", headers: dict[str, str] | None = None) -> None:
        """Sends the response.

        Args:
            data: Bytes-like, or str, which is sent as UTF-8.
            headers: Value by header name.

        Raises:
            ValueError: The request has no reply subject.
        """
        if not self._msg.reply:
            raise ValueError("no reply subject set: not a request")
        client = self._client if self._client is not None else self._msg._client
        await client.publish(self._msg.reply, data, headers=headers)

    async def respond_error(
        self,
        code: str,
        description: str,
        data: bytes | str = b"",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Sends an error response, which counts as an error in the endpoint's statistics.

        Args:
            code: The error code, for example "404".
            description: The error text; line breaks are replaced by spaces. It is truncated to the size that the
                server's `max_payload` allows.
            data: As `respond`.
            headers: As `respond`; the error headers are added.

        Raises:
            ValueError: As `respond`.
            MaxPayloadError: `data` and `headers` exceed `max_payload` without the description.
        """
        self._error = ServiceError(code, description)
        fields = {**(headers or {}), ERROR_HEADER: "", ERROR_CODE_HEADER: one_line(code)}
        room = self._max_payload() - _size(data) - _size_of_headers(fields)
        fields[ERROR_HEADER] = truncate(one_line(description), room)
        await self.respond(data, fields)

    def _max_payload(self) -> int:
        client = self._client if self._client is not None else self._msg._client
        return int(client.max_payload)


def one_line(text: object) -> str:
    """Returns the text for a header value: without line breaks and lone surrogates."""
    return " ".join(str(text).splitlines()).encode("utf-8", "replace").decode()


def truncate(text: str, size: int) -> str:
    """Truncates the text to `size` bytes of UTF-8, with a suffix that marks the truncation."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= size:
        return text
    mark = _TRUNCATED if size > len(_TRUNCATED) else ""
    return data[: max(size - len(mark), 0)].decode("utf-8", "ignore") + mark


def _size(value: bytes | str) -> int:
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else memoryview(value).nbytes


def _size_of_headers(headers: Mapping[str, str | list[str]]) -> int:
    size = _BLOCK_BYTES
    for name, value in headers.items():
        values = [value] if isinstance(value, str) else value
        size += sum(_size(name) + _size(each) + _HEADER_BYTES for each in values)
    return size


Handler = Callable[[Request], Awaitable[None]]
"""Answers the requests of an endpoint: a coroutine function. An exception is sent as an error response."""


@dataclass
class ServiceError(Exception):
    """An error that a handler raises to send it as the response.

    Attributes:
        code: The error code, for example "404".
        description: The error text.
    """

    code: str
    description: str

    def __repr__(self) -> str:
        return f"{self.code}:{self.description}"

    def __str__(self) -> str:
        return repr(self)

    def to_dict(self) -> dict[str, Any]:
        """Converts it to a dict."""
        return {"code": self.code, "description": self.description}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ServiceError:
        """Builds it from a dict; missing fields are empty.

        Args:
            data: With `code` and `description`.
        """
        return cls(code=data.get("code", ""), description=data.get("description", ""))
