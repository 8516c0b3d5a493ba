"""`jetarrow group create`: consumer groups from options."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from jetarrow.cli import group, group_state
from jetarrow.cli.arguments import Stream
from jetarrow.cli.group_state import open_group
from jetarrow.cli.json_shape import an_object
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted, size
from jetarrow.cli.usage import exclusive
from jetarrow.jetstream.errors import GroupNotFoundError
from jetarrow.jetstream.literals import GroupKind


def numbers(text: str) -> tuple[int, ...]:
    """Parse numbers separated with commas.

    Args:
        text: Value of the option; empty for none.
    """
    try:
        return tuple(int(one) for one in text.split(",") if one.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1,2.") from None


@verb(
    group.group,
    "create",
    example="jetarrow group create ORDERS billing --partitions 12 --filter 'orders.*.>' --partition-by 1",
    json=an_object("stream name kind partitions members created"),
)
def create(
    session: Session,
    stream: Stream,
    name: group.Name,
    partitions: Annotated[int, typer.Option(help="Number of partitions, at most one member each.", min=1)],
    kind: Annotated[
        Literal["elastic", "static"],
        typer.Option(help="elastic: members change at any time; static: the stream's subjects begin with a partition."),
    ] = "elastic",
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="Subjects to read; repeat the option for more. Default: all.", metavar="FILTER"),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(
            help="Numbers of the filter's wildcards that decide the partition: 1,2. One option, or one for each"
            " filter. Default: the whole subject.",
            metavar="NUMBERS",
        ),
    ] = None,
    member: Annotated[list[str] | None, typer.Option(help="A member; repeat the option for more.")] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option("--map", help="A member with its partitions, instead of --member: m1:0,2.", metavar="MEMBER:N,N"),
    ] = None,
    max_buffered_msgs: Annotated[int, typer.Option(help="Most messages in the work queue.", min=0)] = 0,
    max_buffered_bytes: Annotated[
        int | None, typer.Option(help="Largest size of the work queue.", parser=size, metavar="SIZE")
    ] = None,
) -> None:
    """Creates a consumer group; succeeds if it exists with the same settings."""
    exclusive(member=member, map=mapping)
    if kind == "static" and (partition_by or max_buffered_msgs or max_buffered_bytes):
        raise typer.BadParameter("a static group has no --partition-by and no buffer.", param_hint="--kind")
    keys = _partition_by(filters or [], partition_by or [])
    mappings = dict(map(_mapping, mapping or ()))
    is_new = not _exists(session, stream, name, kind)
    found = session.js.create_consumer_group(
        stream,
        name,
        kind=kind,
        partitions=partitions,
        filter=filters,
        partition_by=keys,
        members=member or (),
        mappings=mappings or None,
        max_buffered_msgs=max_buffered_msgs,
        max_buffered_bytes=max_buffered_bytes or 0,
    ).info()
    members = list(group_state.partitions_of(found))
    session.done(
        f"{'created' if is_new else 'kept'} {kind} group {name} of stream {stream}"
        f" ({counted(partitions, 'partition')}, members: {', '.join(members) or 'none'})",
        stream=stream,
        name=name,
        kind=kind,
        partitions=found.partitions,
        members=members,
        created=is_new,
    )


def _exists(session: Session, stream: str, name: str, kind: GroupKind) -> bool:
    try:
        open_group(session.js, stream, name, kind)
    except GroupNotFoundError:
        return False
    return True


def _partition_by(filters: list[str], given: list[str]) -> list[tuple[int, ...]] | None:
    if not given:
        return None
    if not filters:
        raise typer.BadParameter("it needs --filter, whose wildcards it numbers.", param_hint="--partition-by")
    if len(given) not in (1, len(filters)):
        raise typer.BadParameter("give one for all filters, or one for each.", param_hint="--partition-by")
    each = [numbers(one) for one in given]
    return each if len(each) > 1 else each * len(filters)


def _mapping(text: str) -> tuple[str, tuple[int, ...]]:
    name, colon, partitions = text.partition(":")
    if not colon:
        raise typer.BadParameter(f"{text!r} is not a member with partitions such as m1:0,2.", param_hint="--map")
    return name, numbers(partitions)
