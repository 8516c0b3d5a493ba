"""Folder of Parquet files as the target of a sink; each commit has a record.

    region=eu/00000000000000000001-0000000a1f0c9a2b.parquet   rows; the name has their first sequence, the number of
                                                              the commit, and a random part
    _corrupt/...parquet                                       rows that could not be decoded
    _jetarrow/00000000000000000010.json                       the record of a commit by its number: its files and its
                                                              position; written last
    _jetarrow/staging/                                        files that are being written
    _jetarrow/lock.json                                       the writer

A record is created, never replaced, so of two writers with one number only one succeeds. A writer that takes over a
folder whose lock was not released reserves the next number first. A suspended writer can then commit nothing more. It
then removes files that no record names, if their numbers are reserved: files of a later writer have a higher number. If
a file system has no exclusive creation (object stores), the names of records have a random part; a writer that finds
another record of its number deletes its own.
"""

from __future__ import annotations

import copy
import json
import math
import re
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jetarrow.jetstream.errors import SinkError, SinkSchemaError
from jetarrow.jetstream.sinks.folder import Folder
from jetarrow.jetstream.sinks.lock import Lock
from jetarrow.jetstream.sinks.parquet_commit import GROUP_ROWS, Commit, file_name, parent
from jetarrow.jetstream.sinks.rows import from_text, to_text
from jetarrow.jetstream.sinks.state import FORMAT, State

if TYPE_CHECKING:
    import pyarrow

# Earlier versions wrote no number.
_OURS = re.compile(r"\d{20}-([0-9a-f]{8})?[0-9a-f]{8}\.parquet")
_RECORD = re.compile(r"_jetarrow/\d+(-\d+)?\.json")
_NUMBERED = re.compile(r"_jetarrow/(\d{20})(-\d+)?\.json")
# Temporary file of a record.
_HALF = re.compile(r"_jetarrow/(\d{20})(-\d+)?\.json\.[0-9a-f]+\.tmp")
_RECORDS = "_jetarrow"
# Attempts to read the records while another process joins them.
_ATTEMPTS = 5
_STAGING = "_jetarrow/staging"


def _number(path: str) -> float:
    """Return the number of a file's commit; 0 if it has none, infinity if the file is not one of a sink."""
    if ours := _OURS.fullmatch(path.rpartition("/")[2]):
        return int(ours[1] or "0", 16)
    if half := _HALF.fullmatch(path):
        return int(half[1])
    unnumbered = path.startswith(f"{_STAGING}/") or (path.startswith(f"{_RECORDS}/") and path.endswith(".tmp"))
    return 0 if unnumbered else math.inf


def _folder_and_epoch(file: dict[str, Any]) -> tuple[str, int]:
    """Return the folder and the epoch of a file; only files with equal ones can be compacted."""
    return parent(file["path"]), file["epoch"]


