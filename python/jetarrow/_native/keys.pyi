"""Subjects of the keys of a key-value bucket."""

from collections.abc import Sequence
from typing import final

from typing_extensions import CapsuleType

def key_subjects(prefix: str, keys: Sequence[str] | object, validate: bool) -> Subjects:
    """Put a prefix before each key of a key-value bucket.

    Args:
        prefix: Prefix of the subjects.
        keys: A sequence of str, or any Arrow column of strings.
        validate: Validate the keys.

    Returns:
        The column.

    Raises:
        TypeError: The keys are of another type.
    """

@final
class Subjects:
    """A column of subjects."""

    invalid: int | None
    """The first row whose key is invalid or null; None if there is none."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...
