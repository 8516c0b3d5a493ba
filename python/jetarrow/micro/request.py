"""Requests to a service, and their answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jetarrow._jetarrow import Msg
from jetarrow.client import Client

ERROR_HEADER = "Nats-Service-Error"
ERROR_CODE_HEADER = "Nats-Service-Error-Code"

# What stands at the end of a text that was cut.
_CUT = " ... (cut)"
# Bytes of the block of headers besides them: the version line and the empty line at its end.
_BLOCK_BYTES = len(b"NATS/1.0\r\n\r\n")
# Bytes of a header besides its name and value.
_HEADER_BYTES = len(b": \r\n")


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
            description: The error in words; line breaks become spaces. A text that is longer than the server's
                `max_payload` allows is cut.
            data: As `respond`.
            headers: As `respond`; the error's own come beside them.

        Raises:
            ValueError: As `respond`.
            MaxPayloadError: `data` and `headers` are too large without the description.
        """
        self._error = ServiceError(code, description)
        fields = {**(headers or {}), ERROR_HEADER: "", ERROR_CODE_HEADER: one_line(code)}
        room = self._max_payload() - _size(data) - _size_of_headers(fields)
        fields[ERROR_HEADER] = cut(one_line(description), room)
        await self.respond(data, fields)

    def _max_payload(self) -> int:
        client = self._client if self._client is not None else self._msg._client
        return int(client.max_payload)


def one_line(text: object) -> str:
    """The text as a header can hold it: without line breaks and lone surrogates."""
    return " ".join(str(text).splitlines()).encode("utf-8", "replace").decode()


def cut(text: str, size: int) -> str:
    """The text, or as much of its beginning as fits into `size` bytes of UTF-8, with a mark that it was cut."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= size:
        return text
    mark = _CUT if size > len(_CUT) else ""
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
