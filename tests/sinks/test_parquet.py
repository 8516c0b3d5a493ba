"""`js.to_parquet`: commits, positions, partitions, corrupt rows."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jetarrow.errors import Error
from jetarrow.js.client import JetStreamContext

from ..tools import fill_sync, numbers, store, until
from .tools import REGIONS, SCHEMA, data, fill, names, readings, record_of, records, seqs, table


async def test_all_there_is(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 101)
    sink = js.to_parquet(stream, tmp_path, schema=SCHEMA, rows=40)
    assert repr(sink) == f"<Sink of stream {stream} to {tmp_path}>"
    result = await sink.run()
    assert result == (100, 3, 1, 100, 0)
    assert result.first_seq == 1
    found = table(tmp_path)
    assert found.schema.names == ["stream", "seq", "subject", "timestamp", "headers", "id", "region"]
    assert found["id"].to_pylist() == list(range(1, 101))
    assert found.select(["seq", "timestamp"]).equals(
        (await js.read(stream, columns=["seq", "timestamp"]).read_all()).cast(found.select(["seq", "timestamp"]).schema)
    )
    assert [record["last_seq"] for record in records(tmp_path)] == [40, 80, 100]
    assert {name for name in names(tmp_path) if name.startswith("_")} == {record_of(number) for number in (1, 2, 3)}
    assert pq.read_metadata(tmp_path / min(data(tmp_path))).row_group(0).column(0).compression == "ZSTD"


async def test_it_goes_on_where_it_was(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 11)
    assert (await js.to_parquet(stream, tmp_path).run()).rows == 10
    assert (await js.to_parquet(stream, tmp_path).run()) == (0, 0, None, None, 0)
    await fill(js, stream, 21, start=11)
    # An archive with commits ignores `start_seq`.
    assert (await js.to_parquet(stream, tmp_path, start_seq=1).run()) == (10, 1, 11, 20, 0)
    assert seqs(tmp_path) == list(range(1, 21))
    assert table(tmp_path)["data"].to_pylist() == readings(1, 21)


async def test_steps(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """A commit is full, or its time is over; without rows there is none."""
    async with js.to_parquet(stream, tmp_path, rows=10, seconds=0.3, follow=True) as sink:
        assert (await sink.step()).rows == 0
        await fill(js, stream, 26)
        assert [(await sink.step()).rows for _ in range(4)] == [10, 10, 5, 0]
        await fill(js, stream, 31, start=26)
        assert await sink.step() == (5, 1, 26, 30, 0)
        assert len(records(tmp_path)) == 4
    with pytest.raises(Error, match="closed"):
        await sink.step()
    await sink.close()


async def test_following(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """`close` finishes the commit under way."""
    told: list[tuple[int, int | None]] = []
    sink = js.to_parquet(
        stream, tmp_path, follow=True, seconds=600, progress=lambda done, total: told.append((done, total))
    )
    running = asyncio.ensure_future(sink.run())
    await fill(js, stream, 11)
    await until(lambda: sink._source is not None and sink._source.progress[0] == 10)
    await fill(js, stream, 21, start=11)
    await until(lambda: sink._source is not None and sink._source.progress[0] == 20)
    assert records(tmp_path) == []
    await sink.close()
    assert (await running).rows == 20
    assert seqs(tmp_path) == list(range(1, 21))
    assert told[-1] == (20, None)


async def test_a_cancelled_run_leaves_nothing_half_done(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 11)
    sink = js.to_parquet(stream, tmp_path, follow=True, seconds=600)
    running = asyncio.ensure_future(sink.run())
    await until(lambda: sink._source is not None and sink._source.progress[0] == 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert names(tmp_path) == set()
    assert (await js.to_parquet(stream, tmp_path).run()).rows == 10


async def test_partitions(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 31)
    result = await js.to_parquet(stream, tmp_path, schema=SCHEMA, partition_by=["region", "date"]).run()
    today = datetime.now(UTC).date().isoformat()
    folders = {name.rpartition("/")[0] for name in data(tmp_path)}
    assert folders == {f"region={region}/date={today}" for region in REGIONS}
    assert (result.rows, result.files) == (30, 3)
    assert seqs(tmp_path) == list(range(1, 31))
    one = pq.ParquetFile(next((tmp_path / "region=eu").rglob("*.parquet"))).read()
    assert "region" not in one.schema.names
    assert one["seq"].to_pylist() == list(range(3, 31, 3))


async def test_odd_values_of_a_partition(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    values = ["a/b", "..", "ä=1", None, "", "x%2Fy", "."]
    await store(js, f"{stream}.a", [json.dumps({"id": i, "region": v}).encode() for i, v in enumerate(values)])
    await js.to_parquet(stream, tmp_path, schema=SCHEMA, partition_by="region").run()
    found = table(tmp_path)
    assert found["seq"].to_pylist() == list(range(1, 8))
    assert found["region"].to_pylist() == [value or None for value in values]


async def test_corrupt_rows(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    bad = [b"nope", b'{"id": "x"}', b"\xff"]
    await store(js, f"{stream}.a", [*readings(1, 4), *bad, *readings(7, 9)])
    result = await js.to_parquet(stream, tmp_path, schema=SCHEMA).run()
    assert result == (5, 1, 1, 8, 3)
    assert seqs(tmp_path) == [1, 2, 3, 7, 8]
    corrupt = pq.read_table(tmp_path / "_corrupt", partitioning=None)
    assert corrupt["seq"].to_pylist() == [4, 5, 6]
    assert corrupt["_corrupt_record"].to_pylist() == ["nope", '{"id": "x"}', "/w=="]
    assert corrupt["_error"].null_count == 0
    # Nothing but corrupt rows is a commit too.
    await store(js, f"{stream}.a", bad[:1])
    assert await js.to_parquet(stream, tmp_path, schema=SCHEMA).run() == (0, 0, None, None, 1)
    assert (await js.to_parquet(stream, tmp_path, schema=SCHEMA).run()).corrupt == 0


async def test_inferred_once(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """The schema that the first start inferred remains."""
    await store(js, f"{stream}.a", [b'{"id": 1}'])
    await js.to_parquet(stream, tmp_path, schema="infer").run()
    await store(js, f"{stream}.a", [b'{"id": "two"}', b'{"id": 3, "more": 1}'])
    await js.to_parquet(stream, tmp_path, schema="infer").run()
    assert table(tmp_path)["id"].to_pylist() == [1, 3]
    assert records(tmp_path)[-1]["corrupt"] == 1


async def test_subjects_and_starts(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    for token in ("a", "b", "a", "b", "c"):
        await js.publish(f"{stream}.{token}", token.encode())
    result = await js.to_parquet(stream, tmp_path / "s", subjects=f"{stream}.b", start_seq=3).run()
    assert (result.first_seq, result.last_seq) == (4, 4)
    assert records(tmp_path / "s")[0]["last_seq"] == 5
    stored = (await js.get_msg(stream, 3)).time
    assert stored is not None
    await js.to_parquet(stream, tmp_path / "t", start_time=stored).run()
    assert seqs(tmp_path / "t") == [3, 4, 5]


async def test_without_flattening(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 3)
    await js.to_parquet(stream, tmp_path, schema=SCHEMA, flatten=False, timestamp_unit="us", compression="none").run()
    found = table(tmp_path)
    assert found["value"].to_pylist() == [{"id": 1, "region": "us"}, {"id": 2, "region": "ap"}]
    assert found.schema.field("timestamp").type == pa.timestamp("us", "UTC")


async def test_compact(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 41)
    async with js.to_parquet(stream, tmp_path, rows=10, seconds=1) as sink:
        for _ in range(4):
            await sink.step()
    async with js.to_parquet(stream, tmp_path, rows=25) as sink:
        assert await sink.compact() == 2
        assert await sink.compact() == 0
    assert [len(data(tmp_path)), seqs(tmp_path)] == [2, list(range(1, 41))]
    await fill(js, stream, 51, start=41)
    assert await js.to_parquet(stream, tmp_path).run() == (10, 1, 41, 50, 0)
    assert seqs(tmp_path) == list(range(1, 51))
    assert [record["number"] for record in records(tmp_path)] == [5, 6]


async def test_compact_leaves_what_is_written_to(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    async def write(region: str) -> None:
        await store(js, f"{stream}.a", [json.dumps({"id": 1, "region": region}).encode()] * 3)
        await js.to_parquet(stream, tmp_path, schema=SCHEMA, partition_by="region").run()

    for region in ("eu", "eu", "us", "us"):
        await write(region)
    async with js.to_parquet(stream, tmp_path, schema=SCHEMA, partition_by="region") as sink:
        assert await sink.compact() == 1
    assert [len(data(tmp_path / f"region={region}")) for region in ("eu", "us")] == [1, 2]
    assert seqs(tmp_path) == list(range(1, 13))


def test_without_a_loop(sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path) -> None:
    fill_sync(sync_js, stream, 30)
    with sync_js.to_parquet(stream, tmp_path, rows=20) as sink:
        assert repr(sink).startswith("<Sink of stream")
        assert sink.step().rows == 20
    assert sync_js.to_parquet(stream, tmp_path).run().rows == 10
    assert table(tmp_path)["data"].to_pylist() == numbers(30)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rows": 0}, "rows"),
        ({"seconds": 0}, "seconds"),
        ({"compression": "best"}, "zstd"),
        ({"timestamp_unit": "ms"}, "timestamp_unit"),
        ({"on_data_loss": "cry"}, "on_data_loss"),
        ({"start_seq": 1, "start_time": "1h"}, "exclude each other"),
    ],
)
async def test_wrong_arguments(js: JetStreamContext, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        js.to_parquet("S", "never", **wrong)
