"""HTTP endpoint with the lag of consumers: Prometheus text and JSON for KEDA's `metrics-api` scaler."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from jetarrow.cli.masking import mask

Row = dict[str, Any]

# Seconds for which an answer of the NATS server, or its failure, is served to all requests.
CACHE_TIME = 1.0
# Seconds after which a connection without a complete request is closed.
_REQUEST_TIMEOUT = 10.0
_LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:\[\]/\s]*)):(?P<port>\d{1,5})")

# Content type of the Prometheus text format, version 0.0.4.
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
# Name and help of each metric, and its value for a row; None leaves the sample out.
_METRICS: tuple[tuple[str, str, Callable[[Row], float | None]], ...] = (
    ("pending_messages", "Messages not delivered yet.", lambda row: row["num_pending"]),
    ("ack_pending_messages", "Messages delivered and not acknowledged.", lambda row: row["num_ack_pending"]),
    ("redelivered_messages", "Unacknowledged messages delivered more than once.", lambda row: row["num_redelivered"]),
    ("waiting_requests", "Pull requests that wait for messages.", lambda row: row["num_waiting"]),
    ("behind_seconds", "Age of the oldest message that is not done.", lambda row: _seconds(row["behind"])),
    ("paused", "1 while the consumer is paused.", lambda row: int(row["paused"])),
)
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def _seconds(span: Any) -> float | None:
    return None if span is None else span.total_seconds()


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of `[HOST]:PORT`; without a host the loopback interface.

    Args:
        text: The address: `:9464`, `0.0.0.0:9464`, `[::]:9464`.

    Raises:
        ValueError: The text is not such an address.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError(f"--serve {text!r} is not an address: write :9464, 0.0.0.0:9464 or [::]:9464")
    return found["ipv6"] or found["host"] or _LOOPBACK, int(found["port"])


def as_json(rows: Sequence[Row], streams: Sequence[str] = ()) -> dict[str, Any]:
    """Return the lag by stream and consumer, in a form whose numbers a GJSON path selects.

    Args:
        rows: Rows of `js.lag()`.
        streams: Streams that have an entry even if they have no consumers.
    """
    found: dict[str, Any] = {name: {"consumers": {}} for name in streams}
    for row in rows:
        pending, unacknowledged = row["num_pending"], row["num_ack_pending"]
        found.setdefault(row["stream"], {"consumers": {}})["consumers"][row["consumer"]] = {
            "lag": pending + unacknowledged,
            "pending": pending,
            "ack_pending": unacknowledged,
            "redelivered": row["num_redelivered"],
            "waiting": row["num_waiting"],
            "ack_floor": row["ack_floor"],
            "behind_seconds": _seconds(row["behind"]),
            "paused": row["paused"],
        }
    return {"streams": found}


def as_metrics(rows: Sequence[Row] | None) -> str:
    """Return the lag in the Prometheus text format.

    Args:
        rows: Rows of `js.lag()`; None if the request to the NATS server failed.
    """
    lines = _family("jetarrow_up", "1 if the NATS server answered the last request.")
    lines.append(f"jetarrow_up {0 if rows is None else 1}")
    for name, text, value_of in _METRICS if rows is not None else ():
        name = f"jetarrow_consumer_{name}"
        lines += _family(name, text)
        for row in rows or ():
            value = value_of(row)
            if value is not None:
                stream, consumer = (row[label].translate(_LABEL_ESCAPES) for label in ("stream", "consumer"))
                lines.append(f'{name}{{stream="{stream}",consumer="{consumer}"}} {value}')
    return "\n".join(lines) + "\n"


def _family(name: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge"]


class LagServer(ThreadingHTTPServer):
    """HTTP server of the lag, as a context manager; `serve_forever` runs it.

    The requests of all scrapers share one request to the NATS server per second.

    Args:
        address: Host and port; port 0 selects a free one.
        source: Returns rows of `js.lag()`. It is called by one thread at a time, and may raise.
        streams: Streams that always have an entry in the JSON.

    Raises:
        OSError: The address is in use, or not one of this machine.
    """

    # Threads of scrapers must not delay the end of the process.
    daemon_threads = True

    def __init__(self, address: tuple[str, int], source: Callable[[], list[Row]], streams: Sequence[str] = ()) -> None:
        self.streams = streams
        self._source = source
        self._lock = threading.Lock()
        self._until = 0.0
        self._rows: list[Row] | None = None
        self._error = ""
        host, port = address
        try:
            self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            super().__init__(address, _Handler)
        except OSError as error:
            raise OSError(f"could not listen on {host}:{port}: {error.strerror or error}; use another port") from error

    def server_bind(self) -> None:
        """Binds without the reverse lookup of the host's name in the base class, which can take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    @property
    def url(self) -> str:
        """Address of the server, without a path."""
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}"

    def read(self) -> tuple[list[Row] | None, str]:
        """Return the rows, or None and the reason of the failure; at most `CACHE_TIME` old."""
        with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._rows, self._error = self._source(), ""
                except Exception as error:
                    # Any failure is an answer: the endpoint must outlive each of them.
                    self._rows, self._error = None, mask(str(error) or type(error).__name__)
                self._until = time.monotonic() + CACHE_TIME
            return self._rows, self._error

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores scrapers that disconnect before they have read the answer."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of `/metrics`, `/lag` (also `/`) and `/healthz`."""

    server: LagServer
    timeout = _REQUEST_TIMEOUT
    server_version, sys_version = "jetarrow", ""

    def do_GET(self) -> None:
        """Answers a request."""
        path = self.path.partition("?")[0]
        if path == "/healthz":
            # Not the state of the NATS server: a restart of this process would not mend it.
            self._answer(HTTPStatus.OK, "text/plain; charset=utf-8", "ok\n")
        elif path == "/metrics":
            self._answer(HTTPStatus.OK, _TEXT, as_metrics(self.server.read()[0]))
        elif path in ("/", "/lag"):
            rows, reason = self.server.read()
            if rows is None:
                self._answer_json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": reason})
            else:
                self._answer_json(HTTPStatus.OK, as_json(rows, self.server.streams))
        else:
            self._answer_json(HTTPStatus.NOT_FOUND, {"error": "use /metrics, /lag or /healthz"})

    do_HEAD = do_GET

    def _answer_json(self, status: HTTPStatus, value: Any) -> None:
        self._answer(status, "application/json", json.dumps(value, indent=2) + "\n")

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Writes no line per request."""
