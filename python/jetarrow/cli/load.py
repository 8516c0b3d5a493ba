"""`jetarrow load`: publish the rows of files to a stream."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from jetarrow.cli import output, row_writers, terminal
from jetarrow.cli.arguments import MessageName, Registry, registry_of, schema_of
from jetarrow.cli.load_files import LoadFile, Malformed, open_file
from jetarrow.cli.load_state import Window, place_of, resume_of
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted
from jetarrow.jetstream.literals import BINARY_FORMATS

if TYPE_CHECKING:
    import pyarrow as pa

    from jetarrow.jetstream.publish_result import PartialPublish, PublishResult

_FAILURES_SHOWN = 3


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "load", example="jetarrow load orders.csv --subject 'orders.{region}' --msg-id id")(load)


def load(
    session: Session,
    file: Annotated[list[Path], typer.Argument(help="Parquet, CSV, TSV, JSON, NDJSON or Arrow files.", exists=True)],
    subject: Annotated[
        str | None,
        typer.Option(help="A subject, or a template of columns: orders.{region}; default the column subject."),
    ] = None,
    msg_id: Annotated[
        str | None,
        typer.Option(
            help="The column with message ids, or content: a row is stored once within the stream's duplicate window."
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of the payload, separated with commas; default all.")
    ] = None,
    format: Annotated[
        Literal["json", "arrow", "avro", "protobuf"],
        typer.Option(
            help="json: one row per message; arrow: many rows per message; avro or protobuf: one row, of --schema."
        ),
    ] = "json",
    schema: Annotated[
        str | None,
        typer.Option(help="A file with the Avro schema, or with a descriptor set of Protobuf.", metavar="FILE"),
    ] = None,
    message: MessageName = None,
    registry: Registry = None,
    registry_subject: Annotated[
        str | None,
        typer.Option(
            help="With --registry: subject of the schema, default the name of the record or message. Without --schema"
            " its latest one.",
            metavar="SUBJECT",
        ),
    ] = None,
    mode: Annotated[str, typer.Option(help="window, fast, atomic or auto.")] = "window",
    chunk: Annotated[
        int | None,
        typer.Option(help="With --mode atomic: messages of a batch, which is stored whole or not.", min=1, max=1000),
    ] = None,
    on_reject: Annotated[
        Literal["chunk", "split"] | None,
        typer.Option(help="With --chunk, for a message that is rejected: chunk, its whole chunk is; split, it alone."),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            help="Keep a position, and go on there after an interruption: a file, a folder or kv:BUCKET.",
            metavar="PATH|kv:BUCKET",
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option(help="Rows from which the types of CSV and JSON files are inferred; -1 is all.", min=-1)
    ] = 20_480,
    malformed: Annotated[
        Malformed,
        typer.Option(
            help="Rows of CSV and JSON files without these types: report names them and exits with 1, drop skips them,"
            " fail ends at the first."
        ),
    ] = "report",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Show schema and first row, publish nothing.")
    ] = False,
) -> None:
    """Publishes every row of the files. Shows the inferred types and the first row before it publishes."""
    if state is not None and mode != "window":
        raise typer.BadParameter("a position needs --mode window.", param_hint="--state")
    if schema is not None and format not in BINARY_FORMATS:
        raise typer.BadParameter("it is for --format avro and protobuf.", param_hint="--schema")
    if registry_subject is not None and registry is None:
        raise typer.BadParameter("it needs --registry.", param_hint="--registry-subject")
    encoded = schema_of(schema, payload=format, message=message, registry=registry)
    if registry is not None and encoded is None and registry_subject is None:
        raise typer.BadParameter("give it, or --schema.", param_hint="--registry-subject")
    found = registry_of(registry, registry_subject)
    chosen = None if columns is None else [name.strip() for name in columns.split(",")]
    places = [None if state is None else place_of(state, path, len(file)) for path in file]
    done: list[dict[str, Any]] = []
    for path, place in zip(file, places, strict=True):
        table = open_file(path, sample=sample, malformed=malformed)
        check_columns(path, table.schema.names, subject=subject, msg_id=msg_id, columns=chosen)
        table.batches = _described(session, path, table, subject)
        if dry_run:
            continue
        options: dict[str, Any] = {"subject": subject, "columns": chosen, "msg_id": msg_id, "format": format}
        options |= {"schema": encoded, "registry": found, "mode": mode, "chunk": chunk, "on_reject": on_reject}
        resume = None if place is None else resume_of(session, place, path, table.schema)
        result = _send(session, path, table, resume=resume, **options)
        done.append(_report(session, path, table, result))
    if session.as_json:
        output.json_document(done)
    if any(one["errors"] or (one["malformed"] and malformed == "report") for one in done):
        raise typer.Exit(1)


def _send(session: Session, path: Path, table: LoadFile, *, resume: Any, **options: Any) -> PublishResult:
    """Publish one file; write how to go on after Ctrl-C."""
    import pyarrow as pa

    has_ids = options["msg_id"] is not None
    window = None if resume is not None else Window(session, options["subject"], has_ids=has_ids)
    try:
        with session.progress() as bar:
            task = bar.add_task(f"loading {terminal.one_line(path.name)}", total=table.rows)

            def report(done: int, _total: int | None) -> None:
                bar.update(task, completed=done)

            rows = pa.RecordBatchReader.from_batches(table.schema, table.batches)
            result = session.js.publish_table(rows, progress=report, resume=resume, **options)
    except KeyboardInterrupt as interrupt:
        partial: PartialPublish | None = getattr(interrupt, "partial", None)
        stored = 0 if partial is None else partial.rows
        advice = "run the same command again to go on" if window is None else window.advice()
        session.say(f"stopped: {path.name}: the server has answered at least {counted(stored, 'message')}; {advice}")
        raise
    if window is not None:
        window.warn_if_exceeded()
    return result


def _report(session: Session, path: Path, table: LoadFile, result: PublishResult) -> dict[str, Any]:
    """Write the number of stored rows, the first errors and the first malformed rows."""
    for error in result.errors[:_FAILURES_SHOWN]:
        why = str(error.error).removeprefix("nats: ").removeprefix(f"row {error.row}: ")
        session.say(f"error: {path.name}, row {error.row}: {why}")
    if len(result.errors) > _FAILURES_SHOWN:
        more = counted(len(result.errors) - _FAILURES_SHOWN, "more row")
        session.say(f"error: {path.name}: {more} could not be stored")
    for text in table.malformed.first:
        session.say(f"malformed: {path.name}, {text}")
    if (more_rows := table.malformed.count - len(table.malformed.first)) > 0:
        least = "at least " if table.malformed.is_minimum else ""
        session.say(f"malformed: {path.name}: {least}{counted(more_rows, 'more row')}")
    where = f" in {result.stream}" if result.stream else ""
    notes = [counted(result.duplicates, "duplicate")] if result.duplicates else []
    notes += [f"{result.skipped:,} by earlier runs"] if result.skipped else []
    notes += [f"{table.malformed.count:,} malformed"] if table.malformed.count else []
    more = f" ({', '.join(notes)})" if notes else ""
    if not session.as_json:
        session.done(f"{path.name}: stored {result.stored:,} of {counted(result.count, 'message')}{where}{more}")
    return {
        "file": str(path),
        "stream": result.stream,
        "messages": result.count,
        "stored": result.stored,
        "duplicates": result.duplicates,
        "skipped": result.skipped,
        "errors": len(result.errors),
        "malformed": table.malformed.count,
    }


def check_columns(
    path: Path, names: list[str], *, subject: str | None, msg_id: str | None, columns: list[str] | None
) -> None:
    """Compare the columns of the options with those of a file, before its rows are read.

    Args:
        path: The file.
        names: Its columns.
        subject: The subject template.
        msg_id: The column of ids, or content.
        columns: The columns of the payload.

    Raises:
        BadParameter: The file has no such column; names the nearest one.
    """
    used = {
        "--subject": re.findall(r"\{([^{}]*)\}", re.sub(r"\{\{|\}\}", "", subject or "")),
        "--msg-id": [msg_id] if msg_id not in (None, "content") else [],
        "--columns": columns or [],
    }
    if subject is None and "subject" not in names:
        raise typer.BadParameter(
            f"{path.name} has no column subject; give a subject or a template of columns.", param_hint="--subject"
        )
    for option, wanted in used.items():
        for name in wanted:
            if name not in names:
                near = difflib.get_close_matches(name or "", names, 1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}."
                raise typer.BadParameter(f"{path.name} has no column {name!r}; {hint}", param_hint=option)


def _described(session: Session, path: Path, table: LoadFile, subject: str | None) -> Iterator[pa.RecordBatch]:
    """Write schema and first row of a file, and return all of its batches."""
    count = "" if table.rows is None else f"{counted(table.rows, 'row')}; "
    session.say(f"{path.name}: {count}" + ", ".join(f"{field.name} {field.type}" for field in table.schema))
    rest = table.batches
    first = next((batch for batch in rest if batch.num_rows), None)
    if first is None:
        session.say(f"{path.name} has no rows")
        return iter(())
    (row,) = row_writers.rows_of(first.slice(0, 1))
    to = re.sub(r"\{(\w+)\}", lambda found: str(row.get(found[1])), subject or str(row.get("subject", "")))
    session.say(f"first row: {to}  {json.dumps(row, ensure_ascii=False)}")

    def again() -> Iterator[pa.RecordBatch]:
        yield first
        yield from rest

    return again()
