"""`jetarrow doctor`: findings about streams, consumers, the account and the servers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jetarrow.cli import output, terminal
from jetarrow.cli.json_shape import an_object
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted, span
from jetarrow.jetstream.api_errors import JetStreamNotEnabledError
from jetarrow.jetstream.doctor.finding import Severity
from jetarrow.jetstream.doctor.thresholds import Thresholds

if TYPE_CHECKING:
    from rich.table import Table

    from jetarrow.jetstream.api_errors import JetStreamNotEnabledError
from jetarrow.jetstream.doctor.finding import Findings

_SHAPE = an_object(
    "findings[].severity findings[].object findings[].problem findings[].remedy findings[].evidence not_checked"
)
_EXIT_CODES = {Severity.ERROR: 2, Severity.WARNING: 1}
_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_OBJECT_WIDTH = 20


def _span(text: str) -> Any:
    return typer.Option(help=text, parser=span, metavar="SPAN")


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "doctor", example="jetarrow doctor ORDERS --system-context sys", json=_SHAPE)(doctor)


def doctor(
    session: Session,
    stream: Annotated[str | None, typer.Argument(metavar="STREAM", help="The stream; all streams if omitted.")] = None,
    system_context: Annotated[
        str | None,
        typer.Option("--system-context", help="A context of the system account, for the servers.", metavar="NAME"),
    ] = None,
    full: Annotated[float, typer.Option(help="Percent of a limit from which it is nearly full.", min=1, max=100)] = 80,
    lag: Annotated[Any, _span("Age of a consumer's oldest unprocessed message.")] = "1h",
    idle: Annotated[Any, _span("Time without activity, for a durable pull consumer.")] = "1h",
    ephemeral_idle: Annotated[Any, _span("Time without activity, for an ephemeral consumer.")] = "5m",
    retry_time: Annotated[Any, _span("Time for which publishers resend; a shorter duplicate window is found.")] = "30s",
    batch: Annotated[int, typer.Option(help="Messages of a fetch; a smaller max_ack_pending is found.", min=1)] = 1000,
    clock: Annotated[Any, _span("Difference between two clocks.")] = "1s",
    source_silence: Annotated[Any, _span("Time without activity, for a mirror or source.")] = "30s",
    replica_silence: Annotated[Any, _span("Time without activity, for a replica.")] = "10s",
    certificate: Annotated[Any, _span("Time before the expiry of a TLS certificate.")] = "30d",
    measure: Annotated[Any, _span("Duration of the measurement of acknowledgements; 0s disables it.")] = "1s",
) -> None:
    """Lists problems of streams, consumers, the account and the servers, each with evidence and remedy.

    The exit code is 0 without errors and warnings, 1 with a warning, 2 with an error. Thresholds are options.
    """
    thresholds = Thresholds(
        full=full / 100,
        lag=lag,
        idle=idle,
        ephemeral_idle=ephemeral_idle,
        retry_time=retry_time,
        batch=batch,
        clock=clock,
        source_silence=source_silence,
        replica_silence=replica_silence,
        certificate=certificate,
        measure=measure,
    )
    with session.system_client(system_context) as system:
        try:
            found = session.js.doctor(stream, system=system, thresholds=thresholds)
        except JetStreamNotEnabledError as error:
            hint = "if this is the system account, connect to that of the streams and give this one as --system-context"
            raise RuntimeError(f"{error}; {hint}") from error
    if session.as_json:
        output.json_document({"findings": [one.as_dict() for one in found], "not_checked": list(found.not_checked)})
    else:
        _write(session, found)
    if found.worst in _EXIT_CODES:
        raise typer.Exit(_EXIT_CODES[found.worst])


def _write(session: Session, found: Findings) -> None:
    if found.findings:
        output.console().print(_table(found))
    for text in found.not_checked:
        session.say(f"not checked: {text}")
    counts = Counter(one.severity for one in found)
    kinds = [counted(counts[kind], str(kind)) for kind in (Severity.ERROR, Severity.WARNING) if counts[kind]]
    infos = [f"{counts[Severity.INFO]:,} info"] if counts[Severity.INFO] else []
    session.say(", ".join(kinds + infos) or "no findings")


def _table(found: Findings) -> Table:
    """A row per finding, with problem, evidence and remedy in lines of their own."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("Severity", no_wrap=True)
    # Long names are folded, so that the last column keeps most of 80 columns.
    table.add_column("Object", overflow="fold", max_width=_OBJECT_WIDTH)
    table.add_column("Problem, evidence, remedy", overflow="fold")
    for one in found:
        lines = (one.problem, f"Evidence: {one.evidence}", f"Remedy: {one.remedy}")
        # As Text, because data from a server must not be parsed as markup.
        cell = Text("\n".join(map(terminal.one_line, lines)))
        severity = Text(str(one.severity), style=_COLOURS[one.severity])
        table.add_row(severity, Text(terminal.one_line(one.object)), cell)
    return table
