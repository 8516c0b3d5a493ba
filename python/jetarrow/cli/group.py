"""`jetarrow group`: partitioned consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from jetarrow.cli import group_state, output
from jetarrow.cli.arguments import Stream, Yes
from jetarrow.cli.group_state import open_group, show_partitions, summary
from jetarrow.cli.json_shape import an_object, array_of
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import show_size, show_time
from jetarrow.core.errors import Error

if TYPE_CHECKING:
    from jetarrow.jetstream.groups.config import GroupConfig
    from jetarrow.sync import ConsumerGroup

group = typer.Typer(no_args_is_help=True, help="Partitioned consumer groups: list, create, change members, watch.")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
Members = Annotated[list[str], typer.Argument(metavar="MEMBER", help="The members.")]
Kind = Annotated[
    Literal["elastic", "static"] | None,
    typer.Option(help="Needed if the stream has groups of both kinds with this name."),
]


def add_to(app: typer.Typer) -> None:
    """Adds the group of subcommands."""
    app.add_typer(group, name="group")


@verb(
    group,
    "ls",
    example="jetarrow group ls ORDERS",
    json=array_of("stream name kind partitions filters members active pending problem"),
)
def ls(
    session: Session,
    stream: Annotated[str | None, typer.Argument(metavar="STREAM", help="The stream; all streams if omitted.")] = None,
) -> None:
    """Lists the consumer groups of a stream, or of all streams."""
    columns = [
        Column("stream", "Stream"),
        Column("name", "Group"),
        Column("kind", "Kind"),
        Column("partitions", "Partitions"),
        Column("filters", "Filter"),
        Column("members", "Members"),
        Column("active", "Active"),
        Column("pending", "To come"),
    ]
    if stream is not None:
        session.js.stream_info(stream)
    rows = [_row(session, one) for one in group_state.find_groups(session.js, stream)]
    if any(row["problem"] for row in rows):
        columns.append(Column("problem", "Problem"))
    session.rows(rows, columns, f"{f'stream {stream} has ' if stream else ''}no consumer groups")


def _row(session: Session, one: ConsumerGroup) -> dict[str, Any]:
    row: dict[str, Any] = {"stream": one.stream, "name": one.name, "kind": one.kind, "partitions": None}
    row |= {"filters": [], "members": [], "active": [], "pending": None, "problem": None}
    try:
        config, members = group_state.read_members(session.js, one)
    except Error as error:
        # The other groups are listed all the same.
        return {**row, "problem": str(error).removeprefix("nats: ")}
    counts = [(each["pending"] or 0) + (each["ack_pending"] or 0) for each in members]
    queue = group_state.queue_state(session.js, one, members)
    return row | {
        "partitions": config.partitions,
        "filters": [each.filter for each in config.filters],
        "members": [each["member"] for each in members],
        "active": [each["member"] for each in members if each["state"] in ("pinned", "waiting")],
        "pending": sum(counts) if queue["messages"] is None else queue["messages"] + (queue["source_lag"] or 0),
    }


@verb(
    group,
    "info",
    example="jetarrow group info ORDERS billing",
    json=an_object(
        f"{group_state.KEYS} work_queue messages source_lag unassigned "
        + " ".join(f"members[].{key}" for key in group_state.MEMBER.split())
    ),
)
def info(session: Session, stream: Stream, name: Name, kind: Kind = None) -> None:
    """Shows a consumer group: settings, members, the partitions of each, and the client that is pinned."""
    one = open_group(session.js, stream, name, kind)
    config, members = group_state.read_members(session.js, one)
    found = summary(one, config) | group_state.queue_state(session.js, one, members) | {"members": members}
    if session.as_json:
        output.json_document(found)
        return
    filters = [_filter_text(each, elastic=one.kind == "elastic") for each in found["filters"]]
    missing = one.kind == "elastic" and found["messages"] is None
    output.facts(
        [
            ("Group", f"{stream} > {name}"),
            ("Kind", one.kind),
            ("Partitions", config.partitions),
            ("Filter", filters or "all subjects"),
            ("Read from", f"{one.work_queue}, which does not exist" if missing else one.work_queue),
            ("Most messages buffered", found["max_buffered_msgs"]),
            ("Most bytes buffered", found["max_buffered_bytes"] and show_size(found["max_buffered_bytes"])),
            ("Messages buffered", found["messages"]),
            ("Not copied yet", found["source_lag"]),
            ("Without a consumer", found["unassigned"]),
        ]
    )
    output.line("")
    session.rows(
        members, MEMBERS, f"group {name} has no members; add one: jetarrow group add-member {stream} {name} m1"
    )


MEMBERS = (
    Column("member", "Member"),
    Column("state", "State"),
    Column("partitions", "Partitions", show_partitions),
    Column("pending", "To come"),
    Column("ack_pending", "Unacknowledged"),
    Column("waiting", "Requests"),
    Column("pinned", "Pinned client"),
    Column("pinned_since", "Since", show_time),
)


def _filter_text(one: dict[str, Any], *, elastic: bool) -> str:
    """As `orders.*.* by 1, 2`."""
    if not elastic:
        return str(one["filter"])
    return f"{one['filter']} by {', '.join(map(str, one['wildcards'])) or 'the whole subject'}"


@verb(
    group,
    "add-member",
    example="jetarrow group add-member ORDERS billing m2 m3",
    json=an_object("stream name members"),
)
def add_member(session: Session, stream: Stream, name: Name, members: Members) -> None:
    """Adds members to an elastic group; running members share the partitions anew."""
    one = open_group(session.js, stream, name)
    before = one.info()
    config = one.add_member(*members)
    new = [each for each in config.members if each not in before.members]
    _changed(session, one, config, f"added {', '.join(new)} to" if new else "nothing to add to")


@verb(
    group,
    "remove-member",
    example="jetarrow group remove-member ORDERS billing m2",
    json=an_object("stream name members"),
)
def remove_member(session: Session, stream: Stream, name: Name, members: Members) -> None:
    """Removes members from an elastic group; the others read their partitions."""
    one = open_group(session.js, stream, name)
    before = one.info()
    config = one.remove_member(*members)
    old = [each for each in before.members if each not in config.members]
    _changed(session, one, config, f"removed {', '.join(old)} from" if old else "nothing to remove from")


def _changed(session: Session, one: ConsumerGroup, config: GroupConfig, action: str) -> None:
    members = list(group_state.partitions_of(config))
    text = f"{action} group {one.name} of stream {one.stream} (members: {', '.join(members) or 'none'})"
    session.done(text, stream=one.stream, name=one.name, members=members)


@verb(
    group,
    "step-down",
    example="jetarrow group step-down ORDERS billing m1",
    json=an_object("stream name member"),
)
def step_down(
    session: Session,
    stream: Stream,
    name: Name,
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="The member.")],
    kind: Kind = None,
) -> None:
    """Unpins the client of a member, so that another client under its name takes over."""
    one = open_group(session.js, stream, name, kind)
    config = one.info()
    if member not in group_state.partitions_of(config):
        raise RuntimeError(
            f"group {name!r} of stream {stream!r} has no member {member!r}; list them: jetarrow group info"
            f" {stream} {name}"
        )
    one.step_down(member)
    session.done(f"unpinned the client of member {member} of group {name}", stream=stream, name=name, member=member)


@verb(group, "rm", example="jetarrow group rm ORDERS billing --yes", json=an_object("removed"))
def rm(session: Session, stream: Stream, name: Name, kind: Kind = None, yes: Yes = False) -> None:
    """Removes a consumer group with its consumers, and the work queue of an elastic one with its messages."""
    one = open_group(session.js, stream, name, kind)
    more = " and the messages that it has not processed" if one.kind == "elastic" else ""
    session.confirm(f"Remove group {name} of stream {stream}{more}?", yes=yes)
    one.delete()
    session.done(f"removed group {name} of stream {stream}", removed=name)
