"""The position of an Iceberg sink in the history of the table: expired snapshots, rollbacks of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkError
from pyiceberg.catalog.sql import SqlCatalog

from .iceberg_tools import NAME, append, expire, seqs, sql_catalog
from .tools import SCHEMA, fill


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return sql_catalog(tmp_path)


async def test_position_survives_the_expiry_of_snapshots(
    js: JetStreamContext, stream: str, catalog: SqlCatalog
) -> None:
    def sink() -> Any:
        return js.to_iceberg(stream, NAME, catalog=catalog, schema="infer", rows=4)

    await fill(js, stream, 11)
    await sink().run()
    for first, others, is_expired in ((11, 0, True), (21, 2, False), (31, 2, True)):
        for _ in range(others):
            append(catalog.load_table(NAME))
        if is_expired:
            expire(catalog.load_table(NAME))
        assert await sink().lag() == 0
        await fill(js, stream, first + 10, start=first)
        assert (await sink().run()).first_seq == first
    assert [seq for seq in seqs(catalog) if seq > 0] == list(range(1, 41))


async def test_rollback_of_the_table_rolls_the_position_back(
    js: JetStreamContext, stream: str, catalog: SqlCatalog
) -> None:
    def sink() -> Any:
        return js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA, rows=4)

    def roll_back(to: int) -> None:
        catalog.load_table(NAME).manage_snapshots().rollback_to_snapshot(to).commit()

    await fill(js, stream, 11)
    await sink().run()
    first, _, _ = catalog.load_table(NAME).metadata.snapshots
    roll_back(first.snapshot_id)
    assert seqs(catalog) == [1, 2, 3, 4]
    assert (await sink().run()).first_seq == 5
    assert seqs(catalog) == list(range(1, 11))
    # The earlier position is expired, and the later one is that of rows that the table lacks.
    append(catalog.load_table(NAME))
    await fill(js, stream, 13, start=11)
    await sink().run()
    table = catalog.load_table(NAME)
    other = table.metadata.snapshots[-2]
    roll_back(other.snapshot_id)
    table = catalog.load_table(NAME)
    table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in table.metadata.snapshots[:-2]]).commit()
    with pytest.raises(SinkError, match="rolled back behind its commit of sequence 12"):
        await sink().run()


async def test_property_that_was_removed_is_replaced_by_the_summary(
    js: JetStreamContext, stream: str, catalog: SqlCatalog
) -> None:
    def sink() -> Any:
        return js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA)

    await fill(js, stream, 11)
    await sink().run()
    append(catalog.load_table(NAME))
    table = catalog.load_table(NAME)
    with table.transaction() as transaction:
        transaction.remove_properties(f"jetarrow.jetarrow:{stream}")
    await fill(js, stream, 21, start=11)
    assert (await sink().run()).first_seq == 11
    # The commit has written it again.
    expire(catalog.load_table(NAME))
    assert (await sink().run()).rows == 0


async def test_table_that_was_rolled_back_before_the_first_commit_is_written_again(
    js: JetStreamContext, stream: str, catalog: SqlCatalog
) -> None:
    await fill(js, stream, 11)
    await js.to_iceberg(stream, NAME, catalog=catalog, app_id="other", rows=4).step()
    (first,) = catalog.load_table(NAME).metadata.snapshots
    await js.to_iceberg(stream, NAME, catalog=catalog).run()
    catalog.load_table(NAME).manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert (await js.to_iceberg(stream, NAME, catalog=catalog).run()).rows == 10
    assert seqs(catalog) == sorted([1, 2, 3, 4, *range(1, 11)])


async def test_snapshot_outside_of_the_history_proves_no_position(
    js: JetStreamContext, stream: str, catalog: SqlCatalog
) -> None:
    """A tag keeps the snapshot of the sink, and the snapshots between it and the current one are expired."""
    await fill(js, stream, 11)
    await js.to_iceberg(stream, NAME, catalog=catalog).run()
    table = catalog.load_table(NAME)
    (own,) = table.metadata.snapshots
    table.manage_snapshots().create_tag(own.snapshot_id, "release").commit()
    for number in (1, 2):
        append(catalog.load_table(NAME), -number)
    table = catalog.load_table(NAME)
    middle = table.metadata.snapshots[1]
    table.maintenance.expire_snapshots().by_id(middle.snapshot_id).commit()
    with pytest.raises(SinkError, match="could not determine the position"):
        await js.to_iceberg(stream, NAME, catalog=catalog).run()
    assert len(seqs(catalog)) == 12
