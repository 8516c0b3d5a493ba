"""`jetarrow kv`: key-value buckets."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import output, signals
from jetarrow.cli.arguments import OnRollback, Storage, Yes
from jetarrow.cli.json_shape import an_object, array_of, lines_of, texts
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import plain_time, show_size, show_time, size, span
from jetarrow.cli.usage import exclusive

if TYPE_CHECKING:
    from jetarrow.jetstream.kv.entry import Entry

group = typer.Typer(no_args_is_help=True, help="Key-value buckets: get, put, watch, list.")

Bucket = Annotated[str, typer.Argument(metavar="BUCKET", help="The bucket.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]
Value = Annotated[str | None, typer.Argument(metavar="VALUE", help="The value; stdin if it is - or omitted.")]


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    app.add_typer(group, name="kv")


# Keys of a revision.
_KEYS = "bucket key value revision created operation"


def _value(given: str | None) -> bytes | str:
    return sys.stdin.buffer.read() if given in (None, "-") else str(given)


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "bucket": entry.bucket,
        "key": entry.key,
        "value": None if entry.operation else entry.value or b"",
        "revision": entry.revision,
        "created": plain_time(entry.created),
        "operation": entry.operation or "PUT",
    }


_ENTRY = (
    Column("revision", "Revision"),
    Column("created", "Created", show_time),
    Column("operation", "Operation"),
    Column("key", "Key"),
    Column("value", "Value"),
)


@verb(group, "add", example="jetarrow kv add CONFIG --history 5 --ttl 30d", json=an_object("bucket"))
def add(
    session: Session,
    bucket: Bucket,
    history: Annotated[int, typer.Option(help="Number of revisions kept of each key.", min=1, max=64)] = 1,
    ttl: Annotated[float | None, typer.Option(help="Maximum age of a value.", parser=span, metavar="SPAN")] = None,
    max_bytes: Annotated[
        int | None, typer.Option(help="Maximum size of the bucket.", parser=size, metavar="SIZE")
    ] = None,
    storage: Storage = "file",
    replicas: Annotated[int, typer.Option(help="Number of replicas.", min=1, max=5)] = 1,
) -> None:
    """Creates a bucket."""
    limits: dict[str, Any] = {"ttl": ttl, "max_bytes": max_bytes}
    session.js.create_key_value(
        bucket=bucket,
        history=history,
        storage=storage,
        replicas=replicas,
        **{name: value for name, value in limits.items() if value is not None},
    )
    session.done(f"created bucket {bucket}", bucket=bucket)


@verb(group, "rm", example="jetarrow kv rm CONFIG --yes", json=an_object("removed"))
def rm(session: Session, bucket: Bucket, yes: Yes = False) -> None:
    """Removes a bucket with all its keys."""
    session.confirm(f"Remove bucket {bucket} with all its keys?", yes=yes)
    session.js.delete_key_value(bucket)
    session.done(f"removed bucket {bucket}", removed=bucket)


@verb(
    group,
    "ls",
    example="jetarrow kv ls CONFIG 'limits.>'",
    json=(array_of("bucket values bytes history ttl"), texts("keys", "with BUCKET")),
)
def ls(
    session: Session,
    bucket: Annotated[
        str | None, typer.Argument(metavar="BUCKET", help="The bucket; lists the buckets if omitted.")
    ] = None,
    keys: Annotated[str, typer.Argument(metavar="FILTER", help="Keys to select.")] = ">",
) -> None:
    """Lists the buckets, or the keys of one."""
    if bucket is None:
        buckets = [
            {
                "bucket": status.bucket,
                "values": status.values,
                "bytes": status.stream_info.state.bytes,
                "history": status.history,
                "ttl": status.ttl or None,
            }
            for status in session.js.key_values()
        ]
        columns = (
            Column("bucket", "Bucket"),
            Column("values", "Values"),
            Column("bytes", "Size", show_size),
            Column("history", "History"),
        )
        session.rows(buckets, columns, "no buckets; create one: jetarrow kv add CONFIG")
        return
    from jetarrow.js.errors import NoKeysError

    try:
        found = sorted(session.js.key_value(bucket).keys(keys))
    except NoKeysError:
        found = []
    if session.as_json:
        output.json_document(found)
    elif found:
        output.names(found)
    else:
        session.say(f"bucket {bucket} has no keys that match {keys}")


@verb(group, "get", example="jetarrow kv get CONFIG limits.eu", json=an_object(_KEYS))
def get(
    session: Session,
    bucket: Bucket,
    key: Key,
    revision: Annotated[int | None, typer.Option(help="Revision to read; default the last.")] = None,
) -> None:
    """Writes the value of a key to stdout without changes."""
    from jetarrow.js.errors import KeyNotFoundError

    try:
        entry = session.js.key_value(bucket).get(key, revision)
    except KeyNotFoundError as error:
        which = f"key {key!r}" if revision is None else f"revision {revision} of key {key!r}"
        raise RuntimeError(
            f"could not read {which} of bucket {bucket!r}: it does not exist; list the keys: jetarrow kv ls {bucket}"
        ) from error
    if session.as_json:
        output.json_document(_entry(entry))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(entry.value or b"")
    if sys.stdout.isatty():
        sys.stdout.buffer.write(b"\n")


@verb(group, "put", example="jetarrow kv put CONFIG limits.eu 500", json=an_object("key revision"))
def put(session: Session, bucket: Bucket, key: Key, value: Value = None) -> None:
    """Stores a value, whether or not the key exists."""
    revision = session.js.key_value(bucket).put(key, _value(value))
    session.done(f"{key} stored at revision {revision}", key=key, revision=revision)


@verb(group, "create", example="jetarrow kv create LOCKS job-7 $HOSTNAME", json=an_object("key revision"))
def create(session: Session, bucket: Bucket, key: Key, value: Value = None) -> None:
    """Stores a value; fails if the key exists."""
    from jetarrow.js.errors import KeyDeletedError, KeyNotFoundError, KeyWrongLastSequenceError

    store = session.js.key_value(bucket)
    try:
        revision = store.create(key, _value(value))
    except KeyWrongLastSequenceError as error:
        # The key may have been deleted meanwhile.
        with suppress(KeyNotFoundError, KeyDeletedError):
            there = f"it exists at revision {store.get(key).revision}"
            raise RuntimeError(
                f"could not create key {key!r} in bucket {bucket!r}: {there} (err_code {error.err_code});"
                f" replace its value: jetarrow kv put {bucket} {key}"
            ) from error
        raise
    session.done(f"{key} stored at revision {revision}", key=key, revision=revision)


@verb(group, "del", example="jetarrow kv del CONFIG limits.eu", json=an_object("deleted"))
def delete(session: Session, bucket: Bucket, key: Key) -> None:
    """Deletes a key and keeps its history."""
    session.js.key_value(bucket).delete(key)
    session.done(f"deleted {key} from bucket {bucket}", deleted=key)


@verb(group, "purge", example="jetarrow kv purge CONFIG limits.eu", json=an_object("purged"))
def purge(session: Session, bucket: Bucket, key: Key) -> None:
    """Deletes a key with its history."""
    session.js.key_value(bucket).purge(key)
    session.done(f"purged {key} from bucket {bucket}", purged=key)


@verb(group, "history", example="jetarrow kv history CONFIG limits.eu", json=array_of(_KEYS))
def history(session: Session, bucket: Bucket, key: Key) -> None:
    """Lists the stored revisions of a key."""
    from jetarrow.js.errors import NoKeysError

    try:
        rows = [_entry(entry) for entry in session.js.key_value(bucket).history(key)]
    except NoKeysError as error:
        raise RuntimeError(
            f"could not list the history of key {key!r}: bucket {bucket!r} does not have it; list the keys:"
            f" jetarrow kv ls {bucket}"
        ) from error
    session.rows(rows, _ENTRY, f"bucket {bucket} has no key {key}")


@verb(group, "watch", example="jetarrow kv watch CONFIG 'limits.>'", json=lines_of(_KEYS))
def watch(
    session: Session,
    bucket: Bucket,
    keys: Annotated[str, typer.Argument(metavar="FILTER", help="Keys to select.")] = ">",
    updates_only: Annotated[bool, typer.Option(help="Skip current values: write later changes only.")] = False,
    from_revision: Annotated[
        int | None, typer.Option(help="Instead of current values: all changes from this revision.", min=1)
    ] = None,
    on_rollback: OnRollback = "fail",
) -> None:
    """Writes a line for each key and then for each change, until Ctrl-C."""
    exclusive(updates_only=updates_only, from_revision=from_revision)
    options: dict[str, Any] = {"updates_only": updates_only, "resume_from_revision": from_revision}
    last = (from_revision or 1) - 1
    try:
        with session.js.key_value(bucket).watch(keys, on_rollback=on_rollback, **options) as watcher:
            for entry in watcher:
                if entry is not None:
                    # The revision must agree with the output.
                    with signals.deferred(signals.STDOUT_DELAY):
                        _write_change(session, entry)
                        last = max(last, entry.revision or 0)
    except KeyboardInterrupt:
        more = f"continue with --from-revision {last + 1}" if last else "it had no changes"
        session.stopped(f"watched bucket {bucket} up to revision {last}; {more}")
        raise


def _write_change(session: Session, entry: Entry) -> None:
    row = _entry(entry)
    if session.as_json:
        output.json_line(row)
    else:
        value = output.shown(row["value"])
        output.line(f"{show_time(row['created'])}  {row['operation']:5}  {entry.key}  {value}")
    sys.stdout.flush()
