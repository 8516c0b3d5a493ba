"""`jetarrow lag`: lag of consumers as a table, or as an HTTP endpoint for Prometheus and KEDA."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import signals
from jetarrow.cli.json_shape import an_object, array_of
from jetarrow.cli.output import Column
from jetarrow.cli.rates import is_temporary
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted, show_behind, show_time

if TYPE_CHECKING:
    import jetarrow.sync

# Keys of a consumer in the output of `--json`.
_KEYS = (
    "stream consumer kind filter_subjects num_pending num_ack_pending num_redelivered num_waiting ack_floor last_active"
    " paused behind"
)
SHAPE = array_of(_KEYS)
_SHAPES = (array_of(_KEYS, when="without --serve"), an_object("url", when="with --serve"))

Temporary = Annotated[
    bool, typer.Option("--all", help="Include temporary consumers of reads and sinks, which may have ended.")
]

_COLUMNS = (
    Column("stream", "Stream"),
    Column("consumer", "Consumer"),
    Column("num_pending", "To come"),
    Column("num_ack_pending", "Unacknowledged"),
    Column("num_redelivered", "Redelivered"),
    Column("behind", "Behind", show_behind),
    Column("last_active", "Last active", show_time),
)


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "lag", example="jetarrow lag ORDERS --serve :9464", json=_SHAPES)(lag)


def lag(
    session: Session,
    streams: Annotated[
        list[str] | None, typer.Argument(metavar="STREAM", help="The streams; all streams if omitted.")
    ] = None,
    temporary: Temporary = False,
    serve: Annotated[
        str | None,
        typer.Option(
            help="Serve /metrics (Prometheus) and /lag (JSON, for KEDA) over HTTP until Ctrl-C or SIGTERM. Without HOST"
            " only this machine can connect; 0.0.0.0:PORT is every IPv4 interface. Port 0 selects a free one.",
            metavar="[HOST]:PORT",
        ),
    ] = None,
) -> None:
    """Lists the lag of consumers in messages and in time, the largest first, or serves it over HTTP."""
    if serve is None:
        write(session, streams or None, temporary=temporary)
    else:
        _serve(session, streams or None, serve, temporary=temporary)


def write(session: Session, streams: str | Sequence[str] | None, *, temporary: bool) -> None:
    """Write the lag of consumers as a table or as JSON, the largest first.

    Args:
        session: The session.
        streams: One stream or several; None is every stream.
        temporary: Whether to include the consumers of reads and sinks.
    """
    found = session.js.lag(streams).to_pylist()
    rows = _shown(found, temporary=temporary)
    if len(rows) < len(found) and not session.as_json:
        left_out = counted(len(found) - len(rows), "temporary consumer")
        session.say(f"not counted: {left_out} of reads and sinks; --all lists them")
    rows.sort(key=lambda row: (-(row["num_pending"] + row["num_ack_pending"]), row["stream"], row["consumer"]))
    session.rows(rows, _COLUMNS, "no consumers")


def _shown(rows: list[dict[str, Any]], *, temporary: bool) -> list[dict[str, Any]]:
    return [row for row in rows if temporary or not is_temporary(row["consumer"])]


class _Source:
    """Reads the lag from the server, over a connection that is opened again after it was closed."""

    def __init__(self, session: Session, streams: Sequence[str] | None, *, temporary: bool) -> None:
        self._session = session
        self._streams = streams
        self._temporary = temporary
        self._nc: jetarrow.sync.Client | None = None

    def __call__(self) -> list[dict[str, Any]]:
        if self._nc is None or self._nc.is_closed:
            # Without a limit, because a scrape after an outage must find the server again.
            self._nc = self._session.connect(
                max_reconnect_attempts=0,
                error_cb=lambda _: None,
                reconnected_cb=lambda: self._session.say("reconnected to the NATS server"),
            )
        if not self._nc.is_connected:
            # At once: a request would wait for the reconnect until its timeout, longer than KEDA's (3 s).
            raise ConnectionError("not connected to the NATS server: reconnecting")
        rows = self._session.jetstream(self._nc).lag(self._streams).to_pylist()
        return _shown(rows, temporary=self._temporary)

    def close(self) -> None:
        if self._nc is not None:
            self._nc.close()


def _serve(session: Session, streams: Sequence[str] | None, address: str, *, temporary: bool) -> None:
    from jetarrow.cli.lag_server import LagServer, address_of

    where = address_of(address)
    source = _Source(session, streams, temporary=temporary)
    with contextlib.closing(source):
        # Fails here for a wrong address, password or stream; later failures are part of the answers.
        source()
        with LagServer(where, source, streams or ()) as server:
            session.done(f"serving {server.url}/metrics and {server.url}/lag", url=server.url)
            typer.get_text_stream("stdout").flush()
            if not session.as_json:
                session.say("stop it with Ctrl-C")
            with signals.stopping(server.shutdown):
                server.serve_forever(0.1)
    if signals.exit_code() != signals.TERMINATED:
        raise KeyboardInterrupt
