"""`jetarrow top`: display rates of streams and lag of consumers."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import output, terminal
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import show_size, span

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jetarrow.sync import JetStream


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "top", example="jetarrow top --every 2s")(top)


@dataclass
class _Sample:
    """State of the server at one time: streams by name, consumers by stream and name."""

    at: float = field(default_factory=time.monotonic)
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    consumers: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


def top(
    session: Session,
    every: Annotated[str, typer.Option(help="Refresh interval.", metavar="SPAN")] = "1s",
    once: Annotated[bool, typer.Option(help="Measure one interval, write it and exit.")] = False,
) -> None:
    """Shows message rates of streams and lag of consumers; q quits."""
    seconds = span(every)
    if seconds < 0.1:
        raise typer.BadParameter("the minimum is 100ms.", param_hint="--every")
    js = session.js
    if once or session.as_json or not sys.stdout.isatty():
        before = _sample(js)
        time.sleep(seconds)
        _write(session, *_rates(before, _sample(js)))
        return
    from rich.live import Live

    before = after = _sample(js)
    console = output.console()
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        terminal.guard_proxies()
        while True:
            live.update(_screen(*_rates(before, after), console.height), refresh=True)
            if pressed(seconds) == "q":
                return
            before, after = after, _sample(js)


def _sample(js: JetStream) -> _Sample:
    from jetarrow.js.errors import NotFoundError

    sample = _Sample()
    for info in js.streams():
        name, state = info.config.name or "", info.state
        sample.streams[name] = {"messages": state.messages, "bytes": state.bytes, "last_seq": state.last_seq}
        if not state.consumer_count:
            continue
        # The stream may have been deleted in the meantime.
        with contextlib.suppress(NotFoundError):
            for consumer in js.stream(name).consumers():
                sample.consumers[name, consumer.name] = {
                    "pending": consumer.num_pending or 0,
                    "ack_pending": consumer.num_ack_pending or 0,
                    "redelivered": consumer.num_redelivered or 0,
                    "delivered": consumer.delivered.consumer_seq if consumer.delivered else 0,
                }
    return sample


def _rates(before: _Sample, after: _Sample) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rates of streams and consumers: streams by rate, consumers by lag, the largest first."""
    seconds = max(after.at - before.at, 1e-9)

    def rate(now: int, was: int | None) -> float:
        # No rate after a counter was reset, as by recreating a stream.
        return 0.0 if was is None or now < was else (now - was) / seconds

    consumers = []
    for (stream, name), now in after.consumers.items():
        was = before.consumers.get((stream, name), {})
        speed = rate(now["delivered"], was.get("delivered"))
        shown = {key: now[key] for key in ("pending", "ack_pending", "redelivered")}
        left = now["pending"] / speed if speed else None
        consumers.append({"stream": stream, "consumer": name, "out_per_second": speed, **shown, "seconds_left": left})
    streams = []
    for name, now in after.streams.items():
        was = before.streams.get(name, {})
        streams.append(
            {
                "stream": name,
                "messages": now["messages"],
                "bytes": now["bytes"],
                "in_per_second": rate(now["last_seq"], was.get("last_seq")),
                "out_per_second": sum(one["out_per_second"] for one in consumers if one["stream"] == name),
                "bytes_in_per_second": rate(now["bytes"], was.get("bytes")),
                "lag": max((one["pending"] for one in consumers if one["stream"] == name), default=None),
            }
        )
    streams.sort(key=lambda one: (-float(one["in_per_second"] + one["out_per_second"]), one["stream"]))
    consumers.sort(key=lambda one: (-one["pending"], one["stream"], one["consumer"]))
    return streams, consumers


def _per_second(value: float) -> str:
    return f"{value:,.0f}"


_STREAMS = (
    Column("stream", "Stream"),
    Column("in_per_second", "In/s", _per_second),
    Column("bytes_in_per_second", "Bytes/s", show_size),
    Column("out_per_second", "Out/s", _per_second),
    Column("messages", "Messages"),
    Column("bytes", "Size", show_size),
    Column("lag", "Lag"),
)
_CONSUMERS = (
    Column("consumer", "Consumer"),
    Column("stream", "Stream"),
    Column("out_per_second", "Out/s", _per_second),
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
    parts: list[RenderableType] = []
    for rows, columns, most in ((streams, _STREAMS, for_streams), (consumers, _CONSUMERS, for_consumers)):
        if rows:
            parts.append(output.table_of(rows[:most], columns))
            if most is not None and len(rows) > most:
                parts.append(Text(f"and {len(rows) - most:,} more", style="dim"))
            parts.append(Text())
    if height is not None:
        parts.append(Text("q quits", style="dim"))
    return Group(*parts)


@contextlib.contextmanager
def _keys() -> Iterator[Any]:
    """Provide a function that waits for a key press for a number of seconds; the terminal does not wait for Enter."""
    if sys.platform == "win32":
        yield _windows_key
        return
    if not sys.stdin.isatty():
        yield lambda seconds: time.sleep(seconds)
        return
    import termios
    import tty

    terminal = sys.stdin.fileno()
    former = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)

    def pressed(seconds: float) -> str | None:
        ready, _, _ = select.select([terminal], [], [], seconds)
        # End of input counts as q.
        return (os.read(terminal, 1) or b"q").decode("latin-1") if ready else None

    try:
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, former)


def _windows_key(seconds: float) -> str | None:
    import msvcrt

    keys: Any = msvcrt  # its functions exist on Windows only, for type checkers as well
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if keys.kbhit():
            return str(keys.getwch())
        time.sleep(0.02)
    return None
