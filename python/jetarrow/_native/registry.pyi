"""Schema registries."""

from typing import Any, final

from jetarrow._native.batch import Batch
from jetarrow._native.call import Call

@final
class SchemaRegistry:
    """A schema registry, with what it has answered.

    Args:
        url: Its address.
        user: User of basic authentication, or None.
        password: Its password.
        token: A bearer token, or None.
        tls: As the option `tls` of `connect`.
        timeout: Seconds for an answer.

    Raises:
        ValueError: An argument is invalid.
    """

    def __new__(
        cls,
        url: str,
        *,
        user: str | None,
        password: str | None,
        token: str | None,
        tls: dict[str, Any] | None,
        timeout: float | None,
    ) -> SchemaRegistry: ...
    @property
    def url(self) -> str:
        """The address without secrets."""

    def schema_of(self, batch: Batch, format: str) -> Call[str | tuple[bytes, str] | None]:
        """Fetch the schema of the first payload that names a usable one; None if there is none.

        Args:
            batch: Messages with the column `data`.
            format: "avro" or "protobuf".
        """

    def frame(self, schema: str | tuple[bytes, str], subject: str | None, register: bool) -> Call[bytes]:
        """Fetch the frame of payloads of a schema.

        Args:
            schema: As `columns_of_schema` takes it.
            subject: The subject; None for the name of the record or message.
            register: Register a schema that the subject does not have.
        """

    def latest(self, subject: str, format: str) -> Call[tuple[str | tuple[bytes, str], bytes]]:
        """Fetch the latest schema of a subject, and the frame of its payloads.

        Args:
            subject: The subject.
            format: "avro" or "protobuf".
        """
