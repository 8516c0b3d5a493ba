"""A schema registry of the documented REST interface, which can fail in all ways that a test asks for."""

from __future__ import annotations

import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class Answer:
    """An answer that a test has prepared."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    # The connection is closed without an answer.
    breaks: bool = False


class RegistryServer(ThreadingHTTPServer):
    """The server, with its schemas."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.schemas: list[dict[str, Any]] = []
        # Ids by subject; a version is a place, counted from 1.
        self.subjects: dict[str, list[int]] = {}
        self.requests: Counter[str] = Counter()
        self.authorization: str | None = None
        # The next answers, by path.
        self.prepared: dict[str, list[Answer]] = {}
        # Requests wait for it.
        self.open = threading.Event()
        self.open.set()
        self.scheme = "http"
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def secure(self, context: ssl.SSLContext) -> None:
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "https"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that refuses the certificate is no error of the test."""

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        with self.lock:
            same = {key: schema.get(key) or None for key in ("schema", "schemaType", "references")}
            if same not in self.schemas:
                self.schemas.append(same)
            number = self.schemas.index(same) + 1
            versions = self.subjects.setdefault(subject, [])
            if number not in versions:
                versions.append(number)
            return number

    def answer(self, method: str, path: list[str], body: Any) -> Answer:
        match method, path:
            case "GET", ["schemas", "ids", number]:
                if 0 < int(number) <= len(self.schemas):
                    return Answer(200, without_none(self.schemas[int(number) - 1]))
                return Answer(404, {"error_code": 40403, "message": "Schema not found"})
            case "POST", ["subjects", subject, "versions"]:
                return Answer(200, {"id": self.register(subject, body)})
            case "POST", ["subjects", subject]:
                same = {key: body.get(key) or None for key in ("schema", "schemaType", "references")}
                for version, number in enumerate(self.subjects.get(subject, []), 1):
                    if self.schemas[number - 1] == same:
                        return Answer(200, self.version(subject, version))
                return Answer(404, {"error_code": 40403, "message": "Schema not found"})
            case "GET", ["subjects", subject, "versions", version]:
                versions = self.subjects.get(subject, [])
                at = len(versions) if version == "latest" else int(version)
                if 0 < at <= len(versions):
                    return Answer(200, self.version(subject, at))
                return Answer(404, {"error_code": 40401, "message": f"Subject {subject!r} not found."})
        return Answer(404, {"error_code": 404, "message": "HTTP 404 Not Found"})

    def version(self, subject: str, version: int) -> dict[str, Any]:
        number = self.subjects[subject][version - 1]
        return {"subject": subject, "version": version, "id": number, **without_none(self.schemas[number - 1])}


class Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_GET(self) -> None:
        self.handle_request(None)

    def do_POST(self) -> None:
        self.handle_request(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def handle_request(self, body: Any) -> None:
        path = urlsplit(self.path).path
        self.server.requests[f"{self.command} {path}"] += 1
        self.server.open.wait(30)
        prepared = self.server.prepared.get(path)
        if self.server.authorization not in (None, self.headers["Authorization"]):
            answer = Answer(401, {"error_code": 401, "message": "Unauthorized"})
        elif prepared:
            answer = prepared.pop(0)
        else:
            answer = self.server.answer(self.command, [unquote(part) for part in path.split("/")[1:]], body)
        if answer.breaks:
            return
        sent = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(sent)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def without_none(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if value is not None}


@contextmanager
def running(server: RegistryServer) -> Iterator[RegistryServer]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.open.set()
        server.shutdown()
        thread.join()
        server.server_close()
