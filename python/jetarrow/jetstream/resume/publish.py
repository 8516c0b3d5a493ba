"""Start of a load: its stream, its identity and its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jetarrow.jetstream.arrow import ArrowProducer
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.resume.load import Load, LoadIdentity
from jetarrow.jetstream.resume.rows import MessageRows, OffLoop
from jetarrow.jetstream.resume.stores import PositionStore
from jetarrow.jetstream.resume.stream_log import PublishStep, StreamLog, filter_of, stream_of


@dataclass(frozen=True)
class Resume:
    """The place of a load's position, and what identifies its rows.

    Attributes:
        store: The place.
        source: Facts that identify the file; empty for a table.
    """

    store: PositionStore
    source: Mapping[str, Any] = field(default_factory=dict)


async def open_load(
    js: KeyValues,
    messages: ArrowProducer,
    resume: Resume,
    *,
    publish: PublishStep,
    subject: str | None,
    msg_id: str | None,
    stream: str | None,
    off_loop: OffLoop,
) -> Load:
    """Return a load, of which nothing is sent or stored yet.

    Args:
        js: The context.
        messages: The encoded messages.
        resume: The place of the position.
        publish: Publishes a step.
        subject: The subject or template; None if each row has a subject.
        msg_id: A column, "content", or None for ids of the rows' numbers.
        stream: The stream; None finds it by the subject.
        off_loop: Starts a function that reads the table.
    """
    # A column may have the name "row".
    ids = {None: "row", "content": "content"}.get(msg_id, f"column {msg_id}")
    rows = await off_loop(lambda: MessageRows(messages, ids))
    digests, subjects = await off_loop(rows.head)
    name = stream or await stream_of(js._api, subject, subjects)
    log = StreamLog(js, name, subjects=None if subject is None else filter_of(subject), publish=publish)
    identity = LoadIdentity(digests, resume.source, ids)
    return Load(log, resume.store, rows, identity=identity, off_loop=off_loop)
