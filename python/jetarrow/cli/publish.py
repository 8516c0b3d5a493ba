"""`jetarrow publish`: a message, or a message for each line of stdin."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb

# Lines that are published at once.
_PIECE = 10_000


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "publish", example="jetarrow publish orders.eu.1 '{\"amount\": 3}'")(publish)


def publish(
    session: Session,
    subject: Annotated[str, typer.Argument(help="The subject.")],
    payload: Annotated[
        str, typer.Argument(metavar="[PAYLOAD]", help="The payload; - is a message a line of stdin.")
    ] = "-",
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="'Name: value'; may be given again.")
    ] = None,
    msg_id: Annotated[str | None, typer.Option(help="Message id, for deduplication (one message only).")] = None,
) -> None:
    """Publishes to a stream, and says where it is stored. Every message is acknowledged, or named as failed."""
    headers = _headers(header or ())
    if payload != "-":
        ack = session.js.publish(subject, payload, headers=headers, msg_id=msg_id)
        was = "was there before as" if ack.duplicate else "is stored as"
        session.done(f"it {was} {ack.stream} {ack.seq}", stream=ack.stream, seq=ack.seq, duplicate=ack.duplicate)
        return
    if msg_id is not None:
        raise typer.BadParameter("many messages cannot have the same id.", param_hint="--msg-id")
    if sys.stdin.isatty():
        session.say("a message a line; Ctrl-D ends")
    js, lines = session.js, (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    stored, stream = 0, None
    with session.progress("messages") as bar:
        task = bar.add_task("publishing", total=None)
        while piece := list(itertools.islice(lines, _PIECE)):
            result = js.publish_batch(subject, piece, headers=headers)
            stored, stream = stored + result.stored, result.stream or stream
            bar.update(task, completed=stored)
            result.raise_for_errors()
    session.done(f"{stored:,} messages stored in {stream}", stream=stream, stored=stored)


def _headers(given: Iterable[str]) -> dict[str, list[str]] | None:
    headers: dict[str, list[str]] = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon:
            raise typer.BadParameter(f"{text!r} is no header: write 'Name: value'.", param_hint="--header")
        headers.setdefault(name.strip(), []).append(value.strip())
    return headers or None
