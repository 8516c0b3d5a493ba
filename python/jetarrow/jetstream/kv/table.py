"""Reading of a bucket as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jetarrow.core.docstrings import with_entries_of
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.kv.bucket import Bucket
from jetarrow.jetstream.kv.names import filters_of
from jetarrow.jetstream.literals import DecodeMode, TimestampNumbers, TimestampUnit
from jetarrow.jetstream.progress import Progress
from jetarrow.jetstream.read import ReadVerbs
from jetarrow.jetstream.read_spec import BATCH_BYTES, ReadSpec
from jetarrow.jetstream.reader import Reader

if TYPE_CHECKING:
    import pyarrow


class Tables(Bucket):
    """The verbs `read` and `to_table`."""

    @with_entries_of(ReadVerbs.read)
    def read(
        self,
        filters: str | Sequence[str] | None = None,
        schema: ArrowSchema | None = None,
        *,
        mode: DecodeMode = "PERMISSIVE",
        batch_rows: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        timestamp_unit: TimestampUnit = "ns",
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
        progress: Progress | bool | None = None,
    ) -> Reader:
        """Reads the present values of keys as Arrow batches, in the order of their revisions.

        Columns: `key: string, value: binary, revision: int64, created: timestamp[ns, UTC]`. Deleted keys are
        omitted. Each key appears once, with the value that it had when the read was opened. If that revision was
        replaced during the read (a history of 1), the key has a later value, or is omitted if it was deleted.

        Args:
            filters: Only keys that match one of these, such as `orders.*`. Default: all.
            schema: Decodes JSON values: `value` becomes `struct<...>` of these fields, as in `js.read`.
            mode: Handling of values that do not fit the schema, as in `js.read`.
            batch_rows: As `js.read`.
            batch_bytes: Size in bytes of the values at which a batch ends; default 16 MiB, at most 1 GiB.
            timestamp_unit: "ns", or "us" for readers without nanoseconds.
            time_zone: As `js.read`.
            timestamp_numbers: As `js.read`.
            progress: As in `js.read`.

        Returns:
            A reader to iterate (`async for`), or to read at once with `await reader.read_all()`.
        """
        wanted = filters_of(filters)
        spec = ReadSpec(
            self._stream,
            # All subjects of a bucket are keys.
            subjects=[] if wanted == [">"] else [self._pre + key for key in wanted],
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            timestamp_unit=timestamp_unit,
            time_zone=time_zone,
            timestamp_numbers=timestamp_numbers,
            on_data_loss="warn",
            schema=schema,
            mode=mode,
            progress=progress,
            latest=True,
            deleted=False,
            bucket=self._pre,
        )
        return Reader(self._js._api, spec)

    @with_entries_of(read)
    async def to_table(
        self,
        filters: str | Sequence[str] | None = None,
        schema: ArrowSchema | None = None,
        *,
        mode: DecodeMode = "PERMISSIVE",
        timestamp_unit: TimestampUnit = "ns",
        time_zone: str = "UTC",
        timestamp_numbers: TimestampNumbers | None = None,
        progress: Progress | bool | None = None,
    ) -> pyarrow.Table:
        """Returns the present values of keys as a table of one row per key, without deleted keys (needs pyarrow).

        Args:
            filters: As `read`.
            schema: As `read`.
            mode: As `read`.
            timestamp_unit: As `read`.
            time_zone: As `read`.
            timestamp_numbers: As `read`.
            progress: As `read`.

        Raises:
            NotFoundError: The bucket does not exist.
            DecodeError: The mode is FAILFAST, and a value does not fit the schema.
            InvalidKeyError: A filter is not valid.
        """
        return await self.read(
            filters,
            schema,
            mode=mode,
            timestamp_unit=timestamp_unit,
            time_zone=time_zone,
            timestamp_numbers=timestamp_numbers,
            progress=progress,
        ).read_all()
