"""Decompression of payloads."""

from typing import final

from jetarrow._native.batch import Batch

@final
class Decompressor:
    """Decompresses the payloads of batches, one after another.

    Args:
        codec: "zlib" (also with a gzip header) or "zstd".
        max_payload_bytes: Maximum bytes of a decompressed payload, up to 512 MiB.
        batch_bytes: Bytes of decompressed payloads at which a batch ends, up to 512 MiB.

    Raises:
        ValueError: The codec is unknown.
    """

    def __new__(cls, codec: str, *, max_payload_bytes: int, batch_bytes: int) -> Decompressor: ...
    def rows(self, batch: Batch, start: int) -> tuple[Batch, list[tuple[int, bool]]]:
        """Decompress some rows.

        Args:
            batch: Rows with `data`.
            start: The first row.

        Returns:
            The rows from `start` until a batch is full, and those whose payload stayed unchanged: their number in the
            new batch, and whether the payload exceeds `max_payload_bytes` (otherwise it is malformed).

        Raises:
            ValueError: There is no column `data`.
        """
