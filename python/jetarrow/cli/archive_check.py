"""Comparison of an archive with the messages that its stream still has."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError, StreamRecreatedError
from jetarrow.jetstream.sinks.parquet import ParquetTable
from jetarrow.jetstream.sinks.parquet_commit import parent
from jetarrow.jetstream.sinks.partitions import NULL, split
from jetarrow.jetstream.sinks.rows import Shape, from_text
from jetarrow.jetstream.sinks.state import State

if TYPE_CHECKING:
    import pyarrow

    from jetarrow.sync import JetStream


class Verification(NamedTuple):
    """Result of a comparison.

    Attributes:
        rows: Rows of the archive.
        compared: Rows whose messages are still in the stream.
        misplaced: Compared rows in a folder of other values.
        missing: Messages up to the archive's position that have no row.
        twice: Rows with the sequence of an earlier row of the same epoch.
        files: Files with misplaced rows.
    """

    rows: int
    compared: int
    misplaced: int
    missing: int
    twice: int
    files: list[str]

    @property
    def is_whole(self) -> bool:
        """Whether no row is misplaced, missing or duplicated."""
        return not (self.misplaced or self.missing or self.twice)


def verify_archive(js: JetStream, path: str, *, subjects: list[str] | None = None) -> Verification:
    """Compare a folder of `to_parquet` with its stream, row by row, without changing either.

    It uses 20 bytes of memory per row of the archive.

    Args:
        js: A blocking context.
        path: The folder or its URI.
        subjects: The `subjects=` of the sink. Default: those in its last record.

    Raises:
        SinkError: The folder is not an archive, or cannot be read.
        StreamRecreatedError: The stream was deleted and created again since.
        NotFoundError: The stream does not exist.
    """
    table = ParquetTable(path, filesystem=None, partition_by=[], compression="zstd", rows=1)
    table.load()
    newest = table.newest
    if newest is None:
        raise SinkError(
            f"could not verify {table}: _jetarrow/ has no commit; give a folder that to_parquet has written"
        )
    info = js.stream_info(newest["stream"])
    if info.created_raw != newest["created"]:
        raise StreamRecreatedError
    columns = from_text(newest["columns"])
    schema = None if newest["schema"] is None else from_text(newest["schema"])
    by = newest["partition_by"]
    kinds = {name: _kind(columns, schema, name) for name in by}
    shape = Shape(schema=schema, flatten=schema is not None and "value" not in columns.names, partition_by=by)
    archive = _Archive(table, kinds)
    end = min(newest["last_seq"], info.state.last_seq) + 1
    if info.state.first_seq < end:
        zone, numbers = State.of(newest).rules
        options: dict[str, Any] = {"time_zone": zone, "timestamp_numbers": numbers}
        options |= {} if schema is None else {"schema": schema}
        with js.read(
            newest["stream"],
            end_seq=end,
            subjects=subjects if subjects is not None else list(State.of(newest).subjects) or None,
            timestamp_unit=columns.field("timestamp").type.unit,
            **options,
        ) as reader:
            for batch in reader:
                rows, _ = shape.split(batch.to_pyarrow())
                if rows.num_rows:
                    for folder, _, seqs in split(rows, rows.column("seq"), by):
                        archive.compare(folder, seqs)
    return archive.result()


def _kind(columns: pyarrow.Schema, schema: pyarrow.Schema | None, name: str) -> Any:
    """Return the type of a column; `date` and `hour`, derived from the timestamp, are strings."""
    found = next((each for each in (columns, schema) if each is not None and name in each.names), None)
    return needs_pyarrow("a sink").string() if found is None else found.field(name).type


class _Archive:
    """Index of an archive: each sequence with its file."""

    def __init__(self, table: ParquetTable, kinds: dict[str, Any]) -> None:
        pa = needs_pyarrow("a sink")
        self._kinds = kinds
        self._paths: list[str] = []
        seqs: list[Any] = [pa.array([], pa.int64())]
        files: list[Any] = [pa.array([], pa.int32())]
        self._twice = self._missing = self._compared = 0
        self._misplaced: Counter[int] = Counter()
        by_epoch: dict[int, list[Any]] = {}
        entries = [
            (file.get("epoch", record.get("epoch", 0)), file)
            for record in table.records.values()
            for file in record["files"]
        ]
        # The stream has the messages of the latest epoch, so later epochs come first.
        for epoch, file in sorted(entries, key=lambda entry: -entry[0]):
            if parent(file["path"]) == "_corrupt":
                continue
            found = table.sequences(file["path"]).cast(pa.int64())
            seqs.append(found)
            files.append(pa.array([len(self._paths)] * len(found), pa.int32()))
            by_epoch.setdefault(epoch, []).append(found)
            self._paths.append(file["path"])
        self._twice = sum(_repeated(pa.chunked_array(chunks)) for chunks in by_epoch.values())
        self._seqs = pa.concat_arrays(seqs)
        self._files = pa.concat_arrays(files)
        self._folders = [_plain(parent(path), kinds) for path in self._paths]

    def compare(self, folder: str, seqs: pyarrow.Array) -> None:
        """Look up the messages of one folder.

        Args:
            folder: The folder of their partition values.
            seqs: Their sequences.
        """
        import pyarrow.compute as pc

        places = pc.index_in(seqs.cast(self._seqs.type), value_set=self._seqs)
        self._missing += places.null_count
        counts = Counter(self._files.take(places.drop_null()).to_pylist())
        wanted = _plain(folder, self._kinds)
        self._compared += counts.total()
        self._misplaced.update({file: count for file, count in counts.items() if self._folders[file] != wanted})

    def result(self) -> Verification:
        """Return the counts of all comparisons."""
        wrong = sorted(self._paths[file] for file in self._misplaced)
        return Verification(len(self._seqs), self._compared, self._misplaced.total(), self._missing, self._twice, wrong)


def _repeated(seqs: Any) -> int:
    import pyarrow.compute as pc

    return len(seqs) - int(pc.count_distinct(seqs).as_py())


def _plain(folder: str, kinds: dict[str, Any]) -> str:
    """Return a folder with its values normalized, because earlier versions formatted them differently."""
    types = needs_pyarrow("verify_archive()").types
    parts = []
    for part in folder.split("/") if folder else []:
        name, _, text = part.partition("=")
        value = unquote(text)
        if value != NULL and types.is_floating(kinds[name]):
            value = repr(float(value))
        elif value != NULL and types.is_decimal(kinds[name]):
            value = str(Decimal(value).normalize())
        parts.append(f"{name}={value}")
    return "\0".join(parts)
