"""Messages of a pipe: the table of its function becomes payloads, subjects and headers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jetarrow._jetarrow import TableMessages
from jetarrow.core.session import Headers
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.arrow_compat import without_nested_offsets
from jetarrow.jetstream.pipe_errors import PipeError

if TYPE_CHECKING:
    import pyarrow

# Columns of a read that are no part of a payload unless `columns` names them.
_META = ("stream", "seq", "subject", "timestamp", "headers")
# Column whose texts mark failed rows.
ERROR = "error"
# Column of reasons of the encoder.
_REASON = "__jetarrow_error"
# Column of payloads that are not used.
_UNUSED = "__jetarrow_unused"
# Headers that instruct the server; those of the source are not for the target.
_SERVER = "Nats-"


@dataclass(frozen=True)
class Failure:
    """A row that has no message.

    Attributes:
        seq: Sequence of its message in the source; None if the table of the function has no column `seq`.
        reason: The reason.
    """

    seq: int | None
    reason: str


@dataclass
class Output:
    """The result of a step.

    Attributes:
        messages: Table with the columns `subject`, `data` and `headers`.
        failures: Rows that have no message.
    """

    messages: pyarrow.Table
    failures: list[Failure] = field(default_factory=list)


def message_schema() -> pyarrow.Schema:
    """Return the schema of messages."""
    pa = needs_pyarrow("a pipe")
    headers = pa.map_(pa.string(), pa.list_(pa.string()))
    return pa.schema([("subject", pa.string()), ("data", pa.binary()), ("headers", headers)])


@dataclass(frozen=True)
class Encoder:
    """Encodes tables as messages.

    Attributes:
        subject: Template of subjects; None if the tables have a column `subject`.
        columns: Columns of the payload; None for all but those of a read.
        headers: Headers of every message.
        nulls: Whether nulls are written in JSON.
        binary: Schema of Avro or Protobuf; None for JSON.
        frame: Bytes before each binary payload.
        reserved: Subjects of the pipe itself.
        target: Name of the target.
        subjects: Its subjects.
    """

    subject: str | None
    columns: Sequence[str] | None
    headers: Headers
    nulls: bool
    binary: Any
    frame: bytes | None
    reserved: Sequence[str]
    target: str
    subjects: Sequence[str]

    def encode(self, result: Any) -> Output:
        """Return the messages of a table.

        Args:
            result: Any Arrow table, batch or stream; None is no rows.

        Raises:
            PipeError: It is no table, or lacks a column.
            TypeError: A type has no representation in the format.
        """
        pa = needs_pyarrow("a pipe")
        if result is None:
            return Output(message_schema().empty_table())
        table = _as_table(result)
        failures: list[Failure] = []
        if ERROR in table.column_names:
            table = _without(table, table[ERROR].cast(pa.string()), failures).drop_columns([ERROR])
        raw = "data" in table.column_names
        messages, reasons = self._raw(table) if raw else self._encoded(table)
        rows = pa.table({"seq": table["seq"] if "seq" in table.column_names else pa.nulls(len(table), pa.int64())})
        if reasons.null_count < len(reasons):
            _without(rows, reasons, failures)
            messages = messages.filter(reasons.is_null())
        return Output(messages, failures)

    def _raw(self, table: Any) -> tuple[pyarrow.Table, Any]:
        """Return messages whose payloads are the column `data`."""
        pa = needs_pyarrow("a pipe")
        subjects = self._subjects_of_raw(table)
        messages = pa.table(
            {"subject": subjects, "data": _cast(table["data"], pa.binary(), "data"), "headers": self._headers(table)},
            schema=message_schema(),
        )
        return messages, self._reasons(messages, None)

    def _subjects_of_raw(self, table: Any) -> Any:
        pa = needs_pyarrow("a pipe")
        if self.subject is None:
            if "subject" not in table.column_names:
                raise _no_subject()
            return _cast(table["subject"], pa.string(), "subject")
        # The encoder fills the template; its payloads are not used.
        unused = pa.repeat(pa.scalar(0, pa.int8()), len(table))
        names = [name for name in table.column_names if f"{{{name}}}" in self.subject]
        narrow = table.select(names).append_column(_UNUSED, unused)
        return replace(self, binary=None, frame=None)._native(narrow, columns=[_UNUSED])["subject"]

    def _encoded(self, table: Any) -> tuple[pyarrow.Table, Any]:
        """Return messages whose payloads are the encoded columns."""
        pa = needs_pyarrow("a pipe")
        if self.subject is None and "subject" not in table.column_names:
            raise _no_subject()
        columns = list(self.columns or [name for name in table.column_names if name not in _META])
        found = self._native(table, columns=columns)
        messages = pa.table(
            {"subject": found["subject"], "data": found["data"], "headers": self._headers(table)},
            schema=message_schema(),
        )
        return messages, self._reasons(messages, found[_REASON])

    def _native(self, table: Any, *, columns: list[str]) -> Any:
        pa = needs_pyarrow("a pipe")
        rows = TableMessages(
            without_nested_offsets(table),
            columns=columns,
            subject=self.subject,
            msg_id=None,
            nulls=self.nulls,
            arrow=None,
            binary=self.binary,
            frame=self.frame,
        )
        return pa.RecordBatchReader.from_stream(rows).read_all()

    def _headers(self, table: Any) -> Any:
        """Return the headers of the rows: those of the column `headers`, without the server's, and the given ones."""
        pa = needs_pyarrow("a pipe")
        kind = message_schema().field("headers").type
        if "headers" not in table.column_names:
            own = [(name, [value] if isinstance(value, str) else list(value)) for name, value in self.headers.items()]
            return pa.repeat(pa.scalar(own or None, kind), len(table))
        column = _cast(table["headers"], kind, "headers")
        if not self.headers:
            return pa.chunked_array([_without_server(chunk) for chunk in column.chunks], kind)
        given = {name: [value] if isinstance(value, str) else list(value) for name, value in self.headers.items()}
        rows = (
            {name: values for name, values in row or () if not name.startswith(_SERVER)} for row in column.to_pylist()
        )
        return pa.array([list({**row, **given}.items()) for row in rows], kind)

    def _reasons(self, messages: Any, reasons: Any) -> Any:
        """Return why rows have no message, null for those that have one."""
        import pyarrow.compute as pc

        pa = needs_pyarrow("a pipe")
        subjects = messages["subject"]
        if reasons is None:
            reasons = pa.chunked_array([pa.nulls(len(messages), pa.string())])

        def add(wrong: Any, reason: Any) -> None:
            nonlocal reasons
            reasons = pc.if_else(pc.and_(reasons.is_null(), pc.fill_null(wrong, False)), reason, reasons)

        for column in ("subject", "data"):
            if messages[column].null_count:
                add(messages[column].is_null(), f"it has no {column}")
        for subject in self.reserved:
            add(pc.equal(subjects, subject), f"{subject} is a subject of the pipe itself")
        stored = pc.match_substring_regex(subjects, _pattern(self.subjects))
        if not pc.all(stored).as_py():
            given = ", ".join(self.subjects)
            texts = pc.binary_join_element_wise(subjects, f"is not a subject of stream {self.target!r} ({given})", " ")
            add(pc.invert(stored), texts)
        return reasons


