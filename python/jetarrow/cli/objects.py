"""`jetarrow object`: files in object stores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli.arguments import Storage, Yes
from jetarrow.cli.json_shape import an_object, array_of
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted, show_count, show_size, show_time, size, span

if TYPE_CHECKING:
    from jetarrow.js.api import ObjectInfo

group = typer.Typer(no_args_is_help=True, help="Object stores: put and get files of any size.")

Bucket = Annotated[str, typer.Argument(metavar="BUCKET", help="The object store.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The object.")]


# Keys of an object.
_KEYS = "name size chunks modified digest description deleted"


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    app.add_typer(group, name="object")


def _row(info: ObjectInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "size": info.size or 0,
        "chunks": info.chunks or 0,
        "modified": info.mtime,
        "digest": info.digest,
        "description": info.description,
        "deleted": bool(info.deleted),
    }


@verb(group, "add", example="jetarrow object add MODELS --max-bytes 50GiB", json=an_object("bucket"))
def add(
    session: Session,
    bucket: Bucket,
    ttl: Annotated[float | None, typer.Option(help="Maximum age of an object.", parser=span, metavar="SPAN")] = None,
    max_bytes: Annotated[
        int | None, typer.Option(help="Maximum size of the store.", parser=size, metavar="SIZE")
    ] = None,
    storage: Storage = "file",
    replicas: Annotated[int, typer.Option(help="Number of replicas.", min=1, max=5)] = 1,
    description: Annotated[str | None, typer.Option(help="Description.")] = None,
) -> None:
    """Creates an object store."""
    fields: dict[str, Any] = {"ttl": ttl, "max_bytes": max_bytes, "description": description}
    given = {name: value for name, value in fields.items() if value is not None}
    session.js.create_object_store(bucket=bucket, storage=storage, replicas=replicas, **given)
    session.done(f"created object store {bucket}", bucket=bucket)


@verb(group, "put", example="jetarrow object put MODELS model.bin", json=an_object(_KEYS))
def put(
    session: Session,
    bucket: Bucket,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file; - reads stdin.")],
    name: Annotated[str | None, typer.Option(help="Name of the object; default that of the file.")] = None,
) -> None:
    """Stores a file and replaces an object of the same name."""
    if file == "-" and name is None:
        raise typer.BadParameter("an object read from stdin needs a name.", param_hint="--name")
    store = session.js.object_store(bucket)
    with session.progress("bytes") as bar:
        task = bar.add_task("storing", total=None if file == "-" else Path(file).stat().st_size)

        def report(done: int, _total: int | None) -> None:
            bar.update(task, completed=done)

        try:
            if file == "-":
                info = store.put(name or "", sys.stdin.buffer, progress=report)
            else:
                info = store.put_file(name or Path(file).name, file, progress=report)
        except KeyboardInterrupt as error:
            text = f"{name or Path(file).name} was not stored; run the same command again"
            if getattr(error, "__notes__", None):
                # The server did not answer in time that it has removed the chunks.
                text += f", and `jetarrow object clean {bucket}` later: some of its data may still be there"
            session.stopped(text)
            raise
    session.done(f"stored {info.name} ({show_size(info.size)})", **_row(info))


@verb(group, "get", example="jetarrow object get MODELS model.bin --to model.bin", json=an_object("file " + _KEYS))
def get(
    session: Session,
    bucket: Bucket,
    name: Name,
    to: Annotated[
        str | None, typer.Option(help="The file; - writes to stdout; default the object's name in this folder.")
    ] = None,
) -> None:
    """Reads an object into a file, which is replaced once all data is written."""
    store = session.js.object_store(bucket)
    # An object's name is arbitrary text, so it selects a folder only with --to.
    target = to or Path(name).name
    with session.progress("bytes") as bar:
        task = bar.add_task("reading", total=None)

        def report(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        if target == "-":
            sys.stdout.flush()
            store.get(name, sys.stdout.buffer, progress=report)
            return
        try:
            info = store.get_file(name, target, progress=report)
        except KeyboardInterrupt:
            session.stopped(f"{target} was not written; run the same command again")
            raise
    session.done(f"wrote {target} ({show_size(info.size)})", file=target, **_row(info))


@verb(group, "ls", example="jetarrow object ls MODELS", json=(array_of("bucket size"), array_of(_KEYS, "with BUCKET")))
def ls(
    session: Session,
    bucket: Annotated[
        str | None, typer.Argument(metavar="BUCKET", help="The object store; lists the stores if omitted.")
    ] = None,
) -> None:
    """Lists the stores, or the objects of one."""
    if bucket is None:
        stores = [{"bucket": status.bucket, "size": status.size} for status in session.js.object_stores()]
        heads = (Column("bucket", "Store"), Column("size", "Size", show_size))
        session.rows(stores, heads, "no object stores; create one: jetarrow object add MODELS")
        return
    rows = [_row(info) for info in session.js.object_store(bucket).list(ignore_deletes=True)]
    objects = (Column("name", "Object"), Column("size", "Size", show_size), Column("modified", "Stored", show_time))
    session.rows(rows, objects, f"object store {bucket} has no objects")


@verb(group, "info", example="jetarrow object info MODELS model.bin", json=an_object(_KEYS))
def info(session: Session, bucket: Bucket, name: Name) -> None:
    """Shows the metadata of an object."""
    row = _row(session.js.object_store(bucket).get_info(name))
    session.facts(
        row,
        [
            ("Object", row["name"]),
            ("Description", row["description"]),
            ("Size", show_size(row["size"])),
            ("Chunks", row["chunks"]),
            ("Stored", show_time(row["modified"])),
            ("Digest", row["digest"]),
        ],
    )


@verb(group, "rm", example="jetarrow object rm MODELS model.bin --yes", json=an_object("removed"))
def rm(
    session: Session,
    bucket: Bucket,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The object; the whole store if omitted.")] = None,
    yes: Yes = False,
) -> None:
    """Removes an object, or an object store."""
    session.confirm(f"Remove {name or 'all objects'} of object store {bucket}?", yes=yes)
    if name is None:
        session.js.delete_object_store(bucket)
    else:
        session.js.object_store(bucket).delete(name)
    what = f"object store {bucket}" if name is None else f"{name} from object store {bucket}"
    session.done(f"removed {what}", removed=name or bucket)


@verb(
    group,
    "clean",
    example="jetarrow object clean MODELS --older-than 1h --dry-run",
    json=array_of("nuid name chunks size newest removed"),
)
def clean(
    session: Session,
    bucket: Bucket,
    older_than: Annotated[
        float | None,
        typer.Option(
            help="Minimum age of the chunks: younger ones may belong to a running put; default 1h.",
            parser=span,
            metavar="SPAN",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the chunks.")] = False,
) -> None:
    """Removes chunks that no object refers to, such as those of a put whose process was killed."""
    given = {} if older_than is None else {"older_than": older_than}
    found = session.js.object_store(bucket).clean(dry_run=dry_run, **given)
    rows = [
        {
            "nuid": each.nuid,
            "name": each.name,
            "chunks": each.chunks,
            "size": each.bytes,
            "newest": each.newest,
            "removed": not dry_run,
        }
        for each in found
    ]
    columns = (
        Column("nuid", "Chunks of"),
        Column("name", "Deleted object", lambda name: name or ""),
        Column("chunks", "Chunks", show_count),
        Column("size", "Size", show_size),
        Column("newest", "Newest", show_time),
    )
    session.rows(rows, columns, f"object store {bucket} has no chunks to remove")
    if found and not session.as_json:
        chunks = counted(sum(each.chunks for each in found), "chunk")
        total = f"{chunks} ({show_size(sum(each.bytes for each in found))})"
        session.say(f"{'would remove' if dry_run else 'removed'} {total} from object store {bucket}")
