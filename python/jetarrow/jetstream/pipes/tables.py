"""Tables that a pipe's function has beside the rows: the last message of each subject, or the values of a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream import models
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.compacted_reader import CompactedReader
from jetarrow.jetstream.kv.key_value import KeyValue
from jetarrow.jetstream.manage import Management
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.sinks.upsert import deletion_markers

if TYPE_CHECKING:
    import pyarrow


class PipeTable:
    """A table as it was at a sequence of its stream.

    Args:
        api: The API.
        name: Name of the table.
        source: A reader of `js.latest` or `kv.read`, or a bucket.

    Raises:
        TypeError: It is something else.
        ValueError: It is a reader of the past, or of a part of the subjects' rows.
    """

    def __init__(self, api: JetStreamApi, name: str, source: object) -> None:
        inner = getattr(source, "_inner", source)
        if isinstance(inner, KeyValue):
            inner = inner.read()
        if not isinstance(inner, Reader) or not inner._spec.latest:
            raise TypeError(
                f"the table {name!r} must be js.latest(…), kv.read(…) or a key-value bucket, not"
                f" {type(source).__name__}"
            )
        spec = inner._spec
        if spec.end_seq is not None or spec.end_time is not None or spec.limit is not None:
            raise ValueError(f"the table {name!r} must be the present state: leave out as_of_seq, as_of_time and limit")
        self._api, self._name, self._wanted = api, name, spec
        self._spec = replace(spec, columns=None, bucket=None, deleted=True, progress=None)
        self._rows: pyarrow.Table | None = None
        self.seq = 0

    async def load(self, seq: int | None = None) -> None:
        """Read the whole table.

        Args:
            seq: As it was when this was the last sequence. Default: now.
        """
        if seq is None:
            self._rows, position = await self._read(self._spec)
            self.seq = position - 1
            # Rows that were replaced during the read are newer than the others.
            await self._read_changes((await self._state()).last_seq)
        else:
            self._rows, _ = await self._read(replace(self._spec, end_seq=seq + 1))
            self.seq = seq

    async def refresh(self) -> None:
        """Read the changes since the last read."""
        state = await self._state()
        # If the head has moved past the last read, rows of subjects without later messages were removed.
        if self._rows is None or state.last_seq < self.seq or state.first_seq > self.seq:
            await self.load()
        else:
            await self._read_changes(state.last_seq)

    async def _state(self) -> models.StreamState:
        return (await Management(self._api).stream_info(self._spec.stream)).state

    async def _read_changes(self, last: int) -> None:
        import pyarrow.compute as pc

        pa = needs_pyarrow("a pipe")
        if last <= self.seq or self._rows is None:
            return
        # The stream may keep one message per subject: what is missing was replaced.
        changed = replace(self._spec, latest=False, start_seq=self.seq + 1, end_seq=last + 1, on_data_loss="warn")
        changes, _ = await self._read(changed)
        if changes.num_rows:
            kept = self._rows.filter(pc.invert(pc.is_in(self._rows["subject"], changes["subject"].combine_chunks())))
            last_rows = changes.group_by("subject").aggregate([("seq", "max")])["seq_max"].combine_chunks()
            self._rows = pa.concat_tables([kept, changes.filter(pc.is_in(changes["seq"], last_rows))])
        self.seq = last

    async def _read(self, spec: ReadSpec) -> tuple[pyarrow.Table, int]:
        async with CompactedReader(self._api, spec) as reader:
            rows = await reader.read_all()
            if spec.infers_schema and rows.num_rows:
                self._spec = replace(self._spec, schema=reader.inferred)
            return rows, reader.position or 1

    def table(self) -> pyarrow.Table:
        """Return the table with the columns that its reader has."""
        import pyarrow.compute as pc

        pa = needs_pyarrow("a pipe")
        assert self._rows is not None, "load() reads the rows"
        rows, wanted = self._rows.combine_chunks(), self._wanted
        if not wanted.deleted and rows.num_rows:
            markers = [deletion_markers(chunk) for chunk in rows["headers"].chunks]
            rows = rows.filter(pc.invert(pa.chunked_array(markers)))
        if wanted.bucket is None:
            return rows if wanted.columns is None else rows.select(list(wanted.columns))
        value = "value" if "value" in rows.column_names else "data"
        keys = pc.utf8_slice_codeunits(rows["subject"], len(wanted.bucket))
        return pa.table({"key": keys, "value": rows[value], "revision": rows["seq"], "created": rows["timestamp"]})


class PipeTables:
    """The tables of a pipe.

    Args:
        api: The API.
        sources: Each table's reader or bucket, by name.
    """

    def __init__(self, api: JetStreamApi, sources: Mapping[str, object]) -> None:
        self._tables = {name: PipeTable(api, name, source) for name, source in sources.items()}

    async def refresh(self) -> Mapping[str, int]:
        """Bring the tables up to date, and return the sequence of each."""
        for table in self._tables.values():
            await table.refresh()
        return {name: table.seq for name, table in self._tables.items()}

    async def load(self, seqs: Mapping[str, int]) -> None:
        """Read the tables as they were.

        Args:
            seqs: Sequence of each.
        """
        for name, table in self._tables.items():
            await table.load(seqs.get(name))

    def tables(self) -> dict[str, Any]:
        """Return the tables by name."""
        return {name: table.table() for name, table in self._tables.items()}
