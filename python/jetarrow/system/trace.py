"""Trace of a message: the events on its way through the servers (ADR-41)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream import html
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.arrow_table import ArrowTable
from jetarrow.jetstream.models.values import from_rfc3339

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# Names of the event types, and of the connection kinds in the order of nats-server's client.go.
_EVENTS = {
    "in": "ingress",
    "eg": "egress",
    "js": "jetstream",
    "se": "stream export",
    "si": "service import",
    "sm": "subject mapping",
}
_KINDS = ("client", "router", "gateway", "system", "leafnode", "jetstream", "account")
COLUMNS = ("server", "kind", "event", "account", "detail")


@dataclass(frozen=True)
class TraceEvent:
    """One event on the way of a message.

    Attributes:
        server: Name of the server.
        kind: Kind of the connection that the message came from (ingress) or went to (egress): "client", "router",
            "gateway", "leafnode", "jetstream", "system" or "account"; None for other events.
        event: "ingress", "egress", "jetstream", "stream export", "service import" or "subject mapping".
        account: Name of the account.
        detail: The connection, subscription, stream or subject, and the error.
        time: Time of the event by the server's clock, UTC.
        hop: The server's place on the way: empty for the first one, "1" and "2" for servers that it forwarded to, "1.1"
            for one that "1" forwarded to.
        error: Reason why the message was not delivered or stored; None if it was.
        data: The event as the server sent it.
    """

    server: str
    kind: str | None
    event: str
    account: str
    detail: str
    time: datetime | None
    hop: str
    error: str | None
    data: Mapping[str, Any]


class Trace:
    """The events on the way of a message, in the order of the way. Created by `nc.trace(...)`.

    It is a sequence of `TraceEvent`, and an Arrow producer: a table with the columns `server`, `kind`, `event`,
    `account` and `detail`, all strings.

    Attributes:
        subject: The subject of the message.
        missing: Hops of servers that the message was forwarded to and that reported nothing in time.
    """

    def __init__(self, subject: str, events: Sequence[TraceEvent], missing: Sequence[str] = ()) -> None:
        self.subject = subject
        self._events = list(events)
        self.missing = list(missing)

    @property
    def events(self) -> list[TraceEvent]:
        """The events."""
        return list(self._events)

    @property
    def is_complete(self) -> bool:
        """Whether every server on the way reported its events."""
        return not self.missing

    @property
    def errors(self) -> list[TraceEvent]:
        """The events with an error: deliveries that did not happen."""
        return [event for event in self._events if event.error is not None]

    def _rows(self) -> list[tuple[str, ...]]:
        return [tuple(_printable(getattr(event, name) or "") for name in COLUMNS) for event in self._events]

    def _table(self) -> ArrowTable:
        pa = needs_pyarrow("the Arrow export of a trace")
        schema = pa.schema([(name, pa.string()) for name in COLUMNS])
        rows = [{name: getattr(event, name) for name in COLUMNS} for event in self._events]
        return ArrowTable(pa.Table.from_pylist(rows, schema))

    def to_pyarrow(self) -> pyarrow.Table:
        """The table as a `pyarrow.Table`."""
        return self._table().to_pyarrow()

    def to_polars(self) -> polars.DataFrame:
        """The table as a `polars.DataFrame`."""
        return self._table().to_polars()

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """The table as a `pandas.DataFrame`.

        Args:
            **options: The options of `pyarrow.Table.to_pandas`.
        """
        return self._table().to_pandas(**options)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[TraceEvent]:
        return iter(self._events)

    def __getitem__(self, index: int) -> TraceEvent:
        return self._events[index]

    def _caption(self) -> str:
        missing = "" if self.is_complete else f", no report of hops {', '.join(self.missing)}"
        return f"Trace of {self.subject!r}: {len(self)} events{missing}"

    def __repr__(self) -> str:
        rows = [COLUMNS, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join([f"<{self._caption()}>", *lines])

    def _repr_html_(self) -> str:
        return html.table(self._caption(), COLUMNS, self._rows())


def _printable(text: str) -> str:
    """The text, with characters that control a terminal escaped: names of servers come from the network."""
    return text if text.isprintable() else repr(text)[1:-1]


def events_of(hop: str, report: Mapping[str, Any]) -> Iterator[TraceEvent]:
    """The events of one server's report.

    Args:
        hop: Place of the server on the way; empty for the first one.
        report: The server's report.
    """
    server = report.get("server") or {}
    account = str(report["events"][0].get("acc") or "")
    for event in report["events"]:
        kind, text = event.get("kind"), event.get("ts")
        error = event.get("error") or None
        detail = _detail(event)
        yield TraceEvent(
            server=str(server.get("name") or server.get("id") or ""),
            kind=_KINDS[kind] if isinstance(kind, int) and 0 <= kind < len(_KINDS) else None,
            event=_EVENTS.get(event.get("type"), str(event.get("type"))),
            account=str(event.get("acc") or account),
            detail=f"{detail}: {error}" if error else detail,
            time=from_rfc3339(text) if text else None,
            hop=hop,
            error=error,
            data=event,
        )


def _detail(event: Mapping[str, Any]) -> str:
    """The connection, subscription, stream or subject of an event."""
    name = f" {event['name']!r}" if event.get("name") else ""
    match event.get("type"):
        case "in":
            return f"subject {event.get('subj')!r} from{name or ' a connection'} (cid {event.get('cid')})"
        case "eg":
            place = f", hop {event['hop']}" if event.get("hop") else ""
            sub = f", subscription {event['sub']!r}" if event.get("sub") else ""
            queue = f", queue {event['queue']!r}" if event.get("queue") else ""
            return f"to{name or ' a connection'} (cid {event.get('cid')}){sub}{queue}{place}"
        case "js":
            subject = f", subject {event['subject']!r}" if event.get("subject") else ""
            return f"stream {event.get('stream')!r}{subject}{', no interest' if event.get('nointerest') else ''}"
        case "si":
            return f"from {event.get('from')!r} to {event.get('to')!r}"
        case _:
            return f"to {event.get('to')!r}"
