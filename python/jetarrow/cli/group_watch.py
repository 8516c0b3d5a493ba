"""`jetarrow group watch`: members of a consumer group as they change."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import group, group_state, output, signals
from jetarrow.cli.arguments import Stream
from jetarrow.cli.group_state import MEMBER, show_partitions
from jetarrow.cli.json_shape import lines_of
from jetarrow.cli.live import interval, redraw_states, table_parts
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import plain_time, show_count
from jetarrow.jetstream.errors import GroupNotFoundError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jetarrow.sync import ConsumerGroup

# Rows of the members, and the state of the stream that they read.
State = tuple[list[dict[str, Any]], dict[str, Any]]
# Lines of the screen that are not members: facts, headings, omitted members and the last line.
_OTHER_LINES = 9
# Values that change with every message; a line of their own would be written at each interval.
_COUNTS = ("pending", "ack_pending", "redelivered", "waiting")


@verb(
    group.group,
    "watch",
    example="jetarrow group watch ORDERS billing",
    json=lines_of(f"time stream group {MEMBER}"),
)
def watch(
    session: Session,
    stream: Stream,
    name: group.Name,
    every: Annotated[str, typer.Option(help="Interval at which the server is asked.", metavar="SPAN")] = "1s",
    counts: Annotated[bool, typer.Option(help="Also write a line when only counts of messages change.")] = True,
    kind: group.Kind = None,
) -> None:
    """Shows the members of a group as they change: a table until q is pressed, or lines in a pipe and with --json."""
    seconds = interval(every)
    one = group_state.open_group(session.js, stream, name, kind)
    try:
        if session.as_json or not sys.stdout.isatty():
            _write_changes(session, one, seconds, counts=counts)
        else:
            redraw_states(lambda: _take(session, one), seconds, lambda _, state, height: _screen(one, state, height))
    except GroupNotFoundError:
        session.say(f"group {name} of stream {stream} was removed")


def _take(session: Session, one: ConsumerGroup) -> State:
    _, members = group_state.read_members(session.js, one)
    return members, group_state.queue_state(session.js, one, members)


def changes(before: list[dict[str, Any]], after: list[dict[str, Any]], *, counts: bool) -> list[dict[str, Any]]:
    """Return the rows of members that differ, in the order of their names; a removed member has the state `removed`.

    Args:
        before: Rows by `MEMBER`.
        after: Rows at a later time.
        counts: Whether rows that differ in counts of messages only are included.
    """
    former = {row["member"]: row for row in before}
    found = []
    for row in after:
        old = former.pop(row["member"], None)
        if old is None or _compared(old, counts=counts) != _compared(row, counts=counts):
            found.append(row)
    gone = [{**dict.fromkeys(MEMBER.split()), "member": name, "state": "removed", "partitions": []} for name in former]
    return sorted(found + gone, key=lambda row: str(row["member"]))


def _compared(row: dict[str, Any], *, counts: bool) -> dict[str, Any]:
    return row if counts else {key: value for key, value in row.items() if key not in _COUNTS}


def _write_changes(session: Session, one: ConsumerGroup, seconds: float, *, counts: bool) -> None:
    before: list[dict[str, Any]] = []
    while True:
        after, _ = _take(session, one)
        now = datetime.now(UTC)
        with signals.deferred(signals.STDOUT_DELAY):
            for row in changes(before, after, counts=counts):
                _write(session, one, now, row)
            sys.stdout.flush()
        before = after
        time.sleep(seconds)


def _write(session: Session, one: ConsumerGroup, now: datetime, row: dict[str, Any]) -> None:
    if session.as_json:
        output.json_line({"time": plain_time(now), "stream": one.stream, "group": one.name, **row})
        return
    parts = [f"{now.astimezone():%H:%M:%S}", row["member"], row["state"]]
    parts += [f"partitions {show_partitions(row['partitions'])}"] if row["partitions"] else []
    if row["pending"] is not None:
        parts.append(f"{show_count(row['pending'])} to come, {show_count(row['ack_pending'])} unacknowledged")
    parts += [f"client {row['pinned']}"] if row["pinned"] else []
    output.line("  ".join(parts))


def _screen(one: ConsumerGroup, state: State, height: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    members, queue = state
    facts = [f"{one.kind} group {one.name} of stream {one.stream}"]
    if queue["messages"] is not None:
        facts.append(
            f"{show_count(queue['messages'])} buffered, {show_count(queue['unassigned'])} of them without a consumer,"
            f" {show_count(queue['source_lag'])} not copied yet"
        )
    parts = table_parts(members, group.MEMBERS, max(height - _OTHER_LINES, 4)) or [Text("no members"), Text()]
    return Group(*map(Text, facts), Text(), *parts, Text("q quits", style="dim"))
