"""Dead letters: messages that consumers stopped delivering. They are recorded, read and replayed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from jetarrow._jetarrow import check_subject
from jetarrow.core.errors import BadSubjectError, Error
from jetarrow.jetstream import models
from jetarrow.jetstream.advisory_rows import ADVISORY_SCHEMA, ADVISORY_SUBJECT, KINDS, row_of
from jetarrow.jetstream.api import STREAM_NOT_FOUND
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.batch_collector import row_numbers
from jetarrow.jetstream.errors import DecodeError, MalformedMessageError, NotFoundError
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.models.values import checked_name
from jetarrow.jetstream.publish import PublishVerbs
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.read import ReadVerbs

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# Concurrent requests.
_AT_ONCE = 32


def dead_letter_stream(stream: str) -> str:
    """Name of the stream that records a stream's dead letters."""
    return f"{stream}_DEAD_LETTERS"


class DeadLetterVerbs(PublishVerbs, ReadVerbs):
    """The verbs of a context for dead letters."""

    async def keep_dead_letters(
        self,
        stream: str,
        *,
        max_age: float | timedelta | None = timedelta(days=30),
        max_msgs: int = 1_000_000,
        num_replicas: int = 1,
    ) -> models.StreamInfo:
        """Records dead letters of a stream's consumers from now on; `js.dead_letters(stream)` reads them.

        It creates the stream `<stream>_DEAD_LETTERS`, which stores the server's advisories (300 bytes each) of messages
        that were delivered `max_deliver` times, and of terminated ones. The messages remain in their stream. A second
        call changes the limits. `js.delete_stream("<stream>_DEAD_LETTERS")` ends the recording.

        Args:
            stream: The stream.
            max_age: Age at which advisories are deleted, in seconds or as a timedelta; None is no limit.
            max_msgs: Most advisories; the oldest are deleted first.
            num_replicas: Number of replicas of the stream.

        Returns:
            The stream of the advisories.

        Raises:
            NotFoundError: The stream does not exist.
            ValueError: The name is invalid.
        """
        manage = Management(self._api)
        await manage.stream_info(stream)
        config = models.StreamConfig(
            name=dead_letter_stream(stream),
            description=f"Dead letters of {stream}",
            subjects=[f"{ADVISORY_SUBJECT}.{token}.{stream}.*" for token in KINDS],
            max_age=max_age,
            max_msgs=max_msgs,
            num_replicas=num_replicas,
        )
        try:
            return await manage.update_stream(config)
        except NotFoundError:
            return await manage.add_stream(config)

    def dead_letters(self, stream: str) -> DeadLetters:
        """The dead letters of a stream since `keep_dead_letters`. No request is made yet.

        Args:
            stream: The stream.

        Raises:
            ValueError: The name is invalid.
        """
        return DeadLetters(self, checked_name("stream", stream))


