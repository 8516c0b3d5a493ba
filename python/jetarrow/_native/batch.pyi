"""Rows as Arrow columns."""

from typing import Any, final

from jetarrow.core.session import Session
from typing_extensions import CapsuleType

@final
class Batch:
    """Messages in columns."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory."""

    @property
    def seqs(self) -> Array:
        """The stream sequence of each row."""

    @property
    def column_names(self) -> list[str]:
        """Names of its columns, in order."""

    def message(self, session: Session, index: int) -> Any:
        """Make one row a message; what the batch does not hold is empty.

        Args:
            session: What the message's verbs go through.
            index: Number of the row; below 0 it counts from the end.

        Returns:
            The message.

        Raises:
            IndexError: There is no such row.
        """

    def payload(self) -> bytes:
        """Return the payloads of all rows, one after the other; nothing where there is no column `data`."""

    def decode(self, schema: object, mode: str) -> Batch:
        """Decode `data` from JSON.

        Args:
            schema: Anything with an Arrow schema.
            mode: As in `Connection.read`.

        Returns:
            The rows with `value` in the place of `data`.

        Raises:
            ValueError: The schema has a type that cannot be decoded, or there is no `data`.
            TypeError: `schema` is no schema.
            DecodeError: A payload cannot be decoded, and the mode is "FAILFAST".
        """

    def filter(self, mask: object) -> Batch:
        """Choose rows.

        Args:
            mask: An Arrow array of booleans, as long as the batch.

        Returns:
            The rows where the mask is true.

        Raises:
            ValueError: The mask has another length or type.
        """

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...

@final
class Array:
    """A column of 64-bit integers; any Arrow library takes it without a copy."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> int | None: ...
    def to_pylist(self) -> list[int | None]:
        """Return the values as a list."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...
