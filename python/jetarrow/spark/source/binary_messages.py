"""`payload=avro` and `payload=protobuf`: columns of the native decoder as the types that Spark has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetarrow.jetstream.errors import DecodeError
from jetarrow.spark._core import Batch
from jetarrow.spark.options.payload_schema import PayloadSchemaOptions


class BinaryMessages:
    """Decoder of Avro or Protobuf payloads to a column `value` of Spark's types.

    Args:
        options: The schema of the payloads, known.
        value: The fields of `value` in the Arrow types that Spark requires.

    Attributes:
        schema: Argument `schema` for `js.read`.
        format: Argument `format` for `js.read`.
    """

    def __init__(self, options: PayloadSchemaOptions, value: pa.Schema) -> None:
        self.schema = options.native()
        self.format = options.payload.value
        self._fields = [field.with_nullable(True) for field in value]

    def convert(self, rows: pa.RecordBatch, batch: Batch) -> pa.RecordBatch:
        """Return the rows with `value` in the types of Spark.

        Args:
            rows: The columns of a batch whose payloads are decoded.
            batch: The batch, for the sequences of errors.

        Raises:
            DecodeError: A value is out of the range that Spark has.
        """
        at = rows.schema.get_field_index("value")
        value = rows.column(at)
        # The fields of a row that has no value are null too.
        columns = [self._cast(pc.struct_field(value, field.name), field, batch) for field in self._fields]
        made = pa.StructArray.from_arrays(columns, fields=self._fields, mask=value.is_null())
        return rows.set_column(at, pa.field("value", made.type), made)

    def _cast(self, column: Any, field: pa.Field, batch: Batch) -> Any:
        if column.type.equals(field.type):
            return column
        options = pc.CastOptions(target_type=field.type, allow_time_truncate=True)
        try:
            return pc.cast(column, options=options)
        except pa.ArrowInvalid as error:
            seqs = pa.array(batch.seqs)
            text = f"one of the messages {seqs[0]} to {seqs[-1]} has a value that Spark cannot represent: {error}"
            raise DecodeError(text, seq=seqs[0].as_py(), column=field.name) from None
