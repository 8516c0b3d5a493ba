"""Table rows as messages."""

from typing import final

@final
class TableMessages:
    """Messages encoded from table rows on demand, as an Arrow stream for `publish_batch`.

    Args:
        table: Any Arrow data with columns.
        columns: The columns of the payload; None for all.
        subject: A subject, or a template of columns; None for the column `subject`.
        msg_id: A column, "content", or None.
        nulls: Write null fields.
        arrow: For Arrow messages: compression, maximum rows and maximum bytes of each. None makes each row a message.
        binary: Schema of Avro or Protobuf payloads, as `columns_of_schema` takes it. None encodes rows as JSON.
        frame: Bytes before each of these payloads; None for none.

    Raises:
        TypeError: `table` is not a table, or a column has a type without a JSON encoding.
        ValueError: A column is missing, or the template is invalid.
        BadSubjectError: The subject is invalid for any column values.
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
        binary: str | tuple[bytes, str] | None = None,
        frame: bytes | None = None,
    ) -> TableMessages: ...
    def __len__(self) -> int:
        """Return the number of messages.

        Raises:
            ValueError: The table is a stream, or messages have many rows.
        """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the messages. It can be called once.

        Raises:
            ValueError: The messages were already returned.
        """
