"""HTTP endpoint of a worker: `/health`, `/healthz` and `/metrics`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from jetarrow.core.http_endpoint import METRICS_TYPE, Answers, Endpoint, address_of

# State of a worker: its fields, the problem that makes it unhealthy, and the one that a restart would mend.
Report = dict[str, Any]


class HealthEndpoint(Endpoint):
    """Answers in threads, so that it also answers while the event loop is blocked.

    Args:
        address: `:8080`, `0.0.0.0:8080` or `[::]:8080`; without a host the loopback interface.
        report: Returns the state.
        metrics: Returns the Prometheus text.

    Raises:
        ValueError: The address is invalid.
        OSError: The address is in use.
    """

    def __init__(self, address: str, report: Callable[[], Report], metrics: Callable[[], str]) -> None:
        self.report, self.metrics = report, metrics
        super().__init__(address_of(address, "health="), _Handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="jetarrow-health", daemon=True)

    def start(self) -> None:
        """Starts to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stops, and frees the port."""
        if self._thread.ident is not None:
            self.shutdown()
        self.server_close()


class _Handler(Answers):
    server: HealthEndpoint

    def reply(self, path: str) -> None:
        """Answers a request."""
        if path == "/metrics":
            self.answer(HTTPStatus.OK, METRICS_TYPE, self.server.metrics())
            return
        report = self.server.report()
        stuck = report.pop("stuck")
        if path in ("/", "/health"):
            status = HTTPStatus.SERVICE_UNAVAILABLE if report["problem"] else HTTPStatus.OK
            self.answer_json(status, report)
        elif path == "/healthz":
            # Only a state that a restart of the process would mend: the NATS server's absence is none.
            self.answer_json(HTTPStatus.SERVICE_UNAVAILABLE if stuck else HTTPStatus.OK, {"problem": stuck})
        else:
            self.answer_json(HTTPStatus.NOT_FOUND, {"error": "use /health, /healthz or /metrics"})
