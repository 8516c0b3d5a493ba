"""What `schema=` of a read says, with an Arrow schema."""

from __future__ import annotations

from collections.abc import Mapping

from jetarrow import _jetarrow


def arrow_schema(schema: object) -> object:
    """What `schema=` of a read says, with an Arrow schema: DDL text and dicts are read, anything else is as it is.

    Args:
        schema: As `js.read` takes it.

    Raises:
        ValueError: The text cannot be understood, or a type is unknown.
        UnsupportedError: pyarrow is not installed.
    """
    if not isinstance(schema, str | Mapping):
        return schema
    from jetarrow.jetstream.read_schema import parsed  # here, as it is rarely needed

    return parsed(schema)


class PayloadSchema:
    """The Arrow schema of a payload that is an Arrow stream; of None, that of no columns."""

    def __init__(self, payload: bytes | None) -> None:
        self._payload = payload

    def __arrow_c_schema__(self) -> object:
        return _jetarrow.schema_of_payload(self._payload)
