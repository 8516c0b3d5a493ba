"""Publishing what no client library sends. No test is in here."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from urllib.parse import urlsplit


def raw_publish(url: str, subject: str, payload: bytes = b"", headers: Mapping[str, str | bytes] | None = None) -> None:
    """Publish to any subject, also one with a wildcard, which servers take and store.

    Args:
        url: A server without authentication.
        subject: The subject, not checked.
        payload: The payload.
        headers: Headers, by name.
    """
    where = urlsplit(url)
    values = [(name, value.encode() if isinstance(value, str) else value) for name, value in (headers or {}).items()]
    block = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in values)
    head = b"NATS/1.0\r\n" + block + b"\r\n"
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=5) as link:
        lines = link.makefile("rb")
        lines.readline()
        link.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
        link.sendall(f"HPUB {subject} {len(head)} {len(head) + len(payload)}\r\n".encode() + head + payload + b"\r\n")
        link.sendall(b"PING\r\n")
        answer = lines.readline()
        assert answer == b"PONG\r\n", answer
