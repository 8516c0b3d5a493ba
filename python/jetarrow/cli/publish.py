"""`jetarrow publish`: publish one message, or each line of stdin as a message."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from jetarrow.cli.json_shape import an_object
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.cli.units import counted

# Number of lines per `publish_batch`.
_BATCH_LINES = 10_000


_SHAPES = (an_object("stream seq duplicate"), an_object("stream stored", "from stdin"))


def add_to(app: typer.Typer) -> None:
    """Adds the subcommand."""
    verb(app, "publish", example="jetarrow publish orders.eu.1 '{\"amount\": 3}'", json=_SHAPES)(publish)


def publish(
    session: Session,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject.")],
    payload: Annotated[
        str, typer.Argument(metavar="PAYLOAD", help="The payload; - publishes each line of stdin.")
    ] = "-",
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="'Name: value'; repeat the option for more.")
    ] = None,
    msg_id: Annotated[str | None, typer.Option(help="Message id for deduplication (one message only).")] = None,
) -> None:
    """Publishes to a stream and writes stream and sequence. An unacknowledged message is an error."""
    headers = headers_of(header or ())
    if payload != "-":
        ack = session.js.publish(subject, payload, headers=headers, msg_id=msg_id)
        outcome = "duplicate of" if ack.duplicate else "stored"
        session.done(f"{outcome} {ack.stream} seq {ack.seq}", stream=ack.stream, seq=ack.seq, duplicate=ack.duplicate)
        return
    if msg_id is not None:
        raise typer.BadParameter("messages from stdin cannot share one id.", param_hint="--msg-id")
    if sys.stdin.isatty():
        session.say("reading one message per line; end with Ctrl-D")
    js, lines = session.js, (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    stored, stream = 0, None
    piece: list[bytes] = []
    try:
        with session.progress("messages") as bar:
            task = bar.add_task("publishing", total=None)
            while piece := list(itertools.islice(lines, _BATCH_LINES)):
                result = js.publish_batch(subject, piece, headers=headers)
                stored, stream = stored + result.stored, result.stream or stream
                bar.update(task, completed=stored)
                result.raise_for_errors()
                piece = []
    except KeyboardInterrupt:
        unknown = f", and an unknown part of the next {counted(len(piece), 'line')}" if piece else ""
        session.stopped(f"stored the first {counted(stored, 'line')}{unknown}; continue with line {stored + 1:,}")
        raise
    session.done(f"stored {counted(stored, 'message')} in {stream}", stream=stream, stored=stored)


def headers_of(given: Iterable[str]) -> dict[str, list[str]] | None:
    """Return the headers of `--header` options; None without any.

    Args:
        given: Texts such as "Name: value".

    Raises:
        BadParameter: A text has no colon.
    """
    headers: dict[str, list[str]] = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon:
            raise typer.BadParameter(f"{text!r} is not a header: write 'Name: value'.", param_hint="--header")
        headers.setdefault(name.strip(), []).append(value.strip())
    return headers or None
