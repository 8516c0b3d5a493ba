"""`js.to_delta`: a commit is a transaction of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import jetarrow.sync
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jetarrow.jetstream.sinks.delta import DeltaCommit
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkError, SinkLockedError, SinkSchemaError, StreamRecreatedError

from ..tools import fill_sync, store
from .tools import SCHEMA, fill, readings


def rows(folder: Path) -> pa.Table:
    return deltalake.DeltaTable(folder).to_pyarrow_table().sort_by("seq")


async def test_all_there_is_and_on(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 101)
    sink = js.to_delta(stream, tmp_path / "t", schema=SCHEMA, rows=40)
    assert repr(sink) == f"<Sink of stream {stream} to {tmp_path / 't'}>"
    assert await sink.run() == (100, 3, 1, 100, 0)
    assert await js.to_delta(stream, tmp_path / "t", schema=SCHEMA).run() == (0, 0, None, None, 0)
    await fill(js, stream, 111, start=101)
    assert (await js.to_delta(stream, str(tmp_path / "t"), schema=SCHEMA).run()).rows == 10
    found = rows(tmp_path / "t")
    assert found["id"].to_pylist() == found["seq"].to_pylist() == list(range(1, 111))
    table = deltalake.DeltaTable(tmp_path / "t")
    assert table.transaction_version(f"jetarrow:{stream}") == 110
    assert [commit["operation"] for commit in table.history()] == [*["WRITE"] * 4, "CREATE TABLE"]


async def test_without_a_schema(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await js.publish(f"{stream}.a", b"\x00\xff", headers={"one": "1"})
    await js.to_delta(stream, tmp_path).run()
    (row,) = rows(tmp_path).to_pylist()
    assert (row["data"], row["headers"], row["subject"]) == (b"\x00\xff", [("one", ["1"])], f"{stream}.a")


async def test_partitions_and_compact(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 31)
    async with js.to_delta(stream, tmp_path, schema=SCHEMA, partition_by=["region", "date"], rows=10) as sink:
        for _ in range(3):
            assert (await sink.step()).files == 3
        assert await sink.compact() == 6
    table = deltalake.DeltaTable(tmp_path)
    assert table.metadata().partition_columns == ["region", "date"]
    assert rows(tmp_path)["seq"].to_pylist() == list(range(1, 31))
    await fill(js, stream, 41, start=31)
    # The newest commit is not the sink's.
    assert (await js.to_delta(stream, tmp_path, schema=SCHEMA, partition_by=["region", "date"]).run()).first_seq == 31


async def test_corrupt_rows(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await store(js, f"{stream}.a", [b"first", *readings(2, 4), b"nope"])
    assert await js.to_delta(stream, tmp_path, schema=SCHEMA).run() == (2, 1, 2, 3, 2)
    await store(js, f"{stream}.a", [b"no"])
    assert await js.to_delta(stream, tmp_path, schema=SCHEMA).run() == (0, 0, None, None, 1)
    (own,) = (tmp_path / "_corrupt").iterdir()
    taken, left = (own / f"{number:020d}-9a.parquet" for number in (2, 3))
    for path in (taken, left):
        path.write_bytes(b"of a commit that never was")
    assert (await js.to_delta(stream, tmp_path, schema=SCHEMA).run()).corrupt == 0
    # Another sink may be about to commit the third.
    assert (taken.exists(), left.exists()) == (False, True)
    await store(js, f"{stream}.a", [b"again"])
    assert (await js.to_delta(stream, tmp_path, schema=SCHEMA).run()).corrupt == 1
    assert not left.exists()
    corrupt = pq.read_table(own, partitioning=None).sort_by("seq")
    assert corrupt["_corrupt_record"].to_pylist() == ["first", "nope", "no", "again"]
    assert rows(tmp_path)["seq"].to_pylist() == [2, 3]


async def test_only_corrupt_rows(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """They make a table without rows, and a position."""
    await store(js, f"{stream}.a", [b"no"])
    assert (await js.to_delta(stream, tmp_path / "t", schema=SCHEMA).run()).corrupt == 1
    assert (await js.to_delta(stream, tmp_path / "t", schema=SCHEMA).run()).corrupt == 0
    assert rows(tmp_path / "t").num_rows == 0


async def test_two_streams_and_two_sinks(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 11)
    await js.to_delta(stream, tmp_path, app_id="one", rows=5).run()
    await js.to_delta(stream, tmp_path, app_id="two").run()
    assert rows(tmp_path)["seq"].to_pylist() == sorted([*range(1, 11)] * 2)
    await fill(js, stream, 21, start=11)
    async with js.to_delta(stream, tmp_path, app_id="one", rows=5) as slow:
        await slow.step()
        await js.to_delta(stream, tmp_path, app_id="one").run()
        with pytest.raises(SinkLockedError, match="another sink with the app_id 'one'"):
            await slow.step()
    assert rows(tmp_path).num_rows == 30


def test_two_sinks_in_one_moment(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one finds out in the transaction itself."""
    fill_sync(sync_js, stream, 10)
    sync_js.to_delta(stream, tmp_path).run()
    fill_sync(sync_js, stream, 10)
    write = DeltaCommit._write

    def overtaken(self: DeltaCommit, *args: Any) -> int:
        monkeypatch.setattr(DeltaCommit, "_write", write)
        assert sync_js.to_delta(stream, tmp_path).run().rows == 10
        return write(self, *args)

    monkeypatch.setattr(DeltaCommit, "_write", overtaken)
    with pytest.raises(SinkLockedError, match="another sink with the app_id"):
        sync_js.to_delta(stream, tmp_path).run()
    assert rows(tmp_path)["seq"].to_pylist() == list(range(1, 21))


