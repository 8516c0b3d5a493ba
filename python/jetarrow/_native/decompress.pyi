"""Compressed payloads."""

from typing import final

from jetarrow._native.batch import Batch

@final
class Decompressor:
    """Decompresses the payloads of batches, one after another.

    Args:
        codec: "zlib" (also with a gzip header) or "zstd".
        max_payload_bytes: Most bytes that one payload may stand for, up to 512 MiB.
        batch_bytes: A batch of what came out ends with the payload that has it at this many bytes, up to 512 MiB.

    Raises:
        ValueError: There is no such codec.
    """

    def __new__(cls, codec: str, *, max_payload_bytes: int, batch_bytes: int) -> Decompressor: ...
    def rows(self, batch: Batch, start: int) -> tuple[Batch, list[tuple[int, bool]]]:
        """Decompress some rows.

        Args:
            batch: Rows with `data`.
            start: The first row.

        Returns:
            The rows from there on until a batch is full; and those among them whose payload stayed as it was: their
            number in the new batch, and whether it stands for too many bytes (else it is not compressed so).

        Raises:
            ValueError: There is no `data`.
        """
