"""The application with all of its subcommands, or with one of them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from jetarrow.cli.subcommand import JSON, with_connection

# Subcommands with their modules, in the order of the help: streams, their consumers and groups, messages in and out,
# stores, and the server. The first module adds the subcommand, the others add to its group.
SUBCOMMANDS = {
    "serve": ("serve",),
    "context": ("context",),
    "stream": ("stream", "report"),
    "consumer": ("consumer",),
    "group": ("group", "group_create", "group_watch"),
    "lag": ("lag",),
    "publish": ("publish",),
    "load": ("load",),
    "read": ("read",),
    "latest": ("latest",),
    "sink": ("sink",),
    "pipe": ("pipe",),
    "kv": ("kv",),
    "object": ("objects",),
    "top": ("top",),
    "server": ("server",),
    "trace": ("trace",),
    "doctor": ("doctor",),
    "migrate": ("migrate",),
    "bench": ("bench",),
    # Also `man`.
    "completion": ("manual",),
}


def subcommand_of(arguments: Sequence[str]) -> str | None:
    """Return the subcommand that the arguments begin with; None if they begin with an option or are none."""
    return arguments[0] if arguments and arguments[0] in SUBCOMMANDS else None


def application(subcommand: str | None = None) -> typer.Typer:
    """Return the application with all subcommands, or with one: importing and building all of them takes longer.

    Args:
        subcommand: A key of `SUBCOMMANDS`. Default: all.
    """
    app = typer.Typer(
        name="jetarrow",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in SUBCOMMANDS if subcommand is None else (subcommand,):
        first, *_ = [importlib.import_module(f"jetarrow.cli.{module}") for module in SUBCOMMANDS[name]]
        first.add_to(app)
    app.callback(invoke_without_command=False)(_start)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from jetarrow import __version__

        typer.echo(f"jetarrow {__version__}")
        raise typer.Exit


@with_connection
def _start(
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