async def test_errors(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 4)
    await js.to_delta(stream, tmp_path, schema=SCHEMA).run()
    await fill(js, stream, 6, start=4)
    with pytest.raises(SinkSchemaError):
        await js.to_delta(stream, tmp_path, schema={"id": str, "region": str}).run()
    await js.delete_stream(stream)
    await js.add_stream(name=stream, subjects=[f"{stream}.>"])
    with pytest.raises(StreamRecreatedError):
        await js.to_delta(stream, tmp_path, schema=SCHEMA).run()
    (tmp_path / "file").write_text("x")
    with pytest.raises(SinkError, match="file"):
        await js.to_delta(stream, tmp_path / "file").run()
    assert rows(tmp_path)["seq"].to_pylist() == [1, 2, 3]


def test_without_a_loop(sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path) -> None:
    fill_sync(sync_js, stream, 30)
    with sync_js.to_delta(stream, tmp_path, rows=20) as sink:
        assert [sink.step().rows, sink.step().rows] == [20, 10]
    assert rows(tmp_path)["seq"].to_pylist() == list(range(1, 31))


async def test_two_streams_in_one_table_keep_their_corrupt_rows(
    js: JetStreamContext, stream: str, tmp_path: Path
) -> None:
    """A sink removes only its own leftover files of corrupt rows."""
    other = f"{stream}X"
    await js.add_stream(name=other, subjects=[f"{other}.>"])
    for name, count in ((stream, 4), (other, 1)):
        for number in range(count):
            await js.publish(f"{name}.a", b"no JSON")
            await js.to_delta(name, tmp_path, schema=SCHEMA, app_id=f"sink:{name}").run()
            assert (await js.stream_info(name)).state.last_seq == number + 1
    # Each start looks for what a writer before it has left.
    for name in (stream, other):
        await js.to_delta(name, tmp_path, schema=SCHEMA, app_id=f"sink:{name}").run()
    found = [pq.read_table(path)["subject"][0].as_py() for path in (tmp_path / "_corrupt").rglob("*.parquet")]
    assert sorted(found) == sorted([f"{stream}.a"] * 4 + [f"{other}.a"])


async def test_partitions_of_decimals_are_refused(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """deltalake writes -1.50 and cannot read it."""
    await js.publish(f"{stream}.a", b'{"price": -1.50}')
    with pytest.raises(SinkSchemaError, match=r"'price' is decimal128\(10, 2\), whose negative values"):
        await js.to_delta(stream, tmp_path, schema="price DECIMAL(10,2)", partition_by="price").run()


@pytest.mark.parametrize("fails_in", ["_write_corrupt", "_write"])
async def test_undecodable_rows_of_two_sinks_with_one_app_id(
    js: JetStreamContext, stream: str, tmp_path: Path, nats_url: str, monkeypatch: pytest.MonkeyPatch, fails_in: str
) -> None:
    """One opens between the other's undecodable rows and its commit, and fails before or after it writes its own."""
    await store(js, f"{stream}.a", [b'{"id": 1}', b"first", b"second"])
    write, original = DeltaCommit._write, getattr(DeltaCommit, fails_in)
    failures: list[str] = []

    def write_late(self: DeltaCommit, *arguments: Any) -> int:
        monkeypatch.setattr(DeltaCommit, "_write", write)
        monkeypatch.setattr(DeltaCommit, fails_in, refuse)
        with jetarrow.sync.connect(nats_url) as nc, pytest.raises(SinkError) as caught:
            nc.jetstream().to_delta(stream, tmp_path, schema={"id": int}).run()
        failures.append(str(caught.value))
        monkeypatch.setattr(DeltaCommit, fails_in, original)
        return write(self, *arguments)

    def refuse(self: DeltaCommit, *_: Any) -> int:
        raise SinkError("not this one")

    monkeypatch.setattr(DeltaCommit, "_write", write_late)
    assert (await js.to_delta(stream, tmp_path, schema={"id": int}).run()).corrupt == 2
    assert failures == ["nats: not this one"]
    # A start removes the rows of the commit that failed, whose number another one has.
    await store(js, f"{stream}.a", [b"third"])
    assert (await js.to_delta(stream, tmp_path, schema={"id": int}).run()).corrupt == 1
    (folder,) = (tmp_path / "_corrupt").iterdir()
    found = pq.read_table(folder).sort_by("seq")["_corrupt_record"].to_pylist()
    assert found == ["first", "second", "third"]
