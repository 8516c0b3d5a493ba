"""Archive and stream as one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from jetarrow.archive_scan.place import ArchivePlace
from jetarrow.archive_scan.query import Query, condition_of
from jetarrow.archive_scan.snapshot import Snapshot
from jetarrow.archive_scan.stream_rest import Payloads, StreamRest
from jetarrow.jetstream.errors import DataLossError, SinkError, SinkSchemaError
from jetarrow.jetstream.literals import OnDataLoss, RowFormat
from jetarrow.jetstream.registry import SchemaRegistry

if TYPE_CHECKING:
    import pyarrow.dataset

    import jetarrow.sync

_T = TypeVar("_T")


def check_for_archive(
    format: str, mode: str, *, latest: bool = False, rules: tuple[str, str | None] = ("UTC", None)
) -> None:
    """Check the options of a scan that cannot be used with an archive.

    Args:
        format: Format of the payloads.
        mode: Handling of malformed rows. They are not in the table, as they are not in the archive.
        latest: Whether only the last message of each subject is wanted.
        rules: `time_zone` and `timestamp_numbers`.

    Raises:
        ValueError: One of them cannot be used.
    """
    if latest:
        raise ValueError("archive= has all messages, so latest=True cannot be used with it: use group_by on the result")
    if format == "arrow":
        raise ValueError('archive= needs format="json", "avro" or "protobuf", as the sinks do, not "arrow"')
    if mode.upper() == "FAILFAST":
        raise ValueError('archive= cannot be used with mode="FAILFAST": malformed rows are in no part of the table')
    if rules != ("UTC", None):
        raise ValueError("archive= uses time_zone and timestamp_numbers of the sink: leave them out")


@dataclass
class ArchiveTable:
    """The rows of an archive up to its position, and of its stream from there.

    Attributes:
        place: The archive.
        connect: Opens a connection to the server.
        format: As `to_parquet`.
        schema: As `to_parquet`; None for the schema of the archive.
        subjects: Subject filters of the table; empty for all that the sink archives.
        on_data_loss: As `js.read`.
        registry: As `to_parquet`.
    """

    place: ArchivePlace
    connect: Callable[[], jetarrow.sync.Client]
    format: RowFormat = "json"
    schema: Any = None
    subjects: tuple[str, ...] = ()
    on_data_loss: OnDataLoss = "error"
    registry: SchemaRegistry | None = None
    _columns: pa.Schema | None = field(default=None, init=False)

    @property
    def columns(self) -> pa.Schema:
        """The columns, those of the archive at the first use.

        Raises:
            SinkError: There is no archive.
            SinkSchemaError: The archive has other payloads than `format` and `schema`.
        """
        if self._columns is None:
            self._pin()
        assert self._columns is not None
        return self._columns

    def _pin(self) -> tuple[Snapshot, Payloads]:
        snapshot = self.place.pin()
        payloads = Payloads(snapshot, self.format, self.schema, registry=self.registry)
        self._check_columns(snapshot)
        return snapshot, payloads

    def _check_columns(self, snapshot: Snapshot) -> None:
        if self._columns is None:
            self._columns = snapshot.columns.remove_metadata()
        there = {column.name: column.type for column in snapshot.columns}
        for column in self._columns:
            if there.get(column.name) != column.type:
                found = "missing" if column.name not in there else f"{there[column.name]}"
                raise SinkSchemaError(
                    f"could not read {self.place}: column {column.name!r} was {column.type} at the first use of this"
                    f" table and is {found} now; make the table again"
                )

    def rows(
        self,
        query: Query,
        of_dataset: Callable[[pyarrow.dataset.Dataset], _T],
        of_batch: Callable[[pa.RecordBatch], _T],
    ) -> Iterator[_T]:
        """Yield the results for the archive's rows, then for the stream's.

        Args:
            query: The needed rows and columns. Other rows within the bounds may be passed too.
            of_dataset: Reads a part of the archive. It may be called again for a part.
            of_batch: Converts rows of the stream, which have the needed columns and maybe `seq` and `subject`.

        Raises:
            DataLossError: The stream no longer has the first rows after the archive's position.
            StreamRecreatedError: The stream is another one than that of the archive.
            StreamRolledBackError: The stream was rolled back behind the archive's position.
            SinkError: The archive cannot be read.
        """
        snapshot, payloads = self._pin()
        own = condition_of(self.subjects) if self.subjects else None
        sinks = snapshot.state.subjects
        filters = query.subjects or frozenset(self.subjects or sinks)
        # The server filters by those of the query; rows of other subjects than the sink's are not in the table.
        rest_condition = own
        if sinks and filters != frozenset(sinks):
            rest_condition = condition_of(sinks) if own is None else own & condition_of(sinks)
        needed = query.columns if rest_condition is None else tuple(dict.fromkeys((*query.columns, "subject")))
        query = replace(query, columns=needed, subjects=filters or None)

        def of_part(dataset: pyarrow.dataset.Dataset) -> _T:
            return of_dataset(dataset if own is None else dataset.filter(own))

        def of_rest(batch: pa.RecordBatch) -> _T:
            return of_batch(batch if rest_condition is None else batch.filter(rest_condition))

        if not query.ranges(snapshot.state):
            yield from snapshot.visit(query.first, query.end, of_part)
            return
        with self.connect() as nc:
            rest = StreamRest(nc.jetstream(), snapshot, payloads, self.on_data_loss)
            rest.check()
            if rest.is_consumed:
                yield from self._consumed(rest, snapshot, query, of_part, of_rest)
                return
            yield from snapshot.visit(query.first, query.end, of_part)
            yield from self._rest(rest, snapshot, query, of_part, of_rest)

    def _rest(
        self,
        rest: StreamRest,
        snapshot: Snapshot,
        query: Query,
        of_part: Callable[[pyarrow.dataset.Dataset], _T],
        of_rest: Callable[[pa.RecordBatch], _T],
    ) -> Iterator[_T]:
        while True:
            is_begun = False
            try:
                for batch in rest.batches(query):
                    is_begun = True
                    yield of_rest(batch)
                return
            except DataLossError:
                later = None if is_begun else self._later(snapshot)
                if later is None:
                    raise
            # The stream dropped messages while the archive was read; the sink has archived them before.
            position = snapshot.state.last_seq
            yield from later.visit(
                max(position + 1, query.first or 0),
                query.end,
                lambda dataset, after=position: of_part(dataset.filter(pc.field("seq") > after)),  # type: ignore[misc]
            )
            snapshot, rest = later, rest.at(later)

    def _later(self, snapshot: Snapshot) -> Snapshot | None:
        """Return a snapshot with more rows, if its new rows are known by their sequences; else None."""
        if snapshot.state.gaps or snapshot.state.epoch:
            return None
        later = self.place.pin_after(snapshot)
        self._check_columns(later)
        state = later.state
        return later if state.epoch == 0 and state.last_seq > snapshot.state.last_seq else None

    def _consumed(
        self,
        rest: StreamRest,
        snapshot: Snapshot,
        query: Query,
        of_part: Callable[[pyarrow.dataset.Dataset], _T],
        of_rest: Callable[[pa.RecordBatch], _T],
    ) -> Iterator[_T]:
        """Yield the rows of a stream whose acknowledged messages are removed.

        The stream is read first, because a commit during the read would remove messages that an earlier version of the
        archive does not have. The archive that is read then has them.
        """
        if not self.place.is_current:
            raise SinkError(
                f"could not read {self.place} and stream {self.place.stream!r} as one table: acknowledged messages are"
                " removed from the stream, so the newest version of the archive is needed; give its path, or a function"
            )
        needed = replace(query, columns=tuple(dict.fromkeys((*query.columns, "seq"))))
        batches = list(rest.batches(needed))
        last = rest.info.state.last_seq
        later = self.place.pin_after(snapshot)
        self._check_columns(later)
        state = later.state

        def of_cut(dataset: pyarrow.dataset.Dataset) -> _T:
            # Later rows would have gaps before them, whose messages were not read.
            return of_part(dataset.filter(pc.field("seq") <= last) if state.last_seq > last else dataset)

        yield from later.visit(query.first, query.end, of_cut)
        for batch in batches:
            is_missing = pa.array(map(state.is_new, batch.column("seq").to_pylist()), pa.bool_())
            yield of_rest(batch.filter(is_missing))
