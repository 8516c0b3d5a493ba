"""The rows of a stream that its archive does not have, in the columns of the archive."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from jetarrow.archive_scan.query import Query, columns_by_name, rfc3339
from jetarrow.archive_scan.snapshot import Snapshot
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream import models
from jetarrow.jetstream.binary_schema import BinaryColumns, NativeSchema
from jetarrow.jetstream.errors import DataLossError, SinkSchemaError, StreamRecreatedError
from jetarrow.jetstream.json_rules import JsonRules
from jetarrow.jetstream.literals import BINARY_FORMATS, OnDataLoss, RowFormat
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.registry import RegisteredSchema, SchemaRegistry, payload_of, payload_schema
from jetarrow.jetstream.rollback import error_without_marks, verify
from jetarrow.jetstream.schema import arrow_schema
from jetarrow.jetstream.sinks.rows import Shape, from_text

if TYPE_CHECKING:
    import jetarrow.sync

_METADATA = ("stream", "seq", "subject", "timestamp", "headers")
_BATCH_ROWS = 65_536


class Payloads:
    """Decoding of the stream's payloads to the columns of an archive.

    Args:
        snapshot: The archive.
        format: "json", "avro" or "protobuf".
        schema: Schema of the payloads; None for that of the archive.
        registry: As `to_parquet`.

    Raises:
        SinkSchemaError: The archive has other payloads.
        TypeError: The format needs a schema.
    """

    def __init__(
        self, snapshot: Snapshot, format: RowFormat, schema: Any, *, registry: SchemaRegistry | None = None
    ) -> None:
        state = snapshot.state
        self.format = format
        self.fields = None if state.schema is None else from_text(state.schema)
        self.schema: pa.Schema | NativeSchema | RegisteredSchema | None = self.fields
        if self.fields is None and schema is not None:
            raise SinkSchemaError(
                "could not read archive and stream as one table: the archive has undecoded payloads in data; leave"
                " schema= out and decode data, or archive with schema="
            )
        if self.fields is not None and state.payload not in (None, format):
            raise SinkSchemaError(
                f"could not read archive and stream as one table: the archive has {state.payload} payloads; give"
                f" format={state.payload!r} and their schema="
            )
        given: pa.Schema | None = None
        if self.fields is not None and format in BINARY_FORMATS:
            native = payload_schema(format, schema, registry) or payload_of(self.fields, registry)
            if native is None:
                raise SinkSchemaError(
                    "could not read archive and stream as one table: the archive was not written with a registry; give"
                    " the schema of the sink"
                )
            self.schema = native
            given = pa.schema(BinaryColumns(native))
        elif schema is not None and schema != "infer":
            given = pa.schema(arrow_schema(schema))
        if given is not None and self.fields is not None and not given.equals(self.fields):
            raise SinkSchemaError(
                "could not read archive and stream as one table: schema= has other columns"
                f" ({', '.join(map(str, given))}) than the archive ({', '.join(map(str, self.fields))}); give the"
                " schema of the sink"
            )
        zone, numbers = state.rules
        self.rules = JsonRules(zone, numbers)
        unit = snapshot.columns.field("timestamp").type.unit
        self.unit: Any = "us" if unit == "us" else "ns"
        # A struct cannot contain its own type, so a flattened field `value` differs from the struct of all fields.
        columns = snapshot.columns
        self.flatten = self.fields is not None and not (
            "value" in columns.names and columns.field("value").type.equals(pa.struct(list(self.fields)))
        )


class StreamRest:
    """The rest of a stream after the position of an archive.

    Args:
        js: The connection.
        snapshot: The archive.
        payloads: Decoding of the payloads.
        on_data_loss: As `js.read`.
    """

    def __init__(
        self, js: jetarrow.sync.JetStream, snapshot: Snapshot, payloads: Payloads, on_data_loss: OnDataLoss
    ) -> None:
        self._js, self._snapshot, self._payloads = js, snapshot, payloads
        self._on_data_loss = on_data_loss
        self._shape = Shape(
            schema=payloads.fields,
            flatten=payloads.flatten,
            partition_by=self._own_partitions(),
            escaped=snapshot.escaped,
        )
        self.info = js.stream_info(snapshot.state.stream)

    def at(self, snapshot: Snapshot) -> StreamRest:
        """Return the rest of the stream after a later snapshot."""
        return StreamRest(self._js, snapshot, self._payloads, self._on_data_loss)

    def _own_partitions(self) -> list[str]:
        """The partition columns that a sink makes; a Delta table may have others, which another writer added."""
        snapshot, payloads = self._snapshot, self._payloads
        known = {
            *_METADATA,
            "data",
            "value",
            "date",
            "hour",
            *(() if payloads.fields is None else payloads.fields.names),
        }
        return [name for name in snapshot.partition_by if name in known]

    @property
    def is_consumed(self) -> bool:
        """Whether acknowledgements remove messages from the stream."""
        return bool(self.info.config.retention != models.RetentionPolicy.LIMITS)

    def check(self) -> None:
        """Check that the stream is that of the archive, and not behind its position.

        Raises:
            StreamRecreatedError: It was deleted and created again.
            StreamRolledBackError: It was rolled back behind the position.
        """
        state, last = self._snapshot.state, self.info.state.last_seq
        self._check_created(self.info.created_raw)
        error = run_to_completion(verify(self._js._inner._api, state.stream, state.marks))
        if error is None and last < state.last_seq:
            error = error_without_marks(state.stream, last, state.last_seq)
        if error is not None:
            raise error

    def _check_created(self, created: str | None) -> None:
        state = self._snapshot.state
        if created != state.created:
            raise StreamRecreatedError(
                f"could not read archive and stream as one table: stream {state.stream!r} was deleted and created again"
                " since the last commit of the archive, so its sequences are other messages; read the archive alone, or"
                " archive the new stream in another place"
            )

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        """Yield the rows that the archive does not have, with the needed columns, by sequence.

        Args:
            query: The bounds of the rows; others within the read ranges are yielded too.

        Raises:
            DataLossError: The stream no longer has the first rows after the position.
            StreamRecreatedError: As `check`.
            StreamRolledBackError: As `check`.
            SinkSchemaError: The rows have other columns than the archive.
        """
        state = self._snapshot.state
        self.info = self._js.stream_info(state.stream)
        self.check()
        last = self.info.state.last_seq
        for low, high in query.ranges(state):
            high = min(high, last)
            if not self.is_consumed and self._loses(low, high, query):
                low = self.info.state.first_seq
            while low <= high:
                try:
                    for batch, last_seq in self._read(low, high, query):
                        low = last_seq + 1
                        yield batch
                    break
                except DataLossError as error:
                    if not self.is_consumed or error.available is None:
                        raise
                    # Messages that were acknowledged, so they are in a later version of the archive.
                    low = max(low, error.available)

    def _loses(self, low: int, high: int, query: Query) -> bool:
        """Whether the stream lost needed messages of a range, which is an error by default."""
        info = self.info.state
        if self._snapshot.state.last_seq == 0 or info.first_seq <= low or high < low:
            return False
        first = info.first_ts
        if query.since is not None and first is not None and query.since > first.timestamp() * 1_000_000_000:
            # The lost messages were stored before the first one.
            return False
        error = self._loss(low, min(info.first_seq - 1, high))
        if self._on_data_loss == "error":
            raise error
        warnings.warn(str(error), stacklevel=2)
        return True

    def _loss(self, low: int, high: int) -> DataLossError:
        stream, first = self._snapshot.state.stream, self.info.state.first_seq
        return DataLossError(
            (low, high + 1),
            first,
            message=f"data loss: neither the archive nor stream {stream!r} has the sequences {low} to {high}: the"
            f" archive ends at {self._snapshot.state.last_seq}, and the stream starts at {first}, because a limit, a"
            ' purge or a delete removed earlier messages; read without them by on_data_loss="warn"',
        )

    def _read(self, low: int, high: int, query: Query) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield rows with the last sequence that was read."""
        payloads, state = self._payloads, self._snapshot.state
        spec = ReadSpec(
            state.stream,
            **self._range(low, high, query),
            subjects=sorted(query.subjects) if query.subjects else None,
            columns=self._read_columns(query),
            schema=payloads.schema,
            format=payloads.format,
            rules=payloads.rules,
            timestamp_unit=payloads.unit,
            on_data_loss=self._on_data_loss,
            batch_rows=min(_BATCH_ROWS, query.limit or _BATCH_ROWS),
            marks=state.marks,
        )
        with Reader(self._js._inner._api, spec) as reader:
            for found in reader:
                self._check_created(reader.created)
                batch = found.to_pyarrow()
                seqs = batch.column("seq")
                if seqs[0].as_py() < low:
                    batch = batch.filter(pa.compute.greater_equal(seqs, low))
                yield self._shaped(batch, query.columns), seqs[-1].as_py()
        if query.subjects and self._on_data_loss == "error" and not self.is_consumed:
            # With filters a read only warns of losses.
            self.info = self._js.stream_info(state.stream)
            self._loses(low, high, query)

    def _range(self, low: int, high: int, query: Query) -> dict[str, Any]:
        state = self._snapshot.state
        found: dict[str, Any] = {"start_seq": low, "end_seq": high + 1}
        if query.since is not None and state.marks and low > state.last_seq and query.since > state.marks[0][1]:
            found["start_time"] = rfc3339(query.since)
            del found["start_seq"]
        return found

    def _read_columns(self, query: Query) -> list[str]:
        needed = {*query.columns, *self._own_partitions(), "seq"}
        if {"date", "hour"} & needed:
            needed.add("timestamp")
        found = [name for name in _METADATA if name in needed]
        if self._payloads.fields is not None:
            # All fields, also those that are not needed: one malformed field keeps a row out of the archive.
            return [*found, "value"]
        return [*found, *(["data"] if "data" in needed else [])]

    def _shaped(self, batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
        """Return the rows of the table, with the needed columns in the types of the archive."""
        rows, _ = self._shape.split(batch)
        fields = columns_by_name(self._snapshot.columns, names)
        columns = []
        for field in fields:
            if field.name not in rows.schema.names:
                # A column that was added to the table later.
                columns.append(pa.nulls(rows.num_rows, field.type))
                continue
            column = rows.column(field.name)
            try:
                columns.append(_cast(column, field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SinkSchemaError(
                    f"could not read archive and stream as one table: column {field.name!r} is {column.type} in the"
                    f" stream and {field.type} in the archive: {str(error).partition(chr(10))[0]}; give the schema of"
                    " the sink"
                ) from error
        schema = pa.schema([pa.field(field.name, field.type) for field in fields])
        return pa.RecordBatch.from_arrays(columns, schema=schema) if fields else rows.select([])


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in a type of the archive; Iceberg tables truncate times to microseconds."""
    if column.type.equals(kind):
        return column
    return column.cast(options=pa.compute.CastOptions(kind, allow_time_truncate=True))
