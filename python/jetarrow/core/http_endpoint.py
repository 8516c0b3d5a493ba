"""HTTP endpoint in threads, for metrics and health checks."""

from __future__ import annotations

import json
import re
import socket
import socketserver
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Seconds after which a connection without a complete request is closed.
REQUEST_TIMEOUT = 10.0
# Content type of the Prometheus text format, version 0.0.4.
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TEXT_TYPE = "text/plain; charset=utf-8"
_LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<host>[^:\[\]/\s]*)):(?P<port>\d{1,5})")
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def address_of(text: str, option: str) -> tuple[str, int]:
    """Return host and port of `[HOST]:PORT`; without a host the loopback interface.

    Args:
        text: The address: `:9464`, `0.0.0.0:9464`, `[::]:9464`.
        option: Name of the option, for the error.

    Raises:
        ValueError: The text is not such an address.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError(f"{option} {text!r} is not an address: write :9464, 0.0.0.0:9464 or [::]:9464")
    return found["ipv6"] or found["host"] or _LOOPBACK, int(found["port"])


def family(name: str, text: str, kind: str = "gauge") -> list[str]:
    """Return the two lines that begin a metric in the Prometheus text format."""
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def labels(**values: str) -> str:
    """Return labels in the Prometheus text format, with their braces."""
    return "{" + ",".join(f'{name}="{value.translate(_LABEL_ESCAPES)}"' for name, value in values.items()) + "}"


class Endpoint(ThreadingHTTPServer):
    """HTTP server, as a context manager; `serve_forever` runs it.

    Args:
        address: Host and port; port 0 selects a free one.
        handler: Class that answers the requests.

    Raises:
        OSError: The address is in use, or not one of this machine.
    """

    # Threads of scrapers must not delay the end of the process.
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[Answers]) -> None:
        host, port = address
        try:
            self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            super().__init__(address, handler)
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

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores scrapers that disconnect before they have read the answer."""


class Answers(BaseHTTPRequestHandler):
    """Answers GET and HEAD; a subclass has `reply`."""

    timeout = REQUEST_TIMEOUT
    server_version, sys_version = "jetarrow", ""

    def reply(self, path: str) -> None:
        """Answers a request of a path, which has no query."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answers a request."""
        self.reply(self.path.partition("?")[0])

    do_HEAD = do_GET

    def answer_json(self, status: HTTPStatus, value: Any) -> None:
        """Sends a JSON value."""
        self.answer(status, "application/json", json.dumps(value, indent=2) + "\n")

    def answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        """Sends a text of a content type."""
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
