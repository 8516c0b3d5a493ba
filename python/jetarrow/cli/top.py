"""`jetarrow top`: display rates of streams and lag of consumers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import output
from jetarrow.cli.json_shape import an_object
from jetarrow.cli.live import interval, measure_once, redraw, table_parts
from jetarrow.cli.output import Column
from jetarrow.cli.rates import rates_of
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import show_change, show_rate, show_size

if TYPE_CHECKING:
    from rich.console import RenderableType

_SHAPE = an_object(
    "streams[].stream streams[].messages streams[].bytes streams[].max_bytes streams[].storage"
    " streams[].in_per_second streams[].out_per_second streams[].bytes_per_second streams[].lag"
    " consumers[].stream consumers[].consumer consumers[].out_per_second consumers[].pending consumers[].ack_pending"
    " consumers[].redelivered consumers[].seconds_left"
)


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "top", example="jetarrow top --every 2s", json=_SHAPE)(top)


def top(
    session: Session,
    every: Annotated[str, typer.Option(help="Refresh interval.", metavar="SPAN")] = "1s",
    once: Annotated[bool, typer.Option(help="Measure one interval, write it and exit.")] = False,
) -> None:
    """Shows rates, storage and lag of streams and consumers as they change; q quits."""
    seconds, js = interval(every), session.js
    if once or session.as_json or not sys.stdout.isatty():
        _write(session, *rates_of(*measure_once(js, seconds)))
    else:
        redraw(js, seconds, lambda before, after, height: _screen(*rates_of(before, after), height))


_STREAMS = (
    Column("stream", "Stream"),
    Column("in_per_second", "In/s", show_rate),
    Column("out_per_second", "Out/s", show_rate),
    Column("messages", "Messages"),
    Column("bytes", "Size", show_size),
    Column("bytes_per_second", "Size/s", show_change),
    Column("storage", "Storage"),
    Column("lag", "Lag"),
)
_CONSUMERS = (
    Column("consumer", "Consumer"),
    Column("stream", "Stream"),
    Column("out_per_second", "Out/s", show_rate),
    Column("pending", "Lag"),
    Column("ack_pending", "Unacknowledged"),
    Column("redelivered", "Redelivered"),
)


def _write(session: Session, streams: list[dict[str, Any]], consumers: list[dict[str, Any]]) -> None:
    if session.as_json:
        output.json_document({"streams": streams, "consumers": consumers})
    else:
        output.console().print(_screen(streams, consumers, None))


def _screen(streams: list[dict[str, Any]], consumers: list[dict[str, Any]], height: int | None) -> RenderableType:
    """Return both tables; with a height, as many rows of each as fit and the number of omitted rows."""
    from rich.console import Group
    from rich.text import Text

    if not streams:
        return Text("no streams")
    for_consumers = for_streams = None
    if height is not None:
        # Rows for headings, omitted counts and the last line.
        room = max(height - 10, 4)
        for_consumers = max(min(len(consumers), room // 2), room - len(streams))
        for_streams = room - min(len(consumers), for_consumers)
    parts = [*table_parts(streams, _STREAMS, for_streams), *table_parts(consumers, _CONSUMERS, for_consumers)]
    if height is not None:
        parts.append(Text("q quits", style="dim"))
    return Group(*parts)
