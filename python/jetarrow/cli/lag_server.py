"""HTTP endpoint with the lag of consumers: Prometheus text and JSON for KEDA's `metrics-api` scaler."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from jetarrow.cli.masking import mask
from jetarrow.core.http_endpoint import METRICS_TYPE, TEXT_TYPE, Answers, Endpoint, family, labels
from jetarrow.core.http_endpoint import address_of as endpoint_address

Row = dict[str, Any]

# Seconds for which an answer of the NATS server, or its failure, is served to all requests.
CACHE_TIME = 1.0
# Name and help of each metric, and its value for a row; None leaves the sample out.
_METRICS: tuple[tuple[str, str, Callable[[Row], float | None]], ...] = (
    ("pending_messages", "Messages not delivered yet.", lambda row: row["num_pending"]),
    ("ack_pending_messages", "Messages delivered and not acknowledged.", lambda row: row["num_ack_pending"]),
    ("redelivered_messages", "Unacknowledged messages delivered more than once.", lambda row: row["num_redelivered"]),
    ("waiting_requests", "Pull requests that wait for messages.", lambda row: row["num_waiting"]),
    ("behind_seconds", "Age of the oldest message that is not done.", lambda row: _seconds(row["behind"])),
    ("paused", "1 while the consumer is paused.", lambda row: int(row["paused"])),
)


def _seconds(span: Any) -> float | None:
    return None if span is None else span.total_seconds()


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of `[HOST]:PORT`; without a host the loopback interface.

    Args:
        text: The address: `:9464`, `0.0.0.0:9464`, `[::]:9464`.

    Raises:
        ValueError: The text is not such an address.
    """
    return endpoint_address(text, "--serve")


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
    lines = family("jetarrow_up", "1 if the NATS server answered the last request.")
    lines.append(f"jetarrow_up {0 if rows is None else 1}")
    for name, text, value_of in _METRICS if rows is not None else ():
        name = f"jetarrow_consumer_{name}"
        lines += family(name, text)
        for row in rows or ():
            value = value_of(row)
            if value is not None:
                lines.append(f"{name}{labels(stream=row['stream'], consumer=row['consumer'])} {value}")
    return "\n".join(lines) + "\n"


class LagServer(Endpoint):
    """HTTP server of the lag, as a context manager; `serve_forever` runs it.

    The requests of all scrapers share one request to the NATS server per second.

    Args:
        address: Host and port; port 0 selects a free one.
        source: Returns rows of `js.lag()`. It is called by one thread at a time, and may raise.
        streams: Streams that always have an entry in the JSON.

    Raises:
        OSError: The address is in use, or not one of this machine.
    """

    def __init__(self, address: tuple[str, int], source: Callable[[], list[Row]], streams: Sequence[str] = ()) -> None:
        self.streams = streams
        self._source = source
        self._lock = threading.Lock()
        self._until = 0.0
        self._rows: list[Row] | None = None
        self._error = ""
        super().__init__(address, _Handler)

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


class _Handler(Answers):
    """Answers GET and HEAD of `/metrics`, `/lag` (also `/`) and `/healthz`."""

    server: LagServer

    def reply(self, path: str) -> None:
        """Answers a request."""
        if path == "/healthz":
            # Not the state of the NATS server: a restart of this process would not mend it.
            self.answer(HTTPStatus.OK, TEXT_TYPE, "ok\n")
        elif path == "/metrics":
            self.answer(HTTPStatus.OK, METRICS_TYPE, as_metrics(self.server.read()[0]))
        elif path in ("/", "/lag"):
            rows, reason = self.server.read()
            if rows is None:
                self.answer_json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": reason})
            else:
                self.answer_json(HTTPStatus.OK, as_json(rows, self.server.streams))
        else:
            self.answer_json(HTTPStatus.NOT_FOUND, {"error": "use /metrics, /lag or /healthz"})
