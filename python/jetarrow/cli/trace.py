"""`jetarrow trace`: the way of a message through the servers."""

from __future__ import annotations

from typing import Annotated

import typer

from jetarrow.cli.json_shape import array_of
from jetarrow.cli.output import Column, plain
from jetarrow.cli.publish import headers_of
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import show_server

_COLUMNS = (
    Column("server", "Server", show_server),
    Column("hop", "Hop"),
    Column("kind", "Kind"),
    Column("event", "Event"),
    Column("account", "Account"),
    Column("detail", "Detail"),
)
_KEYS = "server hop kind event account detail time error"


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "trace", example="jetarrow trace orders.eu", json=array_of(_KEYS))(trace)


def trace(
    session: Session,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Subject of the message.")],
    payload: Annotated[str, typer.Argument(metavar="PAYLOAD", help="Payload; empty if omitted.")] = "",
    header: Annotated[list[str] | None, typer.Option("--header", "-H", help="Header, as 'Name: value'.")] = None,
    deliver: Annotated[bool, typer.Option("--deliver", help="Also deliver and store the message.")] = False,
) -> None:
    """Traces a message through servers, accounts, subscriptions and streams; by default it is not delivered."""
    timeout = session.given.get("timeout") or 2.0
    found = session.nc.trace(subject, payload, headers=headers_of(header or ()), deliver=deliver, timeout=timeout)
    rows = [{key: plain(getattr(event, key)) for key in _KEYS.split()} for event in found]
    session.rows(rows, _COLUMNS, "no events")
    if not found.is_complete:
        session.say(f"warning: no report of the servers at hop {', '.join(found.missing)}")
