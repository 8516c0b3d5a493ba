"""A stream without an archive as a table, with the rows of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jetarrow.archive_scan.query import Query, condition_of, rfc3339
from jetarrow.jetstream.json_rules import JsonRules
from jetarrow.jetstream.literals import OnDataLoss, PayloadFormat
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader import Reader
from jetarrow.jetstream.registry import SchemaRegistry

if TYPE_CHECKING:
    import jetarrow.sync

_METADATA = ("stream", "seq", "subject", "timestamp", "headers")


class StreamTable:
    """The rows of a stream, with the columns of `js.read` and flattened payloads.

    Args:
        stream: Name of the stream.
        connect: Opens a connection to the server.
        format: As `js.read`.
        schema: As `js.read`.
        mode: As `js.read`.
        rules: Rules of the JSON decoder.
        subjects: Subject filters.
        on_data_loss: As `js.read`.
        registry: As `js.read`.
    """

    def __init__(
        self,
        stream: str,
        connect: Callable[[], jetarrow.sync.Client],
        *,
        format: PayloadFormat,
        schema: Any,
        mode: Any,
        rules: JsonRules,
        subjects: tuple[str, ...],
        on_data_loss: OnDataLoss,
        registry: SchemaRegistry | None = None,
    ) -> None:
        self._stream, self._connect, self._subjects = stream, connect, subjects
        self._schema = schema
        self._options: dict[str, Any] = {
            "format": format,
            "mode": mode,
            "rules": rules,
            "flatten": schema is not None or registry is not None,
            "registry": registry,
            "on_data_loss": on_data_loss,
            "timestamp_unit": "us",
        }
        with connect() as nc, self._reader(nc, {"limit": 1}) as reader:
            self.columns: pa.Schema = reader.schema.remove_metadata()
            if reader._inferred is not None:
                # Once, so that the columns do not change.
                self._schema = reader._inferred

    def _reader(self, nc: jetarrow.sync.Client, options: dict[str, Any]) -> Reader:
        subjects = options.pop("subjects", None) or self._subjects or None
        spec = ReadSpec(self._stream, schema=self._schema, subjects=subjects, **self._options, **options)
        return Reader(nc.jetstream()._inner._api, spec)

    def rows(self, query: Query) -> Iterator[pa.RecordBatch]:
        """Yield the rows within the bounds of a query, with the needed columns and maybe others.

        Args:
            query: The bounds and columns.
        """
        options: dict[str, Any] = {"end_seq": query.end}
        with self._connect() as nc:
            first = nc.jetstream().stream_info(self._stream).state.first_seq
            if query.first is not None and query.first > first:
                options["start_seq"] = query.first
            elif query.since is not None:
                options["start_time"] = rfc3339(query.since)
            if query.until is not None and query.end is None:
                options["end_time"] = rfc3339(query.until)
            if query.subjects is not None:
                options["subjects"] = sorted(query.subjects)
            if self._schema is None:
                options["columns"] = [name for name in self.columns.names if name in query.columns] or ["seq"]
            else:
                options["columns"] = [*(name for name in _METADATA if name in query.columns), "value"]
            with self._reader(nc, options) as reader:
                for found in reader:
                    batch = found.to_pyarrow()
                    is_narrowed = self._subjects and query.subjects is not None
                    yield batch.filter(condition_of(self._subjects)) if is_narrowed else batch