class ParquetTable:
    """A Parquet folder as the target of a sink."""

    def __init__(self, path: Any, *, filesystem: Any, partition_by: Sequence[str], compression: str, rows: int) -> None:
        self.folder = Folder(path, filesystem)
        self.partition_by = list(partition_by)
        self.compression = compression
        self.lock = Lock(self.folder)
        self.columns: pyarrow.Schema | None = None
        self.newest: dict[str, Any] | None = None
        # Records by number, without those that a later record replaces.
        self.records: dict[int, dict[str, Any]] = {}
        self._rows = rows
        # The last record that was written or attempted.
        self._writing: str | None = None
        # Records that a later one replaces.
        self._replaced: set[str] = set()

    def __str__(self) -> str:
        return str(self.folder)

    def open(self) -> State | None:
        """Lock the folder, remove files without a record, and return the position; None if there is no commit.

        Raises:
            SinkLockedError: Another writer has locked the folder.
            SinkError: The folder cannot be used, or its records are inconsistent.
        """
        self.lock, self.columns = Lock(self.folder), None
        self.folder.make(_STAGING)
        taken_over = self.lock.acquire()
        try:
            self.load()
            if taken_over:
                self._reserve_number()
            self.clean()
        except BaseException:
            self.close()
            raise
        if self.newest is None:
            return None
        if self.newest["partition_by"] != self.partition_by:
            self.close()
            there = ", ".join(self.newest["partition_by"]) or "nothing"
            raise SinkSchemaError(
                f"could not open {self}: it is partitioned by {there}; give the same partition_by=, or another folder"
            )
        self.columns = from_text(self.newest["columns"])
        return State.of(self.newest)

    def position(self) -> State | None:
        """Return the position without a lock; None if there is no commit."""
        # A copy, because the writer of this process may use the records.
        reading = copy.copy(self)
        for _ in range(_ATTEMPTS):
            # The writer may join records, and delete the joined ones, while they are read.
            with suppress(FileNotFoundError):
                reading.load()
                break
        else:
            reading.load()
        return None if reading.newest is None else State.of(reading.newest)

    def check(self) -> None:
        """Check the lock, as `Lock.check`."""
        self.lock.check()

    def check_number(self) -> None:
        """Check the number of the next commit.

        Raises:
            SinkLockedError: A later writer has reserved the number.
        """
        self.lock.check()
        numbers = (_NUMBERED.fullmatch(path) for path in self._record_paths())
        if any(int(number[1]) >= self.next_number for number in numbers if number):
            raise self.lock.lost_error()

    def close(self) -> None:
        """Release the lock of the folder."""
        with suppress(FileNotFoundError):
            self.lock.release()

    def abandon(self) -> None:
        """Stop renewing the lock, which then expires."""
        self.lock.abandon()

    def load(self) -> None:
        """Read the records.

        Raises:
            SinkError: They are inconsistent.
        """
        paths = self._record_paths()
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(self._record, paths))
        self.records = {record["number"]: record for record in found}
        if len(self.records) != len(found):
            raise SinkError(
                f"could not open {self}: two records in {_RECORDS}/ have one number, so two writers have written to it"
            )
        for record in found:
            for number in range(record["replaces"], record["number"]):
                self.records.pop(number, None)
        self._replaced = set(paths) - {record["name"] for record in self.records.values()}
        commits = [number for number, record in self.records.items() if "columns" in record]
        self.newest = self.records[max(commits)] if commits else None

    def _record_paths(self) -> list[str]:
        return [path for path in self.folder.files(_RECORDS, recursive=False) if _RECORD.fullmatch(path)]

    def _record(self, path: str) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(self.folder.read(path))
            if record["format"] > FORMAT:
                raise SinkError(f"could not open {self}: record {path} is of a later version of jetarrow; upgrade")
            # Files are read and deleted by these paths, so none may point outside of the folder.
            if any(
                {"..", "."} & set(re.split(r"[/\\]", file["path"])) or file["path"][:1] in "/\\"
                for file in record["files"]
            ):
                raise ValueError
            return {**record, "name": path}
        except (ValueError, KeyError, TypeError):
            raise SinkError(f"could not open {self}: {path} is not a record of a commit") from None

    def _reserve_number(self) -> None:
        """Reserve the next number by a record without files, so that no earlier writer can commit with it."""
        number = self.next_number
        # Fields that earlier versions need to resume after this record.
        last = {} if self.newest is None else {**self.newest, "rows": 0, "corrupt": 0}
        record = {**last, "format": FORMAT, "number": number, "replaces": number, "files": []}
        self._create(number, record)
        if self.newest is not None:
            self.newest = self.records[number]

    def clean(self) -> None:
        """Remove files without a record, if their numbers are reserved.

        Raises:
            SinkError: A file of a record is missing.
        """
        named = {file["path"] for record in self.records.values() for file in record["files"]}
        taken = max(self.records, default=0)
        found = set(self.folder.files())
        if missing := sorted(named - found):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise SinkError(
                f"could not open {self}: {missing[0]}{more} of a record in {_RECORDS}/ is missing; restore it or remove"
                " its entry from the record"
            )
        for path in found:
            if path in self._replaced or (path not in named and _number(path) <= taken):
                self.folder.delete(path)

    @property
    def next_number(self) -> int:
        """The number of the next commit."""
        return max(self.records, default=0) + 1

    def begin(self) -> Commit:
        """Start a commit.

        Raises:
            SinkLockedError: Another writer has taken the folder over.
        """
        self.lock.check()
        return Commit(self)

    def write_record(self, state: State, files: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Write the record of files at their final paths, which makes the commit durable."""
        number, self._writing = self.next_number, None
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
        # Checked as late as possible, because another writer may have taken the folder over.
        self.lock.check()
        self._create(number, record)
        self.newest = self.records[number]
        return self.newest

    def _create(self, number: int, record: dict[str, Any]) -> None:
        """Create a record.

        Raises:
            SinkLockedError: Another writer has this number, or a later one.
        """
        record = {**record, "writer": self.lock.token}
        unique = "" if self.folder.exclusive else f"-{secrets.randbelow(10**12)}"
        self._writing = f"{_RECORDS}/{number:020d}{unique}.json"
        data = json.dumps(record, indent=1).encode()
        try:
            created = self.folder.create(self._writing, data)
        except SinkError as error:
            # The next writer of the folder has removed the temporary file.
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            created = False
        if not created:
            self._writing = None
            raise self.lock.lost_error()
        if self._is_superseded(number, self._writing):
            self.folder.delete(self._writing)
            self._writing = None
            raise self.lock.lost_error()
        self.records[number] = {**record, "name": self._writing}

    def _is_superseded(self, number: int, path: str) -> bool:
        """Return whether a record that was just created is void.

        Either its number was free again, because `compact` has replaced other records; or another record has the same
        number, because creation is not exclusive. A later record that does not replace this one does not void it.
        """
        for other in self._record_paths():
            found = _NUMBERED.fullmatch(other)
            if found is None or other == path or int(found[1]) < number:
                continue
            with suppress(FileNotFoundError):
                if int(found[1]) == number or self._record(other)["replaces"] <= number:
                    return True
        return False

    def may_be_committed(self) -> bool:
        """Return whether the record may exist. In an object store its put may still be in flight."""
        try:
            if self._writing is None or not self.folder.renames:
                return self._writing is not None
            return self.lock.token.encode() in self.folder.read(self._writing)
        except FileNotFoundError:
            return False
        except SinkError:
            return True

    def compact(self) -> int:
        """Compact small files of finished folders, and return the decrease of the number of files.

        With `partition_by` a folder is finished if the newest commit has no files in it; without it, always.
        """
        if self.newest is None:
            return 0
        last = max((number for number, record in self.records.items() if record["files"]), default=None)
        newest = [] if last is None or not self.partition_by else self.records[last]["files"]
        current = {parent(file["path"]) for file in newest}
        # Files keep their epochs, so that of equal sequences the later message is known.
        live = [
            {"epoch": record.get("epoch", 0), **file} for record in self.records.values() for file in record["files"]
        ]
        live.sort(key=lambda file: (*_folder_and_epoch(file), file["first_seq"]))
        joined: list[dict[str, Any]] = []
        gone: list[dict[str, Any]] = []
        group: list[dict[str, Any]] = []
        for file in [*live, None]:
            fits = file and group and _folder_and_epoch(file) == _folder_and_epoch(group[0])
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
            self.publish_file(file)
        away = {file["path"] for file in gone}
        kept = [file for file in live if file["path"] not in away]
        replaced = min(record["replaces"] for record in self.records.values())
        old = {record["name"] for record in self.records.values()}
        record = self.write_record(State.of(self.newest), [*kept, *joined], replaces=replaced, rows=0, corrupt=0)
        self.records, self._replaced = {record["number"]: record}, self._replaced | old
        self.clean()
        return len(gone) - len(joined)

    def sequences(self, path: str) -> pyarrow.Array:
        """Return the sequences of a file's rows."""
        import pyarrow.parquet as pq

        with (
            self.folder.errors("read from"),
            self.folder.filesystem.open_input_file(self.folder.full(path)) as file,
        ):
            return pq.ParquetFile(file).read(columns=["seq"]).column("seq").combine_chunks()

    def _join(self, files: list[dict[str, Any]]) -> dict[str, Any]:
        import pyarrow.parquet as pq

        path = f"{parent(files[0]['path'])}/{file_name(files[0]['first_seq'], self.next_number)}".lstrip("/")
        place = self.place(path)
        with self.folder.errors("write to"), self.folder.filesystem.open_output_stream(place) as sink:
            writer = None
            for file in files:
                with self.folder.filesystem.open_input_file(self.folder.full(file["path"])) as source:
                    for batch in pq.ParquetFile(source).iter_batches(GROUP_ROWS):
                        writer = writer or pq.ParquetWriter(sink, batch.schema, compression=self.compression)
                        writer.write_batch(batch)
            if writer is not None:
                writer.close()
        times = [time for file in files for time in file.get("times", ())]
        known = all("times" in file for file in files)
        return {
            "path": path,
            "epoch": files[0]["epoch"],
            "rows": sum(file["rows"] for file in files),
            "first_seq": files[0]["first_seq"],
            "last_seq": max(file["last_seq"] for file in files),
            **({"times": [min(times), max(times)]} if known else {}),
        }

    def place(self, path: str) -> str:
        """Return the location at which a file with this path is written first."""
        return self.folder.full(f"{_STAGING}/{path.rpartition('/')[2]}" if self.folder.renames else path)

    def publish_file(self, file: dict[str, Any]) -> None:
        """Move a written file to its path."""
        if self.folder.renames:
            staged = f"{_STAGING}/{file['path'].rpartition('/')[2]}"
            self.folder.sync(staged)
            if folder := parent(file["path"]):
                self.folder.make(folder)
            self.folder.move(staged, file["path"])
            self.folder.sync(folder)
