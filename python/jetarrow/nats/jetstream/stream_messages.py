"""Single messages of streams. Public as `jetarrow.nats.jetstream.stream`."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jetarrow.nats.client.errors import StatusError
from jetarrow.nats.client.message import Headers
from jetarrow.nats.jetstream.errors import ErrorCode, MessageNotFoundError
from jetarrow.nats.jetstream.wire import from_rfc3339

if TYPE_CHECKING:
    from jetarrow.nats.client.message import Message as ClientMessage
    from jetarrow.nats.jetstream.api.types import StoredMessage
    from jetarrow.nats.jetstream.jetstream import JetStream

# Headers of a direct get, which are not the message's.
_STREAM, _SUBJECT, _SEQUENCE, _TIME = "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"


@dataclass
class StreamMessage:
    """A message of a stream. Its fields are also items: `message["data"]`.

    Attributes:
        subject: Its subject.
        sequence: Its sequence in the stream.
        data: Its payload.
        time: The time at which it was stored.
        headers: Its headers.
    """

    subject: str
    sequence: int
    data: bytes
    time: datetime
    headers: Headers | None = None

    def __getitem__(self, key: str) -> Any:
        if hasattr(self, key):
            return getattr(self, key)
        raise KeyError(f"StreamMessage has no attribute '{key}'")


def from_stored(message: StoredMessage) -> StreamMessage:
    """Decodes the message of a JSON response."""
    return StreamMessage(
        subject=message["subject"],
        sequence=message["seq"],
        data=base64.b64decode(message.get("data", "")),
        time=from_rfc3339(message["time"]),
        headers=_headers(message.get("hdrs", "")),
    )


async def direct_get(js: JetStream, stream: str, sequence: int | None, subject: str | None) -> StreamMessage:
    """Requests a message of any replica: by sequence, or the last one of a subject.

    Raises:
        MessageNotFoundError: The message does not exist.
        NoRespondersError: The stream does not exist, or does not have `allow_direct`.
    """
    target, payload = f"{js.api_prefix}.DIRECT.GET.{stream}", b""
    if sequence is not None:
        payload = json.dumps({"seq": sequence}).encode()
    elif subject is not None and not {"*", ">"}.isdisjoint(subject.split(".")):
        # A message cannot be published to a subject with wildcards.
        payload = json.dumps({"last_by_subj": subject}).encode()
    else:
        target = f"{target}.{subject}"
    try:
        response = await js.client.request(target, payload)
    except StatusError as error:
        if error.status != "404":
            raise
        raise MessageNotFoundError(
            error.description, code=404, error_code=ErrorCode.MESSAGE_NOT_FOUND, description=error.description
        ) from error
    return _from_direct(response)


def _from_direct(response: ClientMessage) -> StreamMessage:
    headers = {} if response.headers is None else response.headers.asdict()
    values = []
    for name in (_STREAM, _SUBJECT, _SEQUENCE, _TIME):
        value = headers.pop(name, None)
        if not value:
            raise RuntimeError(f"Direct get response missing {name} header")
        values.append(value[0])
    _, subject, sequence, time = values
    return StreamMessage(
        subject=subject,
        sequence=int(sequence),
        data=response.data,
        time=from_rfc3339(time),
        headers=Headers(dict(headers)) if headers else None,
    )


def _headers(encoded: str) -> Headers | None:
    """Parses a stored block of headers: a line with the version, then `Name: value` lines. None if it is malformed."""
    try:
        version, *lines = base64.b64decode(encoded).decode().split("\r\n")
    except ValueError:
        return None
    found: dict[str, str | list[str]] = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon:
            return None
        values = found.setdefault(name.strip(), [])
        assert isinstance(values, list)
        values.append(value.strip())
    return Headers(found) if found and version.startswith("NATS/") else None
