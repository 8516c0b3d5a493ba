"""A table's rows as messages."""

from typing import final

@final
class TableMessages:
    """A table's rows as messages, made when they are asked for: an Arrow stream of what `publish_batch` takes.

    Args:
        table: Any Arrow data with columns.
        columns: The columns of the payload; None is all.
        subject: A subject, or a template of columns; None is the column `subject`.
        msg_id: A column, "content", or None.
        nulls: Whether null fields are written.
        arrow: For Arrow messages: the compression, and most rows and bytes of each. None makes each row JSON.

    Raises:
        TypeError: It is no table, or a column has a type that has no JSON.
        ValueError: A column is missing, or the template is wrong.
        BadSubjectError: The subject is wrong whatever the columns hold.
    """

    def __new__(
        cls,
        table: object,
        *,
        columns: list[str] | None,
        subject: str | None,
        msg_id: str | None,
        nulls: bool,
        arrow: tuple[str | None, int, int] | None = None,
    ) -> TableMessages: ...
    def __len__(self) -> int:
        """Return how many messages there are.

        Raises:
            ValueError: The table is a stream, or messages have many rows.
        """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the messages, once.

        Raises:
            ValueError: They were taken already.
        """
