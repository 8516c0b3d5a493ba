"""Message ids made of the content."""

from typing import final

from typing_extensions import CapsuleType

@final
class ContentIds:
    """Message ids made of what messages say: the same rows, in any order, have the same ids.

    Args:
        scope: Names the rows that may be taken for each other; rows of another scope have other ids. None: only rows
            with an id of their own have one.
    """

    def __new__(cls, scope: bytes | None) -> ContentIds: ...
    def column(self, table: object, subject: str | None = None) -> Ids:
        """Make one id per row.

        Args:
            table: One Arrow table: `data`, and `subject`, `headers`, `msg_id` where it has them.
            subject: Instead of the column. Default: the column.

        Returns:
            The ids. A row's own `msg_id` stays; a row without data has none.

        Raises:
            TypeError: It is no Arrow table, or a column has another type.
            ValueError: There is no column `data`.
        """

    def forget(self) -> None:
        """Forget the rows that were not seen since the last call."""

@final
class Ids:
    """A column of strings; any Arrow library takes it without a copy."""

    def __len__(self) -> int: ...
    @property
    def repeated(self) -> tuple[int, str] | None:
        """The first row whose own id an earlier row had, and that id; None where there is none."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...
