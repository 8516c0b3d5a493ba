"""A message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Msg:
    """One message.

    Attributes:
        subject: what it was published to.
        reply: where an answer goes; for a message from a stream, where its acknowledgement goes.
        data: the payload.
        headers_all: header name to its values, or None without headers.
    """

    subject: str = ""
    reply: str = ""
    data: bytes = b""
    headers_all: dict[str, list[str]] | None = None

    @property
    def headers(self) -> dict[str, str] | None:
        """Header name to its value, the last where there are several; None without headers."""
        if self.headers_all is None:
            return None
        return {name: values[-1] for name, values in self.headers_all.items()}

    @property
    def header(self) -> dict[str, str] | None:
        """The same as `headers`."""
        return self.headers
