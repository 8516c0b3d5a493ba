"""Snapshot of a Delta table: one version, whose files remain until `vacuum`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from jetarrow.archive_scan.snapshot import PART_ROWS, check_append
from jetarrow.jetstream.errors import SinkError
from jetarrow.jetstream.sinks.delta import DeltaTarget, records
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.dataset

_T = TypeVar("_T")
# Number of recent commits that are searched for the position first.
_RECENT = 100
# Statistics may have only the first 32 characters of a text.
_LONGEST_STATISTIC = 31


class DeltaSnapshot:
    """A Delta table at one version, as `Snapshot`. Rows of other streams in the table are left out."""

    escaped = True

    def __init__(self, table: Any, target: DeltaTarget, record: dict[str, Any]) -> None:
        self._table, self._target = table, target
        self.state = State.of(record)
        self.partition_by: list[str] = list(table.metadata().partition_columns)
        self._dataset = table.to_pyarrow_dataset()
        self.columns: pyarrow.Schema = self._dataset.schema

    @classmethod
    def open(
        cls, uri: str, stream: str, app_id: str | None, storage_options: Mapping[str, str] | None
    ) -> DeltaSnapshot | None:
        """Return a snapshot of the newest version; None if there is no table.

        Raises:
            SinkError: The table cannot be read, or has no position of the stream.
            UnsupportedError: deltalake is not installed.
        """
        target = _target(uri, app_id or "", storage_options)
        table = target.table()
        return None if table is None else cls.of(table, stream, app_id)

    @classmethod
    def of(cls, table: Any, stream: str, app_id: str | None) -> DeltaSnapshot:
        """Return a snapshot of the version that a table object has loaded.

        Raises:
            SinkError: It has no position of the stream.
        """
        target = _target(table.table_uri, app_id or "", table._storage_options)
        try:
            target.app_id = app_id or _app_id(table, stream, target)
            return cls(table, target, _record(table, target))
        except (OSError, target.library.exceptions.DeltaError) as error:
            raise target.failed("read", error) from error

    def visit(
        self, first: int | None, end: int | None, visitor: Callable[[pyarrow.dataset.Dataset], _T]
    ) -> Iterator[_T]:
        """Yield results by parts, as `Snapshot.visit`."""
        import pyarrow.dataset as ds

        dataset = self._dataset
        for fragments, condition in self._parts(first, end):
            part = ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)
            try:
                yield visitor(part if condition is None else part.filter(condition))
            except OSError as error:
                raise SinkError(
                    f"could not read version {self._table.version()} of {self._target}:"
                    f" {str(error).partition(chr(10))[0]}; if a vacuum has removed its files, read it again"
                ) from error

    def _parts(self, first: int | None, end: int | None) -> Iterator[tuple[list[Any], Any]]:
        """Yield fragments of at most some `PART_ROWS` rows by sequence, and the condition that their rows must meet."""
        import pyarrow as pa

        found = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        files = {unquote(each["path"]): each for each in found}
        every = [(fragment, files.get(fragment.path, {})) for fragment in self._dataset.get_fragments()]
        every.sort(key=lambda one: one[1].get("min.seq") or 0)
        part: list[Any] = []
        rows, is_exact = 0, True
        for fragment, file in every:
            low, high = file.get("min.seq"), file.get("max.seq")
            if (first is not None and high is not None and high < first) or (
                end is not None and low is not None and low >= end
            ):
                continue
            count = file.get("num_records") or PART_ROWS
            if part and rows + count > PART_ROWS:
                yield part, None if is_exact else self._condition()
                part, rows, is_exact = [], 0, True
            part.append(fragment)
            rows += count
            is_exact = is_exact and self._has_only_own_rows(file)
        if part:
            yield part, None if is_exact else self._condition()

    def _has_only_own_rows(self, file: dict[str, Any]) -> bool:
        """Whether the statistics show that all rows of a file are of the stream, and before the position."""
        name = self.state.stream
        own = len(name) <= _LONGEST_STATISTIC and file.get("min.stream") == file.get("max.stream") == name
        return own and (self.state.epoch > 0 or (file.get("max.seq") or self.state.last_seq + 1) <= self.state.last_seq)

    def _condition(self) -> Any:
        import pyarrow.dataset as ds

        condition = ds.field("stream") == self.state.stream
        # Epochs that were rolled back may have rows with sequences after the position.
        return condition if self.state.epoch else condition & (ds.field("seq") <= self.state.last_seq)


def _target(uri: str, app_id: str, storage_options: Mapping[str, str] | None) -> DeltaTarget:
    return DeltaTarget(uri, storage_options=storage_options, app_id=app_id, partition_by=[], compression="zstd")


def _app_id(table: Any, stream: str, target: DeltaTarget) -> str:
    """Return the name of the only sink of a stream in the log."""
    default = f"jetarrow:{stream}"
    if table.transaction_version(default) is not None:
        return default
    found = {record["app_id"] for record in records(table) if record["stream"] == stream}
    if len(found) == 1:
        return str(found.pop())
    if found:
        names = ", ".join(sorted(map(repr, found)))
        raise SinkError(
            f"could not read {target}: several sinks of stream {stream!r} have written to it: {names}; give app_id="
        )
    raise SinkError(
        f"could not read {target} as the archive of stream {stream!r}: its log has no position of the stream; check the"
        " place, or give app_id="
    )


def _record(table: Any, target: DeltaTarget) -> dict[str, Any]:
    """Return the record of the sink's newest commit in the version of a table."""
    version = table.transaction_version(target.app_id)
    if version is not None:
        for limit in (_RECENT, None):
            for found in records(table, limit):
                if (found["app_id"], found["last_seq"]) == (target.app_id, version):
                    check_append(found, str(target))
                    return found
    raise SinkError(
        f"could not read {target} as an archive: the state of {target.app_id!r} is not in its log; check app_id="
    )
