"""Arguments and options of more than one subcommand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Subjects = Annotated[
    list[str] | None, typer.Option("--subject", help="Only these subjects; may be given again.", metavar="FILTER")
]
Schema = Annotated[
    str | None,
    typer.Option(
        help="Decodes JSON: infer, 'id BIGINT, name STRING', a file with that; none is bytes.", metavar="SCHEMA"
    ),
]
Payload = Annotated[
    Literal["json", "arrow"], typer.Option(help="arrow: each message is many rows, as load --format arrow.")
]

OnRollback = Annotated[
    Literal["fail", "continue", "earliest"],
    typer.Option(help="Where the stream went back: from the last message that is still there, or from the beginning."),
]


def schema_of(given: str | None, sql: str | None = None, payload: str = "json") -> str | None:
    """What `schema=` gets: the text, or that of a file; with a query it is inferred unless something else is said.

    Args:
        given: What was typed.
        sql: The query, if there is one.
        payload: What the payloads are; Arrow brings its schema.
    """
    if given is None:
        return "infer" if sql is not None and payload == "json" else None
    if given == "none":
        return None
    if given == "infer" or " " in given.strip():
        return given
    return Path(given).read_text("utf-8").strip()
