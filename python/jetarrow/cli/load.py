"""`jetarrow load`: publish the rows of files to a stream."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from jetarrow.cli import output, row_writers, terminal
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted

if TYPE_CHECKING:
    import pyarrow as pa

_DUCKDB = {
    "csv": "read_csv",
    "tsv": "read_csv",
    "ndjson": "read_ndjson_auto",
    "jsonl": "read_ndjson_auto",
    "json": "read_json",
}
_FAILURES_SHOWN = 3
_ROWS = 65_536


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "load", example="jetarrow load orders.csv --subject 'orders.{region}' --msg-id id")(load)


@dataclass
class _Table:
    """The rows of a file: their number (None if unknown), their schema and their batches."""

    rows: int | None
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def load(
    session: Session,
    file: Annotated[list[Path], typer.Argument(help="Parquet, CSV, TSV, JSON, NDJSON or Arrow files.", exists=True)],
    subject: Annotated[
        str | None,
        typer.Option(help="A subject, or a template of columns: orders.{region}; default the column subject."),
    ] = None,
    msg_id: Annotated[
        str | None,
        typer.Option(help="The column with message ids, or content: a row that is loaded again is stored once."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of the payload, separated with commas; default all.")
    ] = None,
    format: Annotated[
        Literal["json", "arrow"], typer.Option(help="json: one row per message; arrow: many rows per message.")
    ] = "json",
    mode: Annotated[str, typer.Option(help="window, fast, atomic or auto.")] = "window",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Show schema and first row, publish nothing.")
    ] = False,
) -> None:
    """Publishes every row of the files. Shows the inferred types and the first row before it publishes."""
    done: list[dict[str, Any]] = []
    for path in file:
        table = _open(path)
        batches = _described(session, path, table, subject)
        if dry_run:
            continue
        chosen = None if columns is None else [name.strip() for name in columns.split(",")]
        options: dict[str, Any] = {
            "subject": subject,
            "columns": chosen,
            "msg_id": msg_id,
            "mode": mode,
            "format": format,
        }
        done.append(_send(session, path, table, batches, **options))
    if session.as_json:
        output.json_document(done)
    if any(one["errors"] for one in done):
        raise typer.Exit(1)


def _send(
    session: Session, path: Path, table: _Table, batches: Iterator[pa.RecordBatch], **options: Any
) -> dict[str, Any]:
    """Publish one file, and write the number of stored rows and the first errors."""
    import pyarrow as pa

    with session.progress() as bar:
        task = bar.add_task(f"loading {terminal.one_line(path.name)}", total=table.rows)

        def report(done: int, _total: int | None) -> None:
            bar.update(task, completed=done)

        rows = pa.RecordBatchReader.from_batches(table.schema, batches)
        result = session.js.publish_table(rows, progress=report, **options)
    for error in result.errors[:_FAILURES_SHOWN]:
        why = str(error.error).removeprefix("nats: ").removeprefix(f"row {error.row}: ")
        session.say(f"error: {path.name}, row {error.row}: {why}")
    if len(result.errors) > _FAILURES_SHOWN:
        more = counted(len(result.errors) - _FAILURES_SHOWN, "more row")
        session.say(f"error: {path.name}: {more} could not be stored")
    where = f" in {result.stream}" if result.stream else ""
    duplicates = f" ({counted(result.duplicates, 'duplicate')})" if result.duplicates else ""
    if not session.as_json:
        session.done(f"{path.name}: stored {result.stored:,} of {counted(result.count, 'message')}{where}{duplicates}")
    return {
        "file": str(path),
        "stream": result.stream,
        "messages": result.count,
        "stored": result.stored,
        "duplicates": result.duplicates,
        "errors": len(result.errors),
    }


def _described(session: Session, path: Path, table: _Table, subject: str | None) -> Iterator[pa.RecordBatch]:
    """Write schema and first row of a file, and return all of its batches."""
    count = "" if table.rows is None else f"{counted(table.rows, 'row')}; "
    session.say(f"{path.name}: {count}" + ", ".join(f"{field.name} {field.type}" for field in table.schema))
    first = next(table.batches, None)
    if first is None or not first.num_rows:
        session.say(f"{path.name} has no rows")
        return iter(())
    (row,) = row_writers.rows_of(first.slice(0, 1))
    to = re.sub(r"\{(\w+)\}", lambda found: str(row.get(found[1])), subject or str(row.get("subject", "")))
    session.say(f"first row: {to}  {json.dumps(row, ensure_ascii=False)}")

    def again() -> Iterator[pa.RecordBatch]:
        yield first
        yield from table.batches

    return again()


def _open(path: Path) -> _Table:
    import pyarrow as pa
    import pyarrow.parquet

    endings = [ending.lstrip(".").lower() for ending in path.suffixes[-2:]]
    kind = endings[-2] if endings[-1:] in (["gz"], ["zst"]) and len(endings) > 1 else "".join(endings[-1:])
    if kind == "parquet":
        file = pyarrow.parquet.ParquetFile(path)
        return _Table(file.metadata.num_rows, file.schema_arrow, file.iter_batches(_ROWS))
    if kind in ("arrow", "feather", "ipc"):
        with suppress(pa.ArrowInvalid):
            batches = pa.ipc.open_file(pa.memory_map(str(path)))
            return _Table(None, batches.schema, (batches.get_batch(at) for at in range(batches.num_record_batches)))
        stream = pa.ipc.open_stream(pa.memory_map(str(path)))
        return _Table(None, stream.schema, iter(stream))
    if kind not in _DUCKDB:
        known = ", ".join(["parquet", "arrow", *_DUCKDB])
        raise typer.BadParameter(f"{path.name}: the file type is not supported; use one of {known}.", param_hint="FILE")
    return _inferred(path, _DUCKDB[kind])


def _inferred(path: Path, function: str) -> _Table:
    """Open a text file; duckdb infers the types from all of its rows."""
    try:
        import duckdb
    except ImportError:
        raise RuntimeError(
            f'could not read {path.name}: CSV and JSON files need duckdb; run pip install "jetarrow[cli]"'
        ) from None
    import pyarrow as pa

    connection = duckdb.connect()
    source = f"{function}('{str(path).replace(chr(39), chr(39) * 2)}'"
    # Counted only for a progress bar, because counting reads the file once more.
    count = connection.execute(f"select count(*) from {source})").fetchone() if sys.stderr.isatty() else None
    rows = pa.RecordBatchReader.from_stream(connection.sql(f"select * from {source}, sample_size=-1)"))
    return _Table(int(count[0]) if count else None, rows.schema, iter(rows))