def _pattern(subjects: Sequence[str]) -> str:
    """Return a regular expression of the subjects that a stream stores."""
    tokens = {"*": "[^.]+", ">": ".+"}
    found = ("\\.".join(tokens.get(one, re.escape(one)) for one in subject.split(".")) for subject in subjects)
    return "|".join(f"^{one}$" for one in found)


def _as_table(result: Any) -> Any:
    pa = needs_pyarrow("a pipe")
    if isinstance(result, pa.Table):
        return result
    if isinstance(result, pa.RecordBatch):
        return pa.Table.from_batches([result])
    if hasattr(result, "__arrow_c_stream__") or hasattr(result, "__arrow_c_array__"):
        return pa.table(result)
    raise PipeError(
        f"the function of the pipe returned {type(result).__name__}: return a table (of pyarrow, polars or another"
        " Arrow library), or None for no messages"
    )


def _no_subject() -> PipeError:
    return PipeError(
        "the table of the function has no column subject: give a template such as subject='enriched.{region}', or add"
        " the column"
    )


def _cast(column: Any, kind: Any, name: str) -> Any:
    pa = needs_pyarrow("a pipe")
    try:
        return column if column.type == kind else column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise PipeError(
            f"the column {name} of the function's table must be of type {kind}, not {column.type}"
        ) from error


def _without(table: Any, reasons: Any, failures: list[Failure]) -> Any:
    """Return the rows without a reason; the others become failures."""
    failed = table.filter(reasons.is_valid())
    seqs = failed["seq"].to_pylist() if "seq" in failed.column_names else [None] * len(failed)
    failures += [Failure(seq, reason) for seq, reason in zip(seqs, reasons.drop_null().to_pylist(), strict=True)]
    return table.filter(reasons.is_null())


def _without_server(headers: Any) -> Any:
    """Return headers without those that instruct the server, such as the id of the source's message."""
    import pyarrow.compute as pc

    pa = needs_pyarrow("a pipe")
    keys = headers.keys
    kept = pc.invert(pc.starts_with(keys, _SERVER))
    if kept.true_count == len(kept) or not len(kept):
        return headers
    counts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(kept.cast(pa.int32()))])
    # `keys` holds all entries from the first byte of the buffer on, whatever slice of rows this is.
    offsets = pc.take(counts, headers.offsets)
    return pa.MapArray.from_arrays(offsets, keys.filter(kept), headers.items.filter(kept)).cast(headers.type)
