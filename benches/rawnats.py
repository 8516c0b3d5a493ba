"""One blocking NATS connection without a client library, and the few JetStream API calls the benches need."""

from __future__ import annotations

import json
import socket
import uuid
from typing import Any
from urllib.parse import urlsplit

RECV_BYTES = 1 << 20
TIMEOUT = 30.0  # seconds of silence after which a run is given up; well under the server's ping limit (4 min)


class WireError(RuntimeError):
    """The server answered something else than asked for, or the counts differ."""


class Wire:
    """The socket (`.sock`, blocking) for the loops of wire.py, and requests answered in JSON."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url if "://" in url else f"nats://{url}")
        self.sock = socket.create_connection((where.hostname or "127.0.0.1", where.port or 4222), TIMEOUT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = bytearray()
        self._line()  # INFO
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
        self.sock.sendall(b"CONNECT " + json.dumps(options).encode() + b"\r\n")
        self.resync()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def _fill(self) -> None:
        chunk = self.sock.recv(1 << 16)
        if not chunk:
            raise WireError(f"server closed the connection: {bytes(self._read[-200:])!r}")
        self._read += chunk

    def _line(self) -> bytes:
        while (end := self._read.find(b"\r\n")) < 0:
            self._fill()
        line = bytes(self._read[:end])
        del self._read[: end + 2]
        return line

    def resync(self) -> None:
        """PING, and drop all that comes before its PONG: nothing else may be outstanding."""
        self.sock.sendall(b"PING\r\n")
        while not self._read.endswith(b"PONG\r\n"):
            del self._read[:-5]
            self._fill()
        self._read.clear()

    def request(self, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One JetStream API request; its JSON answer, or WireError."""
        inbox = f"_INBOX.{uuid.uuid4().hex}"
        payload = json.dumps(body).encode() if body else b""
        head = f"SUB {inbox} 9\r\nUNSUB 9 1\r\nPUB {subject} {inbox} {len(payload)}\r\n"
        self.sock.sendall(head.encode() + payload + b"\r\n")
        while True:
            line = self._line()
            if line == b"PING":
                self.sock.sendall(b"PONG\r\n")
            elif line.startswith((b"MSG ", b"HMSG ")):
                size = int(line.split()[-1])
                while len(self._read) < size + 2:
                    self._fill()
                payload = bytes(self._read[:size])
                del self._read[: size + 2]
                if line.split()[2] != b"9":
                    continue  # the status of an earlier pull request
                if line.startswith(b"HMSG "):
                    raise WireError(f"{subject}: {payload!r}")
                answer: dict[str, Any] = json.loads(payload)
                if "error" in answer:
                    raise WireError(f"{subject}: {answer['error']}")
                return answer
            elif line.startswith(b"-ERR"):
                raise WireError(f"{subject}: {line.decode()}")

    def stream_messages(self, stream: str) -> int:
        return int(self.request(f"$JS.API.STREAM.INFO.{stream}")["state"]["messages"])


class Chunks:
    """Received chunks in one buffer, with the tail of the chunk before in front of each.

    The tail is one byte shorter than the markers searched for (all of one length), so that a marker across
    the border is seen, and none is seen twice.
    """

    def __init__(self, sock: socket.socket, marker: int) -> None:
        self._sock = sock
        self._tail = marker - 1
        self.data = bytearray(self._tail + RECV_BYTES + (64 << 10))  # room to finish what a chunk cut off
        self._view = memoryview(self.data)
        self.end = self._tail

    def next(self) -> None:
        self.data[: self._tail] = self.data[self.end - self._tail : self.end]
        self.end = self._tail
        self._receive(RECV_BYTES)

    def more(self) -> None:
        """Append to the current chunk."""
        self._receive(len(self.data) - self.end)

    def _receive(self, room: int) -> None:
        size = self._sock.recv_into(self._view[self.end :], room)
        if not size:
            tail = bytes(self.data[max(0, self.end - 200) : self.end])
            raise WireError(f"server closed the connection, or a chunk has no end: {tail!r}")
        self.end += size

    def count(self, marker: bytes) -> int:
        return self.data.count(marker, 0, self.end)

    def find(self, marker: bytes, start: int = 0) -> int:
        return self.data.find(marker, start, self.end)


def add_stream(url: str, stream: str, subject: str, **config: Any) -> None:
    """A stream with a file store on one subject; further fields of its configuration as keywords."""
    body = {"name": stream, "subjects": [subject], "storage": "file", "num_replicas": 1, **config}
    with Wire(url) as wire:
        wire.request(f"$JS.API.STREAM.CREATE.{stream}", body)


def delete_stream(url: str, stream: str) -> None:
    with Wire(url) as wire:
        wire.request(f"$JS.API.STREAM.DELETE.{stream}")


def delete_consumer(url: str, stream: str, consumer: str) -> None:
    with Wire(url) as wire:
        wire.request(f"$JS.API.CONSUMER.DELETE.{stream}.{consumer}")


def purge_stream(url: str, stream: str) -> None:
    with Wire(url) as wire:
        wire.request(f"$JS.API.STREAM.PURGE.{stream}")


def stream_messages(url: str, stream: str) -> int:
    """Return the number of messages in the stream."""
    with Wire(url) as wire:
        return wire.stream_messages(stream)
