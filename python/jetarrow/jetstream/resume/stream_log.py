"""The stream of a load: its state, the ids that it stored, and the publishing of a step."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.errors import NotFoundError, ResumeError, StreamRolledBackError
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.rollback import Mark, verify

if TYPE_CHECKING:
    import pyarrow as pa

# Publishes a step, whose first message has this number.
PublishStep = Callable[["pa.Table", int, str], Coroutine[Any, Any, PublishResult]]


class LogState(NamedTuple):
    """State of a stream.

    Attributes:
        created: Creation time as the server writes it.
        first_seq: First sequence.
        last_seq: Last sequence.
        last_ns: Time of the last message in nanoseconds; None if the stream has none.
        deleted: Number of deleted messages between first and last sequence.
        per_subject: Most messages of a subject; 0 without a limit.
        transforms: Whether the stream stores messages with other subjects than those they are published to.
    """

    created: str
    first_seq: int
    last_seq: int
    last_ns: int | None
    deleted: int
    per_subject: int
    transforms: bool = False

    def has_all(self, after: int) -> bool:
        """Whether no message after a sequence was removed."""
        return self.deleted == 0 and self.first_seq <= after + 1


class StoredIds(NamedTuple):
    """Ids of the messages of a range.

    Attributes:
        ids: The ids, in the order of their sequences.
        removed: Number of sequences of the range without a message.
    """

    ids: list[str]
    removed: int


class Log(Protocol):
    """The part of a stream that a load uses."""

    name: str

    async def state(self) -> LogState:
        """Return the state."""

    async def rolled_back(self, marks: tuple[Mark, ...]) -> StreamRolledBackError | None:
        """Return the error if the stream does not have the messages of these marks any more."""

    async def stored(self, after: int, state: LogState) -> StoredIds:
        """Return the ids of the messages after a sequence, up to the last one of a state."""

    async def publish(self, rows: pa.Table, first_row: int) -> PublishResult:
        """Publish messages."""


class StreamLog:
    """A stream on a server.

    Args:
        js: The context.
        name: The stream.
        subjects: Filter of the messages of the load; None for all.
        publish: Publishes a step to a stream.
    """

    def __init__(self, js: KeyValues, name: str, *, subjects: str | None, publish: PublishStep) -> None:
        self._js = js
        self._api = js._api
        self.name = name
        self._subjects = subjects
        self._publish = publish

    async def state(self) -> LogState:
        """Return the state."""
        info = await self._js.stream_info(self.name)
        state, config = info.state, info.config
        return LogState(
            info.created_raw or "",
            state.first_seq,
            state.last_seq,
            state.last_ns,
            state.num_deleted or 0,
            max(config.max_msgs_per_subject or 0, 0),
            config.subject_transform is not None,
        )

    async def rolled_back(self, marks: tuple[Mark, ...]) -> StreamRolledBackError | None:
        """Return the error if the stream does not have the messages of these marks any more."""
        return await verify(self._api, self.name, marks)

    async def stored(self, after: int, state: LogState) -> StoredIds:
        """Return the ids of the messages after a sequence, up to the last one of a state."""
        first = max(after + 1, state.first_seq)
        if first > state.last_seq:
            return StoredIds([], max(state.last_seq - after, 0))
        if state.has_all(after):
            # The filter hides removed messages. None were removed if none are when all are read.
            subjects = None if state.transforms else self._subjects
            ids, _ = await self._read(first, state.last_seq, subjects)
            if (await self.state()).has_all(after):
                return StoredIds(ids, 0)
        ids, found = await self._read(first, state.last_seq, None)
        return StoredIds(ids, state.last_seq - after - found)

    async def _read(self, first: int, last: int, subjects: str | None) -> tuple[list[str], int]:
        """Return the ids of a range's messages, and the number of messages."""
        spec = ReadSpec(
            self.name,
            start_seq=first,
            end_seq=last + 1,
            subjects=subjects,
            columns=("seq", "headers"),
            on_data_loss="warn",
        )
        ids: list[str] = []
        found = 0
        reader = Reader(self._api, spec)
        try:
            with warnings.catch_warnings():
                # The caller counts removed messages.
                warnings.simplefilter("ignore")
                async for batch in reader:
                    found += len(batch)
                    ids += _ids_of(batch.to_pyarrow())
        finally:
            await reader.close()
        return ids, found

    async def publish(self, rows: pa.Table, first_row: int) -> PublishResult:
        """Publish messages."""
        return await self._publish(rows, first_row, self.name)


def _ids_of(batch: pa.RecordBatch) -> list[str]:
    """Return the message ids of a read batch."""
    import pyarrow.compute as pc

    values = pc.map_lookup(batch.column("headers"), "Nats-Msg-Id", "first")
    return [found for found in pc.list_element(pc.drop_null(values), 0).to_pylist() if found]


def filter_of(template: str) -> str:
    """Return the subject filter of a template of columns: a token with a column is `*`.

    Args:
        template: The template; its braces are valid.
    """
    marked = re.sub(r"\{\{|\}\}|\{[^{}]*\}", lambda found: found[0][0] if len(found[0]) == 2 else "\0", template)
    return ".".join("*" if "\0" in token else token for token in marked.split("."))


async def stream_of(api: JetStreamApi, template: str | None, subjects: list[str]) -> str:
    """Return the stream that stores the messages of a load.

    Args:
        api: The API.
        template: The subject template; None if each row has a subject.
        subjects: The subjects of the first rows.

    Raises:
        NotFoundError: No stream stores them.
        ResumeError: Several streams store them.
    """
    names: dict[str, None] = {}
    # Without a template the first subject decides; the stream is expected by every row.
    for subject in [filter_of(template)] if template is not None else subjects[:1]:
        answer = await api.request("STREAM.NAMES", {"subject": subject})
        names |= dict.fromkeys(answer.get("streams") or ())
        if not names:
            raise NotFoundError.build({"code": 404, "description": f"no stream stores the subject {subject!r}"})
    if len(names) > 1:
        raise ResumeError(
            f"could not start the load: its subject matches the streams {', '.join(names)}; give expected_stream"
        )
    if not names:
        raise ResumeError("could not start the load: no row has a subject; name the stream with expected_stream")
    return next(iter(names))
