"""A REST catalog of Iceberg's documented interface, as far as a sink uses it; its tables are those of a SQL catalog."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest

STATUS = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}


class RestServer:
    """The server. `faults` has the faults of the next commits, the first one first.

    Args:
        tables: The catalog with the tables.

    A fault is a status without a commit, the same negative with one, or 0: a commit whose connection breaks.
    """

    def __init__(self, tables: SqlCatalog) -> None:
        self.tables = tables
        self.faults: list[int] = []
        self.commits = 0
        served = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                served.answer(self, None)

            def do_POST(self) -> None:
                served.answer(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> RestServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def catalog(self) -> RestCatalog:
        return RestCatalog("rest", uri=f"http://127.0.0.1:{self._server.server_port}")

    def answer(self, request: BaseHTTPRequestHandler, body: Any) -> None:
        """Answer a request, with the error of the specification if the catalog raises one."""
        try:
            status, value = 200, self._value(request.path.split("?")[0].strip("/").split("/"), body)
        except tuple(STATUS) as error:
            status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
            value = {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
        if value is None:
            request.close_connection = True
            return
        if isinstance(value, int):
            status, value = value, {"error": {"message": "fault", "type": "Fault", "code": value}}
        text = json.dumps(value).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def _value(self, path: list[str], body: Any) -> Any:
        """Return the value of an answer, the status of a fault, or None if the connection breaks."""
        match path:
            case ["v1", "config"]:
                return {"defaults": {}, "overrides": {}}
            case ["v1", "namespaces", namespace, "tables"]:
                spec = PartitionSpec.model_validate(body["partition-spec"])
                schema = Schema.model_validate(body["schema"])
                name = (namespace, body["name"])
                return _loaded(
                    self.tables.create_table(name, schema, partition_spec=spec, properties=body["properties"])
                )
            case ["v1", "namespaces", namespace, "tables", name]:
                if body is None:
                    return _loaded(self.tables.load_table((namespace, name)))
                return self._commit((namespace, name), body)
        return 404

    def _commit(self, name: tuple[str, str], body: Any) -> Any:
        self.commits += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and fault > 0:
            return fault
        body["identifier"] = {"namespace": list(name[:-1]), "name": name[-1]}
        asked = CommitTableRequest.model_validate(body)
        done = self.tables.commit_table(self.tables.load_table(name), asked.requirements, asked.updates)
        if fault is not None:
            return -fault or None
        return json.loads(done.model_dump_json(by_alias=True))


def _loaded(table: Any) -> Any:
    metadata = json.loads(table.metadata.model_dump_json(by_alias=True, exclude_none=True))
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}
