"""Position of a sink in the metadata of an Iceberg table.

A commit writes its record twice, in the same transaction as the rows: in the summary of its snapshot, and in the table
property `jetarrow.<app_id>`. The summary belongs to the history: after a rollback of the table to an earlier snapshot
the position is that of the rows in the table. The property survives the expiry of snapshots. It has the schemas too,
which every snapshot would repeat in each version of the metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from jetarrow.jetstream.errors import SinkError

# Key of a record in the summary of a snapshot.
SUMMARY = "jetarrow"
# Start of the key of a record in the properties of the table.
_PROPERTY = "jetarrow."
# Fields of a record that are only in the property.
_SCHEMAS = ("schema", "columns")


def record_entries(record: dict[str, Any], app_id: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the entries of a record in the summary of its snapshot, and in the properties of the table."""
    short = {name: value for name, value in record.items() if name not in _SCHEMAS}
    return {SUMMARY: json.dumps(short)}, {f"{_PROPERTY}{app_id}": json.dumps(record)}


def find_record(metadata: Any, app_id: str) -> dict[str, Any] | None:
    """Return the record of a sink's newest commit in the history of the current snapshot; None if it has none.

    Args:
        metadata: Metadata of the table.
        app_id: Name of the sink.

    Raises:
        SinkError: The history does not prove that the position of the property is that of the rows.
    """
    kept = json.loads(metadata.properties.get(f"{_PROPERTY}{app_id}") or "null")
    oldest = None
    for oldest in _history(metadata):
        found = summary_record(oldest)
        if found is not None and found["app_id"] == app_id:
            return {**dict.fromkeys(_SCHEMAS), **(kept or {}), **found}
    # A table without a current snapshot has no rows.
    if kept is None or oldest is None:
        return None
    if oldest.parent_snapshot_id is None and oldest.sequence_number == 1:
        # The history is complete: the table was rolled back to a snapshot before the first commit of the sink.
        return None
    # Sequence numbers of snapshots only increase, so a commit with a smaller one was expired. Another commit, and one
    # whose snapshot still exists outside of the history, may have been rolled back.
    expired = all(snapshot.snapshot_id != kept["snapshot_id"] for snapshot in metadata.snapshots)
    if expired and oldest.sequence_number > kept["sequence_number"]:
        return dict(kept)
    raise SinkError(
        f"could not determine the position of {app_id!r}: the table was rolled back behind its commit of sequence"
        f" {kept['last_seq']}, and snapshots before that are expired; give another app_id, and start_seq"
    )


def has_commit(metadata: Any, commit: str) -> bool:
    """Return whether a table has a snapshot of a commit.

    Args:
        metadata: Metadata of the table.
        commit: Id of the commit.
    """
    records = [summary_record(snapshot) for snapshot in metadata.snapshots]
    return any(record is not None and record["commit"] == commit for record in [*records, *kept_records(metadata)])


def kept_records(metadata: Any) -> list[dict[str, Any]]:
    """Return the last record of each sink in the properties of a table."""
    return [json.loads(text) for name, text in metadata.properties.items() if name.startswith(_PROPERTY)]


def summary_record(snapshot: Any) -> dict[str, Any] | None:
    """Return the record in the summary of a snapshot; None if no sink has written it."""
    text = None if snapshot.summary is None else snapshot.summary.get(SUMMARY)
    found: dict[str, Any] | None = json.loads(text or "null")
    return found


def _history(metadata: Any) -> Iterator[Any]:
    """Yield the current snapshot and its ancestors, the newest first, until one is expired."""
    known = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    snapshot = known.get(metadata.current_snapshot_id)
    while snapshot is not None:
        yield snapshot
        snapshot = known.get(snapshot.parent_snapshot_id)
