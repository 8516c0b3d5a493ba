"""`jetarrow migrate`: the lines of a program on nats-py that need attention."""

from __future__ import annotations

from typing import Annotated

import typer

from jetarrow.cli import output
from jetarrow.cli.json_shape import an_object
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted

_SHAPE = an_object(
    "findings[].path findings[].line findings[].column findings[].kind findings[].rule findings[].what"
    " findings[].remedy findings[].anchor files as_nats"
)


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "migrate", example="jetarrow migrate src", json=_SHAPE, server=False)(migrate)


def migrate(
    session: Session,
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Files, or folders with their subfolders.")],
    as_nats: Annotated[
        bool, typer.Option("--as-nats", help="The program runs with jetarrow.as_nats: its imports need no change.")
    ] = False,
) -> None:
    """Lists the lines of a program on nats-py that need attention: imports, missing names, documented differences.

    The exit code is 0 if nothing needs attention, 1 with findings. The program is parsed, not imported. A finding is
    certain; what the source does not show is in MIGRATION.md only.
    """
    # Imported here, because only this subcommand needs it.
    from jetarrow.migrate import check

    try:
        report = check(paths, as_nats=as_nats)
    except FileNotFoundError as error:
        raise typer.BadParameter(f"{error}.", param_hint="PATH") from error
    if session.as_json:
        findings = [one.as_dict() for one in report.findings]
        output.json_document({"findings": findings, "files": report.files, "as_nats": report.as_nats})
    else:
        for one in report.findings:
            output.line(str(one))
        if report.as_nats is not None:
            session.say(f"imports of nats are not listed, because {report.as_nats} imports jetarrow.as_nats")
        number = len(report.findings)
        found = f"{counted(number, 'finding')} in" if number else "nothing needs attention in"
        session.say(f"{found} {counted(report.files, 'Python file')}")
    if report.findings:
        raise typer.Exit(1)
