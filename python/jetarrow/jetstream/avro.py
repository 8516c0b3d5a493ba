"""The `schema=` option of Avro payloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from jetarrow import _jetarrow


class AvroColumns:
    """The columns of an Avro record, as an object with an Arrow schema.

    Args:
        schema: The JSON text of the Avro schema.
    """

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def __arrow_c_schema__(self) -> object:
        """Exports the schema.

        Raises:
            ValueError: It is not an Avro schema, or has a type without columns.
        """
        return _jetarrow.schema_of_avro(self._schema)


def avro_schema(schema: object) -> str:
    """Returns the JSON text of an Avro schema.

    Args:
        schema: The text, the same as a dict, or the path of a file that has it.

    Raises:
        TypeError: It is none of these.
        OSError: The file cannot be read.
    """
    if isinstance(schema, str):
        return schema
    if isinstance(schema, Mapping):
        return json.dumps(schema)
    if isinstance(schema, PathLike):
        return Path(schema).read_text("utf-8")
    raise TypeError(
        'format="avro" needs schema=: an Avro schema as JSON text, as a dict, or as the path of a file, '
        f"not {type(schema).__name__}"
    )
