"""The schema of a payload."""

from typing_extensions import CapsuleType

def schema_of_avro(schema: str) -> CapsuleType:
    """Return the columns of an Avro record: an Arrow schema in a capsule.

    Args:
        schema: The JSON of the Avro schema.

    Raises:
        ValueError: It is not an Avro schema, or has a type without columns.
    """

def schema_of_payload(payload: bytes | None) -> CapsuleType | None:
    """Return the schema of a payload that is an Arrow stream.

    Args:
        payload: The payload; None for the schema without columns.

    Returns:
        The schema, in a capsule; None if the payload is not an Arrow stream.
    """
