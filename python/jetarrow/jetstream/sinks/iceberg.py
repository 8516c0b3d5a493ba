"""Iceberg table as the target of a sink; each commit is a snapshot that has the sink's position.

A commit is one transaction: new columns, the snapshot with the rows, and the record of the position. It is conditional
on the snapshot whose history has the sink's previous position, so of two commits after one position only one succeeds.
Rows that could not be decoded are in `<location>-corrupt/`, beside the table, because maintenance of the table removes
files below its location that it does not know. Several sinks may write one table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jetarrow.core.errors import UnsupportedError
from jetarrow.core.redaction import redact
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import SinkError, SinkLockedError, SinkSchemaError
from jetarrow.jetstream.sinks.buffered import folder_name
from jetarrow.jetstream.sinks.iceberg_position import find_record
from jetarrow.jetstream.sinks.iceberg_types import created_schema, stored_schema
from jetarrow.jetstream.sinks.rows import from_text
from jetarrow.jetstream.sinks.state import State
from jetarrow.jetstream.sinks.upsert import Upsert, check_restart

if TYPE_CHECKING:
    import pyarrow

    from jetarrow.jetstream.literals import Evolve
    from jetarrow.jetstream.sinks.iceberg_commit import IcebergCommit

# Id of the first field of a partition spec, by the specification of Iceberg.
_FIRST_PARTITION_ID = 1000
_CORRUPT = re.compile(r"(\d{20})-([0-9a-f]{32})\.parquet")


class IcebergTarget:
    """The table as a target of a sink."""

    def __init__(
        self,
        name: str | Sequence[str],
        *,
        catalog: Any,
        app_id: str,
        partition_by: Sequence[str],
        properties: Mapping[str, str] | None,
        evolve: Evolve,
        upsert: Upsert | None = None,
    ) -> None:
        needs_pyarrow("to_iceberg()")
        try:
            import pyiceberg
        except ImportError:
            message = 'to_iceberg() needs pyiceberg: pip install "jetarrow[iceberg]"'
            raise UnsupportedError("to_iceberg()", "pyiceberg", "no pyiceberg", message=message) from None
        self.library = pyiceberg
        self.name = tuple(name.split(".")) if isinstance(name, str) else tuple(name)
        if len(self.name) < 2 or not all(self.name):
            raise ValueError(f"table must have a namespace and a name, as 'db.orders', not {name!r}")
        self.app_id = app_id
        self.partition_by = list(partition_by)
        self.properties = dict(properties or {})
        self.evolve = evolve
        self.upsert = upsert
        self.columns: pyarrow.Schema | None = None
        # Record of the sink's last commit, and the number of its commits.
        self.record: dict[str, Any] | None = None
        self.number = 0
        # Files of undecodable rows whose commit is not known to have succeeded.
        self.leftovers: list[str] = []
        self._catalog = catalog
        self._loaded: Any = None

    def __str__(self) -> str:
        return ".".join(self.name)

    def catalog(self) -> Any:
        """Return the catalog; one that was given by name is loaded at the first use.

        Raises:
            SinkError: It cannot be loaded.
        """
        if self._loaded is None:
            from pyiceberg.catalog import load_catalog

            if self._catalog is not None and not isinstance(self._catalog, str):
                self._loaded = self._catalog
                return self._loaded
            try:
                self._loaded = load_catalog(self._catalog)
            except Exception as error:
                name = "the default catalog" if self._catalog is None else f"catalog {self._catalog!r}"
                raise self.failed(f"load {name} of", error) from error
        return self._loaded

    def table(self) -> Any:
        """Load the table; None if it does not exist.

        Raises:
            SinkError: The catalog returned an error.
        """
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self.catalog().load_table(self.name)
        except NoSuchTableError:
            return None
        except SinkError:
            raise
        except Exception as error:
            # Catalogs raise the errors of their databases and HTTP clients.
            raise self.failed("open", error) from error

    def failed(self, action: str, error: Exception) -> SinkError:
        """Return the error for a failed action, with the first line of its cause."""
        reason = redact(str(error).strip().partition("\n")[0]) or type(error).__name__
        return SinkError(f"could not {action} {self}: {reason}; committed rows are kept, run it again after the repair")

    def locked_error(self) -> SinkLockedError:
        """Return the error for a commit that another writer has made first."""
        return SinkLockedError(
            f"could not commit to {self}: another sink with the app_id {self.app_id!r} has committed; run one at a time"
        )

    def open(self) -> State | None:
        """Open the table and return its position; None if it has none."""
        self.number, self.columns, self.record, self.leftovers = 0, None, None, []
        table = self.table()
        if table is None:
            return None
        self._check(table)
        self.record = find_record(table.metadata, self.app_id)
        if self.record is not None:
            check_restart(self.record, self.upsert, str(self))
            self.number = self.record["number"]
            if self.evolve == "fail" and self.record["columns"] is not None:
                self.columns = from_text(self.record["columns"])
        self._clean(table)
        return None if self.record is None else State.of(self.record)

    def position(self) -> State | None:
        """Return the position without changes; None if the table has none."""
        table = self.table()
        record = None if table is None else find_record(table.metadata, self.app_id)
        return None if record is None else State.of(record)

    def _check(self, table: Any) -> None:
        """Check that a table can be written to, before anything is written.

        Raises:
            SinkSchemaError: It has format version 1, or other partitions than those of `partition_by`.
        """
        from pyiceberg.transforms import IdentityTransform

        if table.metadata.format_version < 2:
            raise SinkSchemaError(
                f"could not open {self}: it has format version 1, whose snapshots have no sequence numbers; upgrade it"
                " to version 2"
            )
        schema = table.schema()
        there = [
            schema.find_column_name(field.source_id)
            for field in table.spec().fields
            if isinstance(field.transform, IdentityTransform)
        ]
        if self.partition_by and self.partition_by != there:
            raise SinkSchemaError(
                f"could not open {self}: it is partitioned by {', '.join(map(str, table.spec().fields)) or 'nothing'};"
                " leave partition_by= out, or give another table"
            )

    def create(self) -> Any:
        """Create the table without rows, or load the one that another writer has created meanwhile.

        Raises:
            SinkSchemaError: Iceberg has no such columns.
            SinkError: The catalog refused it.
        """
        from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError
        from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.schema import assign_fresh_schema_ids
        from pyiceberg.transforms import IdentityTransform

        pa = needs_pyarrow("to_iceberg()")
        assert self.columns is not None
        arrow = created_schema(stored_schema(self.columns, str(self)))
        for name in self.partition_by:
            if pa.types.is_floating(arrow.field(name).type):
                raise SinkSchemaError(
                    f"could not partition {self} by column {name!r} of type {arrow.field(name).type}: a partition of"
                    " Iceberg has one value, and NaN equals none; use booleans, integers, text, dates or timestamps"
                )
        try:
            schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(arrow))
            fields = [
                PartitionField(schema.find_field(name).field_id, _FIRST_PARTITION_ID + index, IdentityTransform(), name)
                for index, name in enumerate(self.partition_by)
            ]
            return self.catalog().create_table(
                self.name, schema, partition_spec=PartitionSpec(*fields), properties=self.properties
            )
        except TableAlreadyExistsError:
            table = self.table()
            if table is None:
                raise self.locked_error() from None
            self._check(table)
            return table
        except NoSuchNamespaceError as error:
            namespace = ".".join(self.name[:-1])
            raise SinkError(
                f"could not create {self}: the catalog has no namespace {namespace!r}; create it with"
                f" catalog.create_namespace({namespace!r})"
            ) from error
        except Exception as error:
            raise self.failed("create the table", error) from error

    def corrupt_path(self, table: Any, number: int, commit: str) -> str:
        """Return the path of the undecodable rows of a commit."""
        return f"{self._corrupt_folder(table)}/{number:020d}-{commit}.parquet"

    def _corrupt_folder(self, table: Any) -> str:
        return f"{table.location().rstrip('/')}-corrupt/{folder_name(self.app_id)}"

    def _clean(self, table: Any) -> None:
        """Remove undecodable rows of commits that lost their number, and note those that may still lose it.

        A file of a later number may belong to a writer that is about to commit.
        """
        try:
            paths = _listed(table.io, self._corrupt_folder(table))
        except OSError as error:
            raise self.failed("open", error) from error
        for path in paths:
            if found := _CORRUPT.fullmatch(path.rpartition("/")[2]):
                if int(found[1]) > self.number:
                    self.leftovers.append(path)
                elif int(found[1]) == self.number and self.record is not None and found[2] != self.record["commit"]:
                    self.remove(table, path)

    def remove(self, table: Any, path: str) -> None:
        """Remove a file of undecodable rows."""
        try:
            table.io.delete(path)
        except FileNotFoundError:
            pass
        except Exception as error:
            raise self.failed(f"remove {redact(path)} of", error) from error

    def committed(self, table: Any, record: dict[str, Any]) -> None:
        """Note a commit of this sink, and remove undecodable rows that an incomplete commit left with its number."""
        self.record, self.number = record, record["number"]
        mine = f"{self.number:020d}-"
        for path in [path for path in self.leftovers if path.rpartition("/")[2].startswith(mine)]:
            self.leftovers.remove(path)
            self.remove(table, path)

    def close(self) -> None:
        """Do nothing: the target has no lock."""

    abandon = close

    def begin(self) -> IcebergCommit:
        """Start a commit."""
        from jetarrow.jetstream.sinks.iceberg_commit import IcebergCommit

        if self.upsert is None:
            return IcebergCommit(self)
        from jetarrow.jetstream.sinks.iceberg_merge import IcebergMerge

        return IcebergMerge(self, self.upsert)

    def compact(self) -> int:
        """Raise: pyiceberg cannot rewrite data files.

        Raises:
            UnsupportedError: Always.
        """
        message = f"could not compact {self}: pyiceberg cannot rewrite data files; use rewrite_data_files of Spark"
        raise UnsupportedError("compact()", message=message)


def _listed(io: Any, folder: str) -> list[str]:
    """Return the paths of the files in a folder; none if it does not exist, or if its file system cannot list."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    if isinstance(io, PyArrowFileIO):
        from pyarrow.fs import FileSelector

        scheme, host, path = io.parse_location(folder, io.properties)
        files = io.fs_by_scheme(scheme, host).get_file_info(FileSelector(path, allow_not_found=True))
        return [f"{folder}/{file.base_name}" for file in files]
    if hasattr(io, "get_fs"):
        system = io.get_fs(folder.partition("://")[0])
        if system.exists(folder):
            return [f"{folder}/{path.rstrip('/').rpartition('/')[2]}" for path in system.ls(folder, detail=False)]
    return []
