"""The server's response to a published message. Public as `jetarrow.nats.jetstream`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from jetarrow.nats.jetstream.wire import Response


@dataclass
class PublishAck(Response):
    """The server's response to a published message.

    Attributes:
        stream: The stream that stored it.
        sequence: Its sequence.
        domain: The stream's JetStream domain.
        duplicate: Whether the stream had a message with this id already.
        value: The counter's value after it, in streams with `allow_msg_counter` (ADR-49).
        batch_id: Id of the atomic batch that it committed (ADR-50).
        batch_size: Number of messages of that batch.
    """

    _keys: ClassVar[Mapping[str, str]] = {"sequence": "seq", "value": "val", "batch_id": "batch", "batch_size": "count"}

    stream: str
    sequence: int | None = None
    domain: str | None = None
    duplicate: bool = False
    value: str | None = None
    batch_id: str | None = None
    batch_size: int | None = None