class DeadLetters:
    """Dead letters of a stream. Created by `js.dead_letters`; read at the first use.

    A row is a dead letter, in the order of their advisories: `consumer: string, kind: string` (max_deliver,
    terminated), `reason: string` (of a termination), `deliveries: int64, died: timestamp[ns, UTC]`; then the message:
    `stream: string, seq: int64, subject: string, timestamp: timestamp[ns, UTC], headers: map<string, list<string>>,
    data: binary`. The columns after `seq` are null if the stream no longer has the message.
    """

    def __init__(self, js: DeadLetterVerbs, stream: str) -> None:
        self._js = js
        self._stream = stream
        self._table: pyarrow.Table | None = None
        self._malformed = 0

    @property
    def malformed(self) -> int:
        """Number of messages that `read_all` skipped, because they are not advisories of the server; 0 before it.

        Any client of the account may publish on their subjects. One `DecodeError`, for `error_cb` or the log, has the
        sequence and the defect of the first one. `js.delete_msg("<stream>_DEAD_LETTERS", seq)` removes one.
        """
        return self._malformed

    def __repr__(self) -> str:
        rows = "" if self._table is None else f", {self._table.num_rows} rows"
        return f"<{type(self).__name__} of stream {self._stream}{rows}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("could not pickle or copy DeadLetters: they belong to a connection; send read_all() instead")

    async def read_all(self) -> pyarrow.Table:
        """All rows (needs pyarrow). They are read once: another `js.dead_letters` reads later ones too.

        A message of `<stream>_DEAD_LETTERS` that is not an advisory is skipped and counted: `malformed`.

        Raises:
            NotFoundError: The stream's dead letters are not recorded: `await js.keep_dead_letters(stream)`.
            UnsupportedError: pyarrow is not installed.
        """
        if self._table is None:
            self._table = await self._read()
        return self._table

    async def to_polars(self) -> polars.DataFrame:
        """As `read_all`, as a `polars.DataFrame`."""
        import polars

        frame = polars.from_arrow(await self.read_all())
        assert isinstance(frame, polars.DataFrame)
        return frame

    async def to_pandas(self) -> pandas.DataFrame:
        """As `read_all`, as a `pandas.DataFrame`."""
        frame: pandas.DataFrame = (await self.read_all()).to_pandas()
        return frame

    async def _read(self) -> pyarrow.Table:
        pa = needs_pyarrow("dead_letters()")
        js, stream = self._js, self._stream
        try:
            # PERMISSIVE: a payload that is not an advisory must not hide the others.
            columns = ["seq", "timestamp", "subject", "value"]
            advisories = await js.read(dead_letter_stream(stream), columns=columns, schema=ADVISORY_SCHEMA).read_all()
        except NotFoundError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
            text = f"dead letters of stream {stream!r} are not recorded: call js.keep_dead_letters({stream!r})"
            raise NotFoundError(code=error.code, err_code=error.err_code, description=text) from None
        place = advisories.schema.get_field_index("timestamp")
        # Not as datetime, which has no nanoseconds.
        advisories = advisories.set_column(place, "recorded", advisories.column(place).cast(pa.int64()))
        rows = self._checked(advisories.to_pylist())
        found = await self._messages(sorted({row["seq"] for row in rows}))
        for row in rows:
            message = found.get(row["seq"])
            # A message that is newer than its advisory is one of a later stream of this name. The advisory of a worker
            # has the time of another clock, which may be slow.
            if message is not None and (message.time_ns or 0) <= max(row["died"], row["recorded"]):
                row |= {
                    "subject": message.subject,
                    "timestamp": message.time_ns,
                    "headers": list(message.headers_all.items()) if message.headers_all else None,
                    "data": message.data or b"",
                }
        table: pyarrow.Table = pa.Table.from_pylist(rows, _schema(pa))
        return table

    def _checked(self, advisories: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows of the advisories; counts and reports malformed ones."""
        rows, first = [], None
        for advisory in advisories:
            try:
                row = row_of(self._stream, advisory["subject"], advisory["value"], advisory["_error"])
                rows.append({**row, "recorded": advisory["recorded"]})
            except ValueError as error:
                first = first or DecodeError(str(error), seq=advisory["seq"])
        self._malformed = len(advisories) - len(rows)
        if first is not None:
            text = (
                f"skipped {self._malformed} of {len(advisories)} messages of stream"
                f" {dead_letter_stream(self._stream)!r}, which are not advisories of the server; the first:"
                f" {first.message}"
            )
            self._js._api.session.report_error(DecodeError(text, seq=first.seq))
        return rows

    async def _messages(self, seqs: list[int]) -> dict[int, models.RawStreamMsg]:
        manage = Management(self._js._api)

        async def get(seq: int) -> models.RawStreamMsg | None:
            try:
                return await manage.get_msg(self._stream, seq)
            except NotFoundError:
                return None

        messages = await self._js._api.session.gather(get, seqs, _AT_ONCE)
        return {seq: message for seq, message in zip(seqs, messages, strict=True) if message is not None}

    async def replay(
        self, rows: Iterable[int] | Iterable[bool] | None = None, subject: str | None = None
    ) -> PublishResult:
        """Publishes messages again in their order, each once, even if it is a dead letter of several consumers.

        The message id is made of stream, sequence and time, so a repeated replay stores the message once (within the
        `duplicate_window` of the target stream). Headers are kept, except those of NATS (`Nats-…`) and those with
        invalid names, for which one `MalformedMessageError` is reported.

        Args:
            rows: Rows of `read_all()`, by number, or one bool per row; None is all rows that have a message.
            subject: The subject to publish on; None is the original subject, so all its consumers receive the message.

        Raises:
            IndexError: The row does not exist.
            ValueError: The message of a requested row is no longer in the stream; nothing was sent.
            BadSubjectError: The subject of a message cannot be published on, because it has a wildcard for example;
                nothing was sent.
            Error: No row has a message.
        """
        table = await self.read_all()
        data = table["data"]
        if rows is None:
            chosen = [row for row in range(table.num_rows) if data[row].is_valid]
        else:
            chosen = row_numbers(rows, table.num_rows)
            if gone := [row for row in chosen if not data[row].is_valid]:
                raise ValueError(
                    f"could not replay rows {gone}: their messages are no longer in stream {self._stream!r};"
                    " leave them out"
                )
        columns = table.select(["seq", "subject", "headers", "data"])
        # As an integer: pyarrow converts nanoseconds to Python objects only if pandas is installed.
        columns = columns.append_column("time", table["timestamp"].cast("int64"))
        messages = {row["seq"]: row for row in columns.take(chosen).to_pylist()} if chosen else {}
        if not messages:
            raise Error(f"could not replay dead letters of stream {self._stream!r}: no row has a message")
        again = [messages[seq] for seq in sorted(messages)]
        if subject is None:
            self._check_subjects(again)
        self._report_headers(again)
        return await self._js.publish_batch(
            [subject or row["subject"] for row in again],
            [row["data"] for row in again],
            headers=[_headers(row["headers"]) for row in again],
            msg_ids=[f"replay:{self._stream}:{row['seq']}:{row['time']}" for row in again],
        )

    def _check_subjects(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            try:
                check_subject(row["subject"])
            except BadSubjectError as error:
                raise BadSubjectError(
                    f"could not replay sequence {row['seq']} of stream {self._stream!r}, and nothing was sent: {error};"
                    " pass subject=, or other rows="
                ) from None

    def _report_headers(self, rows: list[dict[str, Any]]) -> None:
        """Reports omitted headers, once for all rows."""
        bad = [
            (row, name)
            for row in rows
            for name, _ in row["headers"] or ()
            if not name.lower().startswith("nats-") and not _HEADER_NAME.fullmatch(name)
        ]
        if bad:
            row, name = bad[0]
            text = (
                f"replayed {len({row['seq'] for row, _ in bad})} messages of stream {self._stream!r} without headers"
                f" that have invalid names; the first: {name!r} of sequence {row['seq']}"
            )
            self._js._api.session.report_error(
                MalformedMessageError(text, self._stream, row["seq"], subject=row["subject"])
            )


# Valid names of headers (RFC 7230).
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _headers(kept: list[tuple[str, list[str]]] | None) -> Mapping[str, list[str]] | None:
    headers = {
        name: values
        for name, values in kept or ()
        if not name.lower().startswith("nats-") and _HEADER_NAME.fullmatch(name)
    }
    return headers or None


def _schema(pa: Any) -> Any:
    text, time = pa.string(), pa.timestamp("ns", "UTC")
    columns = {"consumer": text, "kind": text, "reason": text, "deliveries": pa.int64(), "died": time, "stream": text}
    columns |= {"seq": pa.int64(), "subject": text, "timestamp": time}
    columns |= {"headers": pa.map_(text, pa.list_(text)), "data": pa.binary()}
    return pa.schema(columns)
