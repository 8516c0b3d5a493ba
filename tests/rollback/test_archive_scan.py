"""Archive and stream as one table after a rollback of the stream behind the archive's position."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jetarrow.polars
import polars as pl
import pytest
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import StreamRolledBackError
from jetarrow.server import NatsServer

from ..sinks.iceberg_tools import NAME, sql_catalog
from .test_sinks import KINDS, restored, rows, sink_of
from .tools import COUNT, SINCE, STREAM


def scan(server: NatsServer, kind: str, folder: Path, *predicates: pl.Expr) -> pl.DataFrame:
    archive = sql_catalog(folder).load_table(NAME) if kind == "iceberg" else folder
    lazy = jetarrow.polars.scan(server.url, STREAM, archive=archive)
    return (lazy.filter(*predicates) if predicates else lazy).collect()


@pytest.mark.parametrize("since", SINCE)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_scan_behind_a_rollback_is_an_error(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, kind: str, since: str
) -> None:
    folder = tmp_path / "archive"
    async with restored(own_server, tmp_path, since):
        await sink_of(js, kind, folder, rows=30).run()
    with pytest.raises(StreamRolledBackError) as info:
        await asyncio.to_thread(scan, own_server, kind, folder)
    assert info.value.stream == STREAM
    # Rows up to the position are in the archive alone.
    found = await asyncio.to_thread(scan, own_server, kind, folder, pl.col("seq") <= 2 * COUNT)
    assert found.height == 2 * COUNT


@pytest.mark.parametrize("since", ["behind", "past"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_scan_of_two_epochs_has_the_rows_of_both(
    own_server: NatsServer, js: JetStreamContext, tmp_path: Path, kind: str, since: str
) -> None:
    folder = tmp_path / "archive"
    async with restored(own_server, tmp_path, since):
        await sink_of(js, kind, folder, rows=30).run()
    with pytest.warns(UserWarning, match="was rolled back"):
        async with sink_of(js, kind, folder, on_rollback="continue", rows=5) as sink:
            await sink.step()
    for _ in range(3):
        await js.publish(f"{STREAM}.a", b"late")
    early = await asyncio.to_thread(scan, own_server, kind, folder)
    high = await asyncio.to_thread(scan, own_server, kind, folder, pl.col("seq") > 150)
    await sink_of(js, kind, folder).run()
    words = [data.decode() for data in early["data"].to_list()]
    assert sorted(zip(early["seq"], words, strict=True)) == rows(kind, folder)
    # A predicate selects rows of an earlier epoch too, whose sequences are after the position.
    assert sorted(high["seq"]) == sorted(early.filter(pl.col("seq") > 150)["seq"])
