"""Snapshots of archives: their rows and their position at one version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from jetarrow.jetstream.errors import SinkError
from jetarrow.jetstream.sinks.state import Gap, State

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.dataset

_T = TypeVar("_T")
# Rows of an archive that are read at once. A file of the default size (1,000,000 rows) is read in two parts.
PART_ROWS = 1 << 19


def without_gaps(ranges: Iterable[Gap], gaps: Iterable[Gap]) -> list[Gap]:
    """Return ranges of sequences without those of the gaps.

    Args:
        ranges: Ranges, both ends included.
        gaps: Ranges to remove.
    """
    kept = list(ranges)
    for first, last in gaps:
        cut = [part for low, high in kept for part in ((low, min(high, first - 1)), (max(low, last + 1), high))]
        kept = [part for part in cut if part[0] <= part[1]]
    return kept


class Snapshot(Protocol):
    """An archive at one version. Its rows do not change while the sink continues."""

    # Position of the sink at this version.
    state: State
    # Columns of the rows.
    columns: pyarrow.Schema
    # Columns whose values are folders.
    partition_by: list[str]
    # Whether names of folders are escaped, as in Delta tables.
    escaped: bool

    def visit(
        self, first: int | None, end: int | None, visitor: Callable[[pyarrow.dataset.Dataset], _T]
    ) -> Iterator[_T]:
        """Yield the results of a function for the parts of the archive, each a dataset of at most some 524,288 rows.

        The function may be called again for a part that another process has replaced while it was read.

        Args:
            first: First sequence of interest; parts with lower sequences only are skipped.
            end: Sequence after the last one of interest.
            visitor: Reads a dataset completely and returns its result.

        Raises:
            SinkError: The archive cannot be read.
        """


def check_append(record: dict[str, Any], target: str) -> None:
    """Check that a sink appends rows.

    Args:
        record: Record of the sink's newest commit.
        target: The table, for the message.

    Raises:
        SinkError: It keeps one row for each key, so rows of the stream would have to replace rows of the table.
    """
    if record.get("merge"):
        raise SinkError(
            f"could not read {target} and stream {record['stream']!r} as one table: the sink keeps one row for each key"
            ' (merge="upsert"), and the rest of the stream has changes of them; read the table alone, or use js.latest'
        )
