"""Content of the help of all subcommands, from which the manual page and the reference page are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer
import typer.main

from jetarrow.cli.json_shape import JsonShape
from jetarrow.cli.subcommand import PANEL
from jetarrow.cli.usage import Command

# Names and help of an argument or an option.
Entry = tuple[str, str]


@dataclass(frozen=True)
class Page:
    """Help of one subcommand.

    Attributes:
        path: Its words: `("stream", "ls")`.
        usage: The usage line.
        text: Its description.
        arguments: Its arguments.
        options: Its own options, without those of the connection.
        connects: Whether it has the options of the connection.
        example: An example call.
        shapes: The documented output of `--json`.
    """

    path: tuple[str, ...]
    usage: str
    text: str
    arguments: list[Entry]
    options: list[Entry]
    connects: bool
    example: str
    shapes: tuple[JsonShape, ...]


@dataclass(frozen=True)
class Group:
    """Help of a group of subcommands, or of one subcommand outside of a group."""

    name: str
    text: str
    pages: list[Page]


def read_help(app: typer.Typer) -> tuple[list[Group], list[Entry]]:
    """Return the groups in their order, and the options of the connection.

    Args:
        app: The application.
    """
    root: Any = typer.main.get_command(app)
    top: Any = typer.Context(root, info_name="jetarrow")
    groups = []
    for name, command in root.commands.items():
        ctx: Any = typer.Context(command, info_name=name, parent=top)
        if hasattr(command, "commands"):
            pages = [
                _page((name, verb), found, typer.Context(found, info_name=verb, parent=ctx))
                for verb, found in command.commands.items()
            ]
            groups.append(Group(name, command.help or "", pages))
        else:
            groups.append(Group(name, command.help or "", [_page((name,), command, ctx)]))
    return groups, list(_entries(root, top, "option", connection=True))


def _page(path: tuple[str, ...], command: Command, ctx: Any) -> Page:
    return Page(
        path=path,
        usage=" ".join(["jetarrow", *path, *command.collect_usage_pieces(ctx)]),
        text=command.help or "",
        arguments=list(_entries(command, ctx, "argument")),
        options=list(_entries(command, ctx, "option")),
        connects=any(_is_connection(param) for param in command.get_params(ctx)),
        example=command.example,
        shapes=command.shapes,
    )


def _is_connection(param: Any) -> bool:
    return getattr(param, "rich_help_panel", None) == PANEL


def _entries(command: Any, ctx: Any, kind: str, *, connection: bool = False) -> Iterator[Entry]:
    for param in command.get_params(ctx):
        if param.param_type_name == kind and _is_connection(param) == connection:
            record = param.get_help_record(ctx)
            if record is not None and "--help" not in param.opts:
                names, text = record
                yield names, " ".join(text.split())
