"""The schema of a payload."""

from typing_extensions import CapsuleType

def columns_of_schema(schema: str | tuple[bytes, str]) -> CapsuleType:
    """Return the columns of Avro or Protobuf payloads: an Arrow schema in a capsule.

    Args:
        schema: The JSON of an Avro schema, or a descriptor set and the name of a message.

    Raises:
        ValueError: The schema is invalid, or has a type without columns.
    """

def schema_of_payload(payload: bytes | None) -> CapsuleType | None:
    """Return the schema of a payload that is an Arrow stream.

    Args:
        payload: The payload; None for the schema without columns.

    Returns:
        The schema, in a capsule; None if the payload is not an Arrow stream.
    """
