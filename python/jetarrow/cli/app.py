"""The application with all of its subcommands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jetarrow.cli import (
    bench,
    consumer,
    context,
    doctor,
    group,
    group_create,
    group_watch,
    kv,
    lag,
    latest,
    load,
    manual,
    migrate,
    objects,
    pipe,
    publish,
    read,
    report,
    serve,
    server,
    sink,
    stream,
    top,
    trace,
)
from jetarrow.cli.subcommand import JSON, with_connection

app = typer.Typer(
    name="jetarrow",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Streams, their consumers and groups, messages in and out, stores, and the server.
for module in (
    serve,
    context,
    stream,
    consumer,
    group,
    group_create,
    group_watch,
    lag,
    publish,
    load,
    read,
    latest,
    sink,
    pipe,
    kv,
    objects,
    report,
    top,
    server,
    trace,
    doctor,
    migrate,
    bench,
    manual,
):
    module.add_to(app)


def _version(wanted: bool) -> None:
    if wanted:
        from jetarrow import __version__

        typer.echo(f"jetarrow {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=False)
@with_connection
def start(
    ctx: typer.Context,
    as_json: JSON = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Write the version.")
    ] = False,
    **connection: Any,
) -> None:
    """Inspect NATS JetStream, publish tables to streams and read streams into tables.

    The server comes from --server, --context, $NATS_URL or $NATS_CONTEXT; default localhost.
    """
    ctx.obj = {**connection, "as_json": as_json}
