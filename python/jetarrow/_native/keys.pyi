"""Subjects of keys."""

from collections.abc import Sequence
from typing import final

from typing_extensions import CapsuleType

def key_subjects(prefix: str, keys: Sequence[str] | object, validate: bool) -> Subjects:
    """Put a prefix before each key of a key-value bucket.

    Args:
        prefix: What the subjects begin with.
        keys: A sequence of str, or anything with an Arrow column of strings.
        validate: Look at the keys.

    Returns:
        The column.

    Raises:
        TypeError: The keys are of another type.
    """

@final
class Subjects:
    """A column of subjects."""

    invalid: int | None
    """The first row that is not valid, or null."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...
