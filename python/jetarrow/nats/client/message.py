"""Messages, their headers and their status."""

from __future__ import annotations

from collections.abc import ItemsView
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jetarrow._jetarrow import Msg


@dataclass
class Headers:
    """Headers of a message. Names are case-sensitive, and a name may have several values.

    Args:
        headers: Value, or list of values, by name.

    Raises:
        TypeError: A value is neither a string nor a list.
        ValueError: A list has an item that is not a string.
    """

    _data: dict[str, list[str]]

    def __init__(self, headers: dict[str, str | list[str]]) -> None:
        self._data = {}
        for name, value in headers.items():
            if isinstance(value, str):
                self._data[name] = [value]
            elif not isinstance(value, list):
                raise TypeError("Header values must be strings or lists of strings")
            elif not all(isinstance(item, str) for item in value):
                raise ValueError("All items in header value list must be strings")
            else:
                self._data[name] = value

    def get(self, key: str) -> str | None:
        """Returns the first value of a header; None if there is none."""
        values = self._data.get(key)
        return values[0] if values else None

    def get_all(self, key: str) -> list[str]:
        """Returns all values of a header; an empty list if there is none."""
        return self._data.get(key, [])

    def set(self, key: str, value: str) -> None:
        """Replaces all values of a header by one."""
        self._data[key] = [value]

    def delete(self, key: str) -> None:
        """Removes a header, if it exists."""
        self._data.pop(key, None)

    def append(self, key: str, value: str) -> None:
        """Adds a value to a header."""
        self._data.setdefault(key, []).append(value)

    def items(self) -> ItemsView[str, list[str]]:
        """Pairs of name and values."""
        return self._data.items()

    def asdict(self) -> dict[str, list[str]]:
        """Returns the values by name, as a new dict."""
        return self._data.copy()

    def __eq__(self, other: object) -> bool:
        return self._data == other._data if isinstance(other, Headers) else NotImplemented


@dataclass(slots=True)
class Status:
    """Status of the server in place of a message.

    Args:
        code: The code, such as "503".
        description: The server's text.
    """

    code: str
    description: str | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.description}" if self.description else self.code


@dataclass(slots=True)
class Message:
    """A message.

    Args:
        subject: The subject that it was published to.
        data: The payload.
        reply: The subject for a reply.
        headers: The headers.
        status: The status, if the server sent it in place of a message.
    """

    subject: str
    data: bytes
    reply: str | None = None
    headers: Headers | None = None
    status: Status | None = None


def message_of(msg: Msg) -> Message:
    """Converts a message of the native core."""
    subject, data, reply, values, code, description = msg._parts()
    headers = None
    if values is not None:
        headers = object.__new__(Headers)
        headers._data = values
    return Message(subject, data, reply, headers, None if code is None else Status(code, description))
