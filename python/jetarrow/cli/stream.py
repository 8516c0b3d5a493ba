"""`jetarrow stream`: list, show, create, purge and remove streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from jetarrow.cli import output
from jetarrow.cli.arguments import Storage, Stream, Yes
from jetarrow.cli.json_shape import an_object, array_of
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted, plain_time, show_size, show_span, show_time, size, span
from jetarrow.cli.usage import exclusive

if TYPE_CHECKING:
    from jetarrow.js.api import RawStreamMsg, StreamInfo

group = typer.Typer(no_args_is_help=True, help="Streams: list, show, create, purge, remove.")


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    app.add_typer(group, name="stream")


# Error code of the server for a message that does not exist (server/errors.json).
_NO_MESSAGE = 10037
# Keys of a stream in lists.
ROW = "name subjects messages bytes consumers first_seq last_seq last_time storage retention replicas leader"


def row(info: StreamInfo) -> dict[str, Any]:
    """Return a stream as a row of a list."""
    config, state = info.config, info.state
    return {
        "name": config.name,
        "subjects": config.subjects or [],
        "messages": state.messages,
        "bytes": state.bytes,
        "consumers": state.consumer_count,
        "first_seq": state.first_seq,
        "last_seq": state.last_seq,
        "last_time": plain_time(state.last_ts),
        "storage": str(config.storage or ""),
        "retention": str(config.retention or ""),
        "replicas": config.num_replicas,
        "leader": info.cluster.leader if info.cluster else None,
    }


_LIST = (
    Column("name", "Stream"),
    Column("subjects", "Subjects"),
    Column("messages", "Messages"),
    Column("bytes", "Size", show_size),
    Column("consumers", "Consumers"),
    Column("last_time", "Last message", show_time),
)


@verb(group, "ls", example="jetarrow stream ls", json=array_of(ROW))
def ls(
    session: Session,
    subject: Annotated[str | None, typer.Option(help="Only streams that store this subject.")] = None,
) -> None:
    """Lists the streams."""
    found = [row(info) for info in session.js.streams(subject)]
    session.rows(found, _LIST, "no streams; create one: jetarrow stream add ORDERS --subjects 'orders.>'")


@verb(
    group,
    "info",
    example="jetarrow stream info ORDERS",
    json=an_object("type config created state total? offset? limit? ts? cluster? mirror? sources? alternates? domain?"),
)
def info(session: Session, name: Stream) -> None:
    """Shows configuration and state of a stream; `--json` writes the server's response."""
    found = session.js.stream_info(name)
    config, state = found.config, found.state
    session.facts(
        found.as_dict(),
        [
            ("Stream", config.name),
            ("Description", config.description),
            ("Subjects", config.subjects),
            ("Mirror of", config.mirror and config.mirror.name),
            ("Sources", [source.name for source in config.sources or ()]),
            ("Created", show_time(found.created)),
            ("Storage", f"{config.storage}, {config.num_replicas or 1} replica(s)"),
            ("Retention", config.retention),
            ("Discard", config.discard),
            ("Most messages", config.max_msgs if (config.max_msgs or -1) > 0 else "unlimited"),
            ("Most a subject", config.max_msgs_per_subject if config.max_msgs_per_subject > 0 else "unlimited"),
            ("Most bytes", show_size(config.max_bytes)),
            ("Largest message", show_size(config.max_msg_size)),
            ("Oldest", show_span(config.max_age) or "unlimited"),
            ("Duplicate window", show_span(config.duplicate_window)),
            ("Messages", state.messages),
            ("Size", show_size(state.bytes)),
            ("First", f"{state.first_seq} {show_time(state.first_ts)}"),
            ("Last", f"{state.last_seq} {show_time(state.last_ts)}"),
            ("Deleted", state.num_deleted),
            ("Subjects held", state.num_subjects),
            ("Consumers", state.consumer_count),
            ("Leader", found.cluster and found.cluster.leader),
        ],
    )


@verb(
    group,
    "add",
    example="jetarrow stream add ORDERS --subjects 'orders.>' --max-age 7d --max-bytes 10GiB",
    json=an_object(ROW),
)
def add(
    session: Session,
    name: Stream,
    subjects: Annotated[
        list[str] | None, typer.Option(help="Subjects that it stores; repeat the option, or separate with commas.")
    ] = None,
    storage: Storage = "file",
    retention: Annotated[
        Literal["limits", "interest", "workqueue"], typer.Option(help="Condition for removing messages.")
    ] = "limits",
    replicas: Annotated[int, typer.Option(help="Number of replicas.", min=1, max=5)] = 1,
    max_age: Annotated[
        float | None, typer.Option(help="Maximum age of a message.", parser=span, metavar="SPAN")
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option(help="Maximum size of the stream.", parser=size, metavar="SIZE")
    ] = None,
    max_msgs: Annotated[int | None, typer.Option(help="Maximum number of messages.")] = None,
    max_per_subject: Annotated[int | None, typer.Option(help="Maximum number of messages of one subject.")] = None,
    max_msg_size: Annotated[
        int | None, typer.Option(help="Maximum size of a message.", parser=size, metavar="SIZE")
    ] = None,
    discard: Annotated[
        Literal["old", "new"], typer.Option(help="At a limit: old discards the oldest messages, new rejects new ones.")
    ] = "old",
    dupe_window: Annotated[
        float | None, typer.Option(help="Duration for which message ids are tracked.", parser=span, metavar="SPAN")
    ] = None,
    mirror: Annotated[str | None, typer.Option(help="The stream that it mirrors.")] = None,
    compression: Annotated[Literal["none", "s2"] | None, typer.Option(help="Compression on disk.")] = None,
    description: Annotated[str | None, typer.Option(help="Description.")] = None,
    allow_atomic: Annotated[
        bool, typer.Option("--allow-atomic", help="Accept atomic batches, as the target of a pipe needs.")
    ] = False,
) -> None:
    """Creates a stream. Without --subjects its only subject is its name."""
    from jetarrow.js.api import StreamSource

    fields: dict[str, Any] = {
        "subjects": [one for text in subjects or () for one in text.split(",")] or None,
        "max_age": max_age,
        "max_bytes": max_bytes,
        "max_msgs": max_msgs,
        "max_msgs_per_subject": max_per_subject,
        "max_msg_size": max_msg_size,
        "duplicate_window": dupe_window,
        "mirror": StreamSource(name=mirror) if mirror else None,
        "compression": compression,
        "description": description,
        "allow_atomic": allow_atomic or None,
    }
    made = session.js.add_stream(
        name=name,
        storage=storage,
        retention=retention,
        num_replicas=replicas,
        discard=discard,
        **{key: value for key, value in fields.items() if value is not None},
    )
    source = f"mirror of {mirror}" if mirror else f"subjects: {', '.join(made.config.subjects or ())}"
    session.done(f"created stream {name} ({source})", **row(made))


