"""`payload=arrow`: each message is a table, whose rows are converted to the types that Spark requires."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import jetarrow.sync
from jetarrow.jetstream.errors import DecodeError, NotFoundError
from jetarrow.jetstream.models import ErrorCode
from jetarrow.spark._core import Batch, PayloadSchema, api_request
from jetarrow.spark.options.choices import ParseMode

# Maximum number of messages that are searched for one with a schema.
_MAX_SEARCHED = 100
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


class TableMessages:
    """Decoder of the table messages of one partition to rows with a column `value`.

    The reader compares types exactly, and Arrow has several types for one of Spark: text with 32-bit or 64-bit offsets,
    times in nanoseconds or seconds. So the types of a message are read first, and columns are cast to Spark's types.

    Args:
        value: The fields of `value` in the Arrow types that Spark requires.
        mode: Handling of malformed messages.
        late: Whether rows are filtered by subject afterwards, so that a malformed message may not match.

    Attributes:
        schema: Argument `schema` for `js.read`: the fields of `value` in the types that the messages have.
        mode: Argument `mode` for `js.read`.
    """

    def __init__(self, value: pa.Schema, mode: ParseMode, *, late: bool) -> None:
        self._value = value
        self._wanted = mode
        self.schema = value
        self.mode = ParseMode.PERMISSIVE if late else mode

    def read_types(
        self, js: jetarrow.sync.JetStream, stream: str, filters: Sequence[str], *, start: int | None
    ) -> None:
        """Read the types of the messages, by one or two requests.

        Args:
            js: The context.
            stream: Name of the stream.
            filters: Subjects of the read; empty for all.
            start: First sequence of the read. None: use the types of the last message.

        Raises:
            Exception: The request failed.
        """
        found = None if start is not None else _schema_of_last(js, stream, filters)
        found = found or _schema_of_first(js, stream, filters, start or 1)
        if found is not None:
            # A missing or incompatible field keeps the required type, so that the reader reports malformed messages.
            own = {field.name: field.type for field in found}
            kinds = [own[field.name] if _fits(own.get(field.name), field.type) else field.type for field in self._value]
            self.schema = pa.schema([field.with_type(kind) for field, kind in zip(self._value, kinds, strict=True)])

    def rows(self, batch: Batch, matches: Any | None) -> pa.RecordBatch:
        """Return the rows of one batch, with `value` in place of the tables' columns.

        Args:
            batch: A batch of `js.read` with this object's arguments.
            matches: Maps subjects to whether they match. None: all match.

        Raises:
            DecodeError: A message is malformed, and the mode is FAILFAST; or a time is out of Spark's range.
        """
        rows = pa.record_batch(batch)
        seqs = pa.array(batch.seqs)
        if matches is not None:
            mask = matches(rows.column("subject"))
            rows, seqs = rows.filter(mask), seqs.filter(mask)
        malformed = None
        if "_corrupt_record" in rows.schema.names:
            malformed = rows.column("_corrupt_record").is_valid()
            if self._wanted == ParseMode.FAILFAST and (at := pc.index(malformed, True).as_py()) >= 0:
                raise DecodeError(rows.column("_error")[at].as_py(), seq=seqs[at].as_py(), column="")
        fields = [field.with_nullable(True) for field in self._value]
        columns = [self._cast(rows.column(field.name), field, seqs) for field in fields]
        value = pa.StructArray.from_arrays(columns, fields=fields, mask=malformed)
        kept = [name for name in rows.schema.names if name not in self._value.names]
        return rows.select(kept).append_column(pa.field("value", value.type), value)

    def _cast(self, column: Any, field: pa.Field, seqs: Any) -> Any:
        if column.type.equals(field.type):
            return column
        options = pc.CastOptions(target_type=field.type, allow_time_truncate=True)
        try:
            return pc.cast(column, options=options)
        except pa.ArrowInvalid as error:
            first = f"one of the messages {seqs[0]} to {seqs[-1]} has a value that Spark cannot represent: {error}"
            raise DecodeError(first, seq=seqs[0].as_py(), column=field.name) from None


def _schema_of_last(js: jetarrow.sync.JetStream, stream: str, filters: Sequence[str]) -> pa.Schema | None:
    """Return the schema of the last message that a filter matches."""
    asked = [_message(js, stream, {"last_by_subj": one}) for one in filters or (">",)]
    found = [one for one in asked if one is not None]
    return _schema(max(found, key=lambda one: int(one["seq"]))) if found else None


def _schema_of_first(js: jetarrow.sync.JetStream, stream: str, filters: Sequence[str], start: int) -> pa.Schema | None:
    """Return the schema of the first message from a sequence on that has one."""
    for _ in range(_MAX_SEARCHED):
        asked = [_message(js, stream, {"seq": start, "next_by_subj": one}) for one in filters or (">",)]
        found = [one for one in asked if one is not None]
        if not found:
            return None
        first = min(found, key=lambda one: int(one["seq"]))
        if (schema := _schema(first)) is not None:
            return schema
        start = int(first["seq"]) + 1
    return None


def _message(js: jetarrow.sync.JetStream, stream: str, query: dict[str, Any]) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = api_request(js, f"STREAM.MSG.GET.{stream}", query)["message"]
    except NotFoundError as error:
        if error.err_code != ErrorCode.NO_MESSAGE_FOUND:
            raise
        return None
    return found


def _schema(message: dict[str, Any]) -> pa.Schema | None:
    found = PayloadSchema(base64.b64decode(message.get("data") or ""))
    return None if found.__arrow_c_schema__() is None else pa.schema(found)


def _fits(found: pa.DataType | None, wanted: pa.DataType) -> bool:
    """Return whether every value of a type can be cast to the other; times may lose nanoseconds."""
    if found is None:
        return False
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(found.equals(wanted)) or _widens(found, wanted) or _same_kind(found, wanted)


def _widens(found: Any, wanted: Any) -> bool:
    kind = pa.types
    if kind.is_integer(found) and kind.is_integer(wanted):
        # Integers of Spark are signed.
        return bool(wanted.bit_width > found.bit_width)
    if kind.is_floating(found) and kind.is_floating(wanted):
        return bool(wanted.bit_width >= found.bit_width)
    if not kind.is_decimal(wanted):
        return False
    if kind.is_integer(found):
        return bool(wanted.precision - wanted.scale >= _DIGITS[found.bit_width])
    whole = wanted.precision - wanted.scale
    return bool(kind.is_decimal(found) and wanted.scale >= found.scale and whole >= found.precision - found.scale)


def _same_kind(found: Any, wanted: Any) -> bool:
    kind = pa.types
    if kind.is_struct(wanted):
        if not kind.is_struct(found) or [one.name for one in found] != [one.name for one in wanted]:
            return False
        return all(_fits(mine.type, its.type) for mine, its in zip(found, wanted, strict=True))
    if kind.is_list(wanted):
        lists = kind.is_list(found) or kind.is_large_list(found) or kind.is_fixed_size_list(found)
        return bool(lists) and _fits(found.value_type, wanted.value_type)
    if kind.is_map(wanted):
        keys = kind.is_map(found) and _fits(found.key_type, wanted.key_type)
        return bool(keys) and _fits(found.item_type, wanted.item_type)
    if kind.is_timestamp(wanted):
        return bool(kind.is_timestamp(found)) and (found.tz is None) == (wanted.tz is None)
    if kind.is_string(wanted):
        return bool(kind.is_large_string(found) or kind.is_string_view(found))
    if kind.is_binary(wanted):
        return bool(kind.is_large_binary(found) or kind.is_binary_view(found) or kind.is_fixed_size_binary(found))
    return any(same(found) and same(wanted) for same in (kind.is_date, kind.is_time, kind.is_duration))
