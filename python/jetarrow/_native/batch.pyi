"""Batches of rows in Arrow columns."""

from typing import Any, final

from jetarrow.core.session import Session
from jetarrow.jetstream.json_rules import JsonRules
from typing_extensions import CapsuleType

@final
class Batch:
    """A batch of messages in columns."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Bytes of memory."""

    @property
    def seqs(self) -> Array:
        """The stream sequence of each row."""

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""

    def message(self, session: Session, index: int) -> Any:
        """Return one row as a message. Fields without a column are empty.

        Args:
            session: The session for the message's verbs.
            index: Number of the row; a negative one counts from the end.

        Returns:
            The message.

        Raises:
            IndexError: The row number is out of range.
        """

    def payload(self) -> bytes:
        """Return the payloads of all rows, concatenated; empty if there is no column `data`."""

    def decode(self, schema: object, mode: str, rules: JsonRules, *, binary: bool = False) -> Batch:
        """Decode `data` from JSON or Avro.

        Args:
            schema: Any object with an Arrow schema; for a binary format as `columns_of_schema` takes it.
            mode: As in `Connection.read`.
            rules: Time zone and unit of timestamps, and tolerance, of JSON.
            binary: The payloads are Avro or Protobuf, by the type of the schema. Default: False.

        Returns:
            The rows with `value` instead of `data`.

        Raises:
            ValueError: The schema has an unsupported type, or there is no column `data`.
            TypeError: `schema` is not a schema.
            DecodeError: A payload is malformed, and the mode is "FAILFAST".
        """

    def filter(self, mask: object) -> Batch:
        """Select rows.

        Args:
            mask: An Arrow array of booleans, as long as the batch.

        Returns:
            The rows for which the mask is true.

        Raises:
            ValueError: The mask has another length or type.
        """

    def by_first_token(self) -> list[tuple[str, Batch]]:
        """Split the rows by the first token of their subjects, as partitions of consumer groups have it.

        Returns:
            Each token with its rows in order, whose subjects are without it. A subject of one token keeps it, and its
            token is "".

        Raises:
            ValueError: There is no column `subject`.
        """

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...

@final
class Array:
    """A column of 64-bit integers; any Arrow library can import it without a copy."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> int | None: ...
    def to_pylist(self) -> list[int | None]:
        """Return the values as a list."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[CapsuleType, CapsuleType]: ...