@verb(group, "rm", example="jetarrow stream rm ORDERS --yes", json=an_object("removed"))
def rm(session: Session, name: Stream, yes: Yes = False) -> None:
    """Removes a stream with all its messages and consumers."""
    if not yes:
        held = session.js.stream_info(name).state.messages
        session.confirm(f"Remove stream {name} with {held:,} messages?", yes=yes)
    session.js.delete_stream(name)
    session.done(f"removed stream {name}", removed=name)


@verb(group, "purge", example="jetarrow stream purge ORDERS --subject 'orders.eu.*' --yes", json=an_object("purged"))
def purge(
    session: Session,
    name: Stream,
    subject: Annotated[str | None, typer.Option(help="Only these subjects.")] = None,
    seq: Annotated[int | None, typer.Option(help="Only messages before this sequence.")] = None,
    keep: Annotated[int | None, typer.Option(help="Number of newest messages to keep.")] = None,
    yes: Yes = False,
) -> None:
    """Removes messages of a stream: all of them, or those that the options select."""
    exclusive(seq=seq, keep=keep)
    which = "some" if subject or seq or keep else "all"
    session.confirm(f"Remove {which} messages of stream {name}?", yes=yes)
    purged = session.js.stream(name).purge(seq=seq, subject=subject, keep=keep)
    session.done(f"purged {counted(purged, 'message')} from stream {name}", purged=purged)


@verb(group, "subjects", example="jetarrow stream subjects ORDERS 'orders.eu.>'", json=array_of("subject messages"))
def subjects(
    session: Session,
    name: Stream,
    pattern: Annotated[str, typer.Argument(metavar="FILTER", help="Subjects to list.")] = ">",
) -> None:
    """Lists the subjects of a stream with their number of messages."""
    held = session.js.stream_info(name, subjects_filter=pattern).state.subjects or {}
    rows = [{"subject": subject, "messages": held[subject]} for subject in sorted(held)]
    session.rows(
        rows,
        (Column("subject", "Subject"), Column("messages", "Messages")),
        f"stream {name} has no messages of subject {pattern}",
    )


def _message(session: Session, name: str, seq: int | None, subject: str | None) -> RawStreamMsg:
    """Return a stored message; the error for a missing one names it and the range of the stream."""
    from jetarrow.js.errors import NotFoundError

    try:
        return session.js.get_msg(name, seq, subject)
    except NotFoundError as error:
        if error.err_code != _NO_MESSAGE:
            raise
        which = f"sequence {seq}" if subject is None else f"subject {subject!r}"
        state = session.js.stream_info(name).state
        held = f"has sequences {state.first_seq:,} to {state.last_seq:,}" if state.messages else "is empty"
        deleted = f", {state.num_deleted:,} of them deleted" if state.num_deleted else ""
        raise RuntimeError(
            f"could not read {which} of stream {name!r}: no message found (err_code {_NO_MESSAGE}); the stream"
            f" {held}{deleted}"
        ) from error


@verb(group, "get", example="jetarrow stream get ORDERS 17", json=an_object("seq subject timestamp headers data"))
def get(
    session: Session,
    name: Stream,
    seq: Annotated[int | None, typer.Argument(metavar="SEQ", help="The sequence.")] = None,
    subject: Annotated[
        str | None, typer.Option(help="Instead of a sequence: the last message of this subject.")
    ] = None,
) -> None:
    """Shows one message: its payload on stdout, subject, time and headers on stderr."""
    if (seq is None) == (subject is None):
        raise typer.BadParameter("give a sequence, or --subject for the last message of a subject.")
    message = _message(session, name, seq, subject)
    data = message.data or b""
    if session.as_json:
        output.json_document(
            {
                "seq": message.seq,
                "subject": message.subject,
                "timestamp": message.time,
                "headers": message.headers_all,
                "data": data,
            }
        )
        return
    headers = [f"{key}: {value}" for key, values in (message.headers_all or {}).items() for value in values]
    session.say(f"{message.seq}  {show_time(message.time)}  {message.subject}")
    for header in headers:
        session.say(header)
    typer.echo(data)
