"""A folder of Parquet files, whose commits are records beside them.

    2026-.../00000000000000000001-1f0c9a2b.parquet     rows; the first sequence among them, and a random part
    _corrupt/...parquet                                rows that could not be decoded
    _jetarrow/<last_seq>.json                          a commit: its files, and the position after it; written last
    _jetarrow/staging/                                 files that are being written
    _jetarrow/lock.json                                who writes

What no record names is not there: the next start removes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.sink_errors import SinkError, SinkSchemaError
from jetarrow.jetstream.sinks.files import GROUP_ROWS, Commit, name_of, parent
from jetarrow.jetstream.sinks.folder import Folder
from jetarrow.jetstream.sinks.lock import Lock
from jetarrow.jetstream.sinks.rows import from_text, to_text
from jetarrow.jetstream.sinks.state import FORMAT, State

if TYPE_CHECKING:
    import pyarrow

_OURS = re.compile(r"\d{20}-[0-9a-f]{8}\.parquet")
_RECORDS = "_jetarrow"
_STAGING = "_jetarrow/staging"


class ParquetTable:
    """The folder as a target of a sink."""

    def __init__(self, path: Any, *, filesystem: Any, partition_by: Sequence[str], compression: str, rows: int) -> None:
        self.folder = Folder(path, filesystem)
        self.partition_by = list(partition_by)
        self.compression = compression
        self.lock = Lock(self.folder)
        self.columns: pyarrow.Schema | None = None
        self.newest: dict[str, Any] | None = None
        # By number; what a later one has taken the place of is not among them.
        self.records: dict[int, dict[str, Any]] = {}
        self._rows = rows
        # The record that was written last, or was to be.
        self._writing: str | None = None

    def __str__(self) -> str:
        return str(self.folder)

    def open(self) -> State | None:
        """Takes the folder, removes what no commit names, and returns the position; None where there is none.

        Raises:
            SinkLockedError: Another writer has it.
            SinkError: It cannot be used, or its records do not fit together.
        """
        self.lock, self.columns = Lock(self.folder), None
        self.folder.make(_STAGING)
        self.lock.take()
        try:
            self._load()
            self.clean()
        except BaseException:
            self.close()
            raise
        if self.newest is None:
            return None
        if self.newest["partition_by"] != self.partition_by:
            self.close()
            there = ", ".join(self.newest["partition_by"]) or "nothing"
            raise SinkSchemaError(f"{self} is partitioned by {there}: give the same partition_by=, or another folder")
        self.columns = from_text(self.newest["columns"])
        return State.of(self.newest)

    def check(self) -> None:
        """As `Lock.check`."""
        self.lock.check()

    def close(self) -> None:
        """Lets go of the folder."""
        with suppress(FileNotFoundError):
            self.lock.release()

    def abandon(self) -> None:
        """Lets go of it without another word; its lock expires."""
        self.lock.abandon()

    def _load(self) -> None:
        paths = [path for path, _ in self.folder.files(_RECORDS, recursive=False)]
        paths = [path for path in paths if re.fullmatch(rf"{_RECORDS}/\d+(-\d+)?\.json", path)]
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(self._record, paths))
        self.records = {record["number"]: record for record in found}
        if len(self.records) != len(found):
            raise SinkError(f"two writers have written to {self}: two of its records in {_RECORDS}/ have one number")
        for record in found:
            for number in range(record["replaces"], record["number"]):
                self.records.pop(number, None)
        self.newest = self.records[max(self.records)] if self.records else None

    def _record(self, path: str) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(self.folder.read(path))
            if record["format"] > FORMAT:
                raise SinkError(f"{self} was written by a later version of jetarrow (record {path})")
            return {**record, "name": path}
        except (ValueError, KeyError):
            raise SinkError(f"{self}: {path} is not a record of a commit") from None

    def clean(self) -> None:
        """Removes what no commit names."""
        named = {file["path"] for record in self.records.values() for file in record["files"]}
        named |= {record["name"] for record in self.records.values()}
        for path, _ in self.folder.files():
            name = path.rpartition("/")[2]
            record = path.startswith(f"{_RECORDS}/") and path.endswith((".json", ".tmp")) and name != "lock.json"
            if path not in named and (record or path.startswith(f"{_STAGING}/") or _OURS.fullmatch(name)):
                self.folder.delete(path)

    def begin(self) -> Commit:
        """A commit."""
        return Commit(self)

    def write_record(self, state: State, files: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Makes a commit of files that lie in their places. The files count from here on."""
        number = max(self.records, default=0) + 1
        fresh = self.newest is None or state.last_seq > self.newest["last_seq"]
        name = f"{_RECORDS}/{state.last_seq}.json" if fresh else f"{_RECORDS}/{state.last_seq}-{number}.json"
        assert self.columns is not None
        record = {
            **state.as_dict(),
            "number": number,
            "replaces": number,
            "files": files,
            "columns": to_text(self.columns),
            "partition_by": self.partition_by,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            **more,
        }
        # As late as can be: whoever took the folder over has the word.
        self.lock.check()
        self._writing = name
        self.folder.replace(name, json.dumps(record, indent=1).encode())
        self.newest = self.records[number] = {**record, "name": name}
        return self.newest

    def may_count(self) -> bool:
        """As `Home.may_count`. In an object store the put may still be on its way."""
        try:
            return not self.folder.renames or bool(self._writing and self.folder.read(self._writing))
        except FileNotFoundError:
            return False
        except SinkError:
            return True

    def compact(self) -> int:
        """Joins small files of folders that are finished; how many files there are fewer.

        With `partition_by` a folder is finished when the newest commit has written nothing there, without it at once.
        """
        if self.newest is None:
            return 0
        current = {parent(file["path"]) for file in self.newest["files"]} if self.partition_by else set()
        live = [file for record in self.records.values() for file in record["files"]]
        live.sort(key=lambda file: (parent(file["path"]), file["first_seq"]))
        joined: list[dict[str, Any]] = []
        gone: list[dict[str, Any]] = []
        group: list[dict[str, Any]] = []
        for file in [*live, None]:
            fits = file and group and parent(file["path"]) == parent(group[0]["path"])
            if not fits or sum(one["rows"] for one in group) + (file["rows"] if file else 0) > self._rows:
                if len(group) > 1:
                    joined.append(self._join(group))
                    gone += group
                group = []
            if file and parent(file["path"]) not in current and file["rows"] < self._rows:
                group.append(file)
        if not joined:
            return 0
        for file in joined:
            self.place_file(file)
        away = {file["path"] for file in gone}
        kept = [file for file in live if file["path"] not in away]
        replaced = min(self.records)
        record = self.write_record(State.of(self.newest), [*kept, *joined], replaces=replaced, rows=0, corrupt=0)
        self.records = {record["number"]: record}
        self.clean()
        return len(gone) - len(joined)

    def _join(self, files: list[dict[str, Any]]) -> dict[str, Any]:
        import pyarrow.parquet as pq

        path = f"{parent(files[0]['path'])}/{name_of(files[0]['first_seq'])}".lstrip("/")
        place = self.place(path)
        with self.folder.errors("cannot write to"), self.folder.filesystem.open_output_stream(place) as sink:
            writer = None
            for file in files:
                with self.folder.filesystem.open_input_file(self.folder.full(file["path"])) as source:
                    for batch in pq.ParquetFile(source).iter_batches(GROUP_ROWS):
                        writer = writer or pq.ParquetWriter(sink, batch.schema, compression=self.compression)
                        writer.write_batch(batch)
            if writer is not None:
                writer.close()
        return {
            "path": path,
            "rows": sum(file["rows"] for file in files),
            "first_seq": files[0]["first_seq"],
            "last_seq": max(file["last_seq"] for file in files),
        }

    def place(self, path: str) -> str:
        """Where a file is written that will have this path."""
        return self.folder.full(f"{_STAGING}/{path.rpartition('/')[2]}" if self.folder.renames else path)

    def place_file(self, file: dict[str, Any]) -> None:
        """Gives a file that is written its place."""
        if self.folder.renames:
            staged = f"{_STAGING}/{file['path'].rpartition('/')[2]}"
            self.folder.sync(staged)
            if folder := parent(file["path"]):
                self.folder.make(folder)
            self.folder.move(staged, file["path"])
            self.folder.sync(folder)
