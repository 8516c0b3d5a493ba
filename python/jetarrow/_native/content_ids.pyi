"""Message ids from the content of messages."""

from typing import final

from typing_extensions import CapsuleType

@final
class ContentIds:
    """Message ids from the content of rows. Equal rows, in any order, have equal ids.

    Args:
        scope: Part of the ids, so equal rows of different scopes have different ids. None: only rows with an id of
            their own have one.
    """

    def __new__(cls, scope: bytes | None) -> ContentIds: ...
    def column(self, table: object, subject: str | None = None) -> Ids:
        """Return one id per row.

        Args:
            table: One Arrow table with `data`, and optionally `subject`, `headers` and `msg_id`.
            subject: Replaces the column. Default: the column.

        Returns:
            The ids. A row with a `msg_id` keeps it; a row without data has none.

        Raises:
            TypeError: `table` is not an Arrow table, or a column has another type.
            ValueError: There is no column `data`.
        """

@final
class Ids:
    """A column of strings; any Arrow library can import it without a copy."""

    def __len__(self) -> int: ...
    @property
    def repeated(self) -> tuple[int, str] | None:
        """The first row whose own id repeats that of an earlier row, and the id; None if there is none."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...
