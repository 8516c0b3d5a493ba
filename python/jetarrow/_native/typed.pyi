"""The schema of a payload."""

from typing_extensions import CapsuleType

def schema_of_payload(payload: bytes | None) -> CapsuleType | None:
    """Return the schema of a payload that is an Arrow stream.

    Args:
        payload: The payload; None for the schema without columns.

    Returns:
        The schema, in a capsule; None if the payload is not an Arrow stream.
    """
