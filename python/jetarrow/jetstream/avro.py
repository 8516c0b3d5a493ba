"""The `schema=` option of Avro payloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path


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
