"""Number of messages of a batch read, without their transfer."""

from __future__ import annotations


def count_messages(**options: object) -> int:
    """Count the messages of a batch read, without their transfer and without a job of Spark.

    The number is exact, and that of `spark.read.format("jetstream").options(**options).load().count()` if every message
    is one row: `mode=DROPMALFORMED` has fewer rows, `payload=arrow` has others. The server counts. The sequences of the
    messages are read instead, if messages are stored during the count of a read with an end, or if only a part of a
    work-queue or interest stream is read. This process connects to the servers.

    Args:
        options: Options of the read, as for `DataFrameReader.options`.

    Returns:
        The number of messages in all streams.

    Raises:
        ValueError: An option is not valid, or is `readMode=latest`.
        NoServersError: No server responds within the connect timeout.
        AuthorizationError: A server rejects the credentials.
        NotFoundError: A stream does not exist.
        DataLossError: The stream no longer has the sequence of `startingOffsets`.
    """
    # Imported here, because it needs pyspark.
    from .source.count import count_rows

    texts = {name: _text(value) for name, value in options.items() if value is not None}
    return count_rows(texts)


def _text(value: object) -> str:
    """Return the text of an option as Spark has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
