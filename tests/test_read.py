"""js.read: an exact range, in order."""

from __future__ import annotations

import asyncio
import os
import random
import warnings
from datetime import UTC, datetime, timedelta

import jetarrow
import jetarrow.sync
import polars as pl
import pyarrow as pa
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .slow_link import slow_link
from .tools import fill, no_consumer_stays, store, until, wait_until


async def seqs(js: JetStreamContext, stream: str, start: int | None = None, end: int | None = None) -> list[int]:
    found: list[int] = []
    async for batch in js.read(stream, start_seq=start, end_seq=end, columns=["seq"], batch_rows=64):
        found += [seq for seq in batch.seqs.to_pylist() if seq is not None]
    return found


async def test_read_returns_whole_stream(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 25_000)
    table = await js.read(stream).read_all()
    assert table.column("seq").to_pylist() == list(range(1, 25_001))
    assert table.column("data").to_pylist() == [str(i).encode() for i in range(1, 25_001)]
    assert table.column("headers").null_count == 25_000
    await no_consumer_stays(js, stream)


async def test_messages_of_a_read_batch_have_their_sequence(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 300)
    for columns in (None, ["data"]):
        batches = [batch async for batch in js.read(stream, start_seq=101, columns=columns, batch_rows=64)]
        assert [msg.seq for batch in batches for msg in batch] == list(range(101, 301)), columns


async def test_the_consumer_of_a_read_names_its_owner(own_server: NatsServer) -> None:
    for name, owner in (("ingest-7", "ingest-7"), (None, f"pid {os.getpid()}")):
        async with await jetarrow.connect(own_server.url, name=name) as nc:
            js = nc.jetstream()
            await js.get_or_create_stream(name="OWNED", subjects=["owned"], max_msgs=1)
            await js.publish("owned", b"")
            async with js.read("OWNED", follow=True) as reader:
                assert len(await anext(reader)) == 1
                (consumer,) = await js.consumers_info("OWNED")
                assert (consumer.config.metadata or {})["jetarrow.owner"] == owner


async def test_read_range_skips_deleted_messages(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 400)
    rng = random.Random(7)
    gone = set(rng.sample(range(2, 401), 150)) | {400, 399}
    for seq in gone:
        await js.delete_msg(stream, seq)
    for _ in range(40):
        start = rng.randrange(1, 401)
        end = rng.randrange(start, 420)
        expected = [seq for seq in range(start, min(end, 401)) if seq not in gone]
        assert await seqs(js, stream, start, end) == expected, (start, end)
    await no_consumer_stays(js, stream)


async def test_read_of_empty_range_returns_no_rows(js: JetStreamContext, stream: str) -> None:
    assert await seqs(js, stream) == []
    await fill(js, stream, 10)
    assert await seqs(js, stream, 5, 5) == []
    assert await seqs(js, stream, 7, 3) == []
    assert await seqs(js, stream, 11) == []
    assert await seqs(js, stream, 500, 500) == []
    assert (await js.read(stream, start_seq=11).read_all()).schema.names[0] == "stream"


async def test_read_start_beyond_last_sequence_raises_data_loss(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 10)
    for start, end in ((12, None), (500, 600)):
        with pytest.raises(js_errors.DataLossError, match="ends at 10") as info:
            await seqs(js, stream, start, end)
        assert info.value.available == 11
    with pytest.raises(js_errors.DataLossError):
        await js.read(stream, start_seq=12, subjects=f"{stream}.>").read_all()
    with pytest.warns(UserWarning, match="ends at 10"):
        table = await js.read(stream, start_seq=12, on_data_loss="warn").read_all()
    assert table.num_rows == 0
    async with js.read(stream, start_seq=13, follow=True, columns=["seq"]) as reader:
        waiting = asyncio.ensure_future(anext(reader))
        await fill(js, stream, 5)
        assert (await waiting).seqs.to_pylist()[0] == 13


async def test_read_ends_at_last_sequence_of_opening(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 100)
    reader = js.read(stream, batch_rows=10, columns=["seq"])
    first = await anext(reader)
    await fill(js, stream, 50)
    rest = [len(batch) async for batch in reader]
    assert len(first) + sum(rest) == 100
    assert reader.position == 101


async def test_reader_position_and_close_inside_range(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 1_000)
    async with js.read(stream, start_seq=11, batch_rows=100) as reader:
        assert reader.position == 11
        assert len(await anext(reader)) == 100
        assert reader.position == 111
    await no_consumer_stays(js, stream)
    assert [batch async for batch in reader] == []


async def test_read_of_removed_messages_raises_data_loss(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 100)
    await js.purge_stream(stream, seq=31)
    with pytest.raises(js_errors.DataLossError, match="1 to 30") as info:
        await seqs(js, stream, 1, 51)
    assert tuple(info.value.asked) == (1, 51)
    assert info.value.available == 31
    with pytest.raises(js_errors.DataLossError, match="5 to 9"):
        await seqs(js, stream, 5, 10)
    assert await seqs(js, stream) == list(range(31, 101))
    with pytest.warns(UserWarning, match="1 to 30"):
        table = await js.read(stream, start_seq=1, on_data_loss="warn").read_all()
    assert table.column("seq").to_pylist() == list(range(31, 101))


async def test_read_skips_interior_deletes(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 100)
    for seq in range(40, 61):
        await js.delete_msg(stream, seq)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert await seqs(js, stream, 1, 101) == [*range(1, 40), *range(61, 101)]


async def test_read_batches_end_at_rows_and_bytes(js: JetStreamContext, stream: str) -> None:
    (await js.publish_batch(f"{stream}.a", [bytes(1_000)] * 100)).raise_for_errors()
    assert [len(b) async for b in js.read(stream, batch_rows=30)] == [30, 30, 30, 10]
    sizes = [len(b) async for b in js.read(stream, batch_bytes=10_000)]
    assert sum(sizes) == 100
    assert max(sizes) <= 10
    # Arrow has 31-bit offsets of a column's bytes: a batch ends before, for any `batch_bytes`.
    assert [len(b) async for b in js.read(stream, batch_rows=2**62, batch_bytes=2**62, fetch_bytes=2**62)] == [100]


async def test_read_batches_grow_without_batch_rows(js: JetStreamContext, stream: str) -> None:
    """The first batch is returned before 65,536 messages have arrived."""
    (await js.publish_batch(f"{stream}.a", [b"x"] * 5_000)).raise_for_errors()
    assert [len(b) async for b in js.read(stream)] == [1024, 2048, 1928]
    assert [len(b) async for b in js.read(stream, batch_rows=4_000)] == [4_000, 1_000]
    assert [len(b) async for b in js.latest(stream)] == [1]


@pytest.mark.parametrize(("columns", "few"), [(["seq", "subject"], True), (["seq", "headers"], False)])
async def test_read_without_data_column_fetches_no_payloads(
    nc: jetarrow.Client, js: JetStreamContext, stream: str, columns: list[str], few: bool
) -> None:
    headers = {"Nats-Msg-Size": "its own", "a": "b"}
    (await js.publish_batch(f"{stream}.a", [bytes(4_000)] * 500, headers=headers)).raise_for_errors()
    before = nc.stats["in_bytes"]
    table = await js.read(stream, columns=columns).read_all()
    assert (nc.stats["in_bytes"] - before < 100_000) == few
    assert table.column("seq").to_pylist() == list(range(1, 501))
    if "headers" in columns:
        assert dict(table.column("headers")[7].as_py()) == {"Nats-Msg-Size": ["its own"], "a": ["b"]}


async def test_read_supports_microseconds_and_column_order(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 3)
    table = await js.read(stream, columns=["timestamp", "seq"], timestamp_unit="us").read_all()
    assert table.schema == pa.schema(
        [
            pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
            pa.field("seq", pa.int64(), nullable=False),
        ]
    )
    exact = await js.read(stream, columns=["timestamp"]).read_all()
    nanos = exact.column(0).cast(pa.int64()).to_pylist()
    assert table.column(0).cast(pa.int64()).to_pylist() == [n // 1_000 for n in nanos]


async def test_read_rejects_invalid_arguments(js: JetStreamContext, stream: str) -> None:
    for wrong in (
        {"start_seq": -1},
        {"columns": ["nope"]},
        {"columns": []},
        {"batch_rows": 0},
        {"timestamp_unit": "ms"},
        {"on_data_loss": "ignore"},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong)).split("_")[0]):
            js.read(stream, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stream name"):
        js.read("a.b")
    with pytest.raises(js_errors.NotFoundError):
        await js.read("NO_SUCH_STREAM").read_all()


async def test_read_of_recreated_stream_raises_error(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 30_000)
    reader = js.read(stream, batch_rows=1_000)
    await anext(reader)
    await js.delete_stream(stream)
    await js.add_stream(name=stream, subjects=[f"{stream}.>"])
    await fill(js, stream, 30_000)
    # It prefetches: the check may have happened while the stream did not exist.
    with pytest.raises((js_errors.StreamRecreatedError, js_errors.NotFoundError)):
        while True:
            await anext(reader)


def test_sync_read_and_arrow_stream_return_rows(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish_batch(f"{stream}.a", ["x"] * 1_000)
    assert sync_js.read(stream).read_all().num_rows == 1_000
    assert sum(len(batch) for batch in sync_js.read(stream, batch_rows=300)) == 1_000
    assert pa.table(sync_js.read(stream, columns=["seq", "data"])).num_rows == 1_000
    assert pl.DataFrame(sync_js.read(stream, columns=["seq", "data"])).height == 1_000
    assert pa.RecordBatchReader.from_stream(sync_js.read(stream, columns=["seq"])).read_all().num_rows == 1_000
    with sync_js.read(stream, start_seq=10, end_seq=20, columns=["seq"]) as reader:
        assert reader.schema.names == ["seq"]
        assert next(reader).seqs.to_pylist() == list(range(10, 20))
    with pytest.raises(js_errors.NotFoundError):
        sync_js.read("NO_SUCH_STREAM").read_all()


async def test_async_reader_blocks_in_plain_iteration(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 100)
    assert sum(len(batch) for batch in js.read(stream)) == 100
    assert pa.table(js.read(stream)).num_rows == 100


async def test_read_by_time_selects_range(js: JetStreamContext, stream: str) -> None:
    for i in range(20):
        await js.publish(f"{stream}.a", b"%d" % i)
    times = (await js.read(stream).read_all()).column("timestamp")
    nanos = times.cast(pa.int64()).to_pylist()

    def text(ns: int) -> str:
        whole = datetime.fromtimestamp(ns // 10**9, UTC)
        return f"{whole:%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z"

    async def between(start: str | datetime | None, end: str | datetime | None) -> list[int]:
        table = await js.read(stream, start_time=start, end_time=end, columns=["seq"]).read_all()
        found: list[int] = table.column("seq").to_pylist()
        return found

    for low, high in ((0, 20), (3, 9), (19, 20), (5, 5)):
        end = text(nanos[high]) if high < 20 else None
        assert await between(text(nanos[low]), end) == list(range(low + 1, high + 1))
    assert await between(text(nanos[4] + 1), None) == list(range(6, 21))
    assert await between(datetime.now() + timedelta(hours=1), None) == []
    assert await between(None, datetime.now(UTC) + timedelta(hours=1)) == list(range(1, 21))
    assert await between(datetime(2001, 1, 1), datetime(2002, 1, 1, tzinfo=UTC)) == []
    with pytest.raises(ValueError, match="start_seq or start_time"):
        js.read(stream, start_seq=1, start_time="2001-01-01T00:00:00Z")


async def test_read_with_subject_filters_selects_messages(js: JetStreamContext, stream: str) -> None:
    subjects = [f"{stream}.{'abc'[i % 3]}.{i % 2}" for i in range(300)]
    (await js.publish_batch(subjects, [b"x"] * 300)).raise_for_errors()

    async def matching(filters: str | list[str], **bounds: int) -> list[int]:
        table = await js.read(stream, subjects=filters, columns=["seq"], **bounds).read_all()  # type: ignore[arg-type]
        found: list[int] = table.column("seq").to_pylist()
        return found

    assert await matching(f"{stream}.a.>") == [i + 1 for i in range(300) if i % 3 == 0]
    several = [f"{stream}.a.*", f"{stream}.b.1"]
    expected = [i + 1 for i in range(300) if i % 3 == 0 or (i % 3 == 1 and i % 2 == 1)]
    assert await matching(several) == expected
    assert await matching(several, start_seq=50, end_seq=200) == [seq for seq in expected if 50 <= seq < 200]
    assert await matching(f"{stream}.nothing") == []
    with pytest.raises(js_errors.APIError, match="overlap"):
        await matching([f"{stream}.a.>", f"{stream}.a.1"])
    await js.purge_stream(stream, seq=101)
    with pytest.warns(UserWarning, match="1 to 100"):
        assert await matching(several, start_seq=1) == [seq for seq in expected if seq > 100]
    await no_consumer_stays(js, stream)


async def test_read_follow_continues_with_new_messages(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 100)
    seen: list[int | None] = []
    async with js.read(stream, follow=True, columns=["seq"]) as reader:
        while len(seen) < 100:
            seen += (await anext(reader)).seqs.to_pylist()
        for more in range(3):
            waiting = asyncio.ensure_future(anext(reader))
            await js.publish(f"{stream}.a", b"%d" % more)
            seen += (await asyncio.wait_for(waiting, 20)).seqs.to_pylist()
        assert reader.position == 104
    assert seen == list(range(1, 104))
    await no_consumer_stays(js, stream)
    with pytest.raises(ValueError, match="follow"):
        js.read(stream, follow=True, end_seq=5)


async def test_read_follow_asks_again_whether_messages_are_lost(
    js: JetStreamContext, nats_url: str, stream: str
) -> None:
    """With a filter every message follows a gap, so a server that does not answer for a moment is a common case."""
    await js.publish(f"{stream}.a", b"1")
    async with slow_link(nats_url, 0) as link, await jetarrow.connect(link.url) as nc:
        reader = nc.jetstream(timeout=0.5).read(stream, subjects=f"{stream}.a", follow=True)
        async with reader:
            assert (await anext(reader)).seqs.to_pylist() == [1]
            asked = link.asked("STREAM.INFO")
            link.swallowed = b"STREAM.INFO"
            await js.publish(f"{stream}.b", b"2")
            await js.publish(f"{stream}.a", b"3")
            pending = asyncio.ensure_future(anext(reader))
            await until(lambda: link.asked("STREAM.INFO") > asked)
            link.swallowed = None
            assert (await asyncio.wait_for(pending, 30)).seqs.to_pylist() == [3]


async def test_read_follow_returns_the_rows_before_a_purge(js: JetStreamContext, stream: str) -> None:
    """The last message that it gets is not the last that was there, so no count ends the batch."""
    rows, count = 97, 20_000
    while True:
        await store(js, f"{stream}.a", [b"x" * 1_000] * count)
        async with js.read(stream, follow=True, batch_rows=rows, columns=["seq"]) as reader:
            got = len(await anext(reader))
            # The others wait for the reader, and more are requested.
            await js.purge_stream(stream)
            (consumer,) = await js.consumers_info(stream)
            delivered = consumer.delivered.consumer_seq
            while got < delivered:
                got += len(await asyncio.wait_for(anext(reader), 20))
        assert got == delivered
        # Whole batches only: the case is another one.
        if delivered % rows and delivered < count:
            return


async def test_read_reports_progress(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 1_000)
    calls: list[tuple[int, int | None]] = []
    await js.read(stream, batch_rows=100, progress=lambda done, total: calls.append((done, total))).read_all()
    assert calls[-1] == (1_000, 1_000)


async def test_ordered_consumer_yields_messages_in_order(js: JetStreamContext, stream: str) -> None:
    await fill(js, stream, 10_000)
    seen = []
    async for msg in js.ordered_consumer(stream, start_seq=11):
        assert (msg.subject, msg.data) == (f"{stream}.a", b"%d" % (msg.seq or 0))
        seen.append(msg.seq)
        if len(seen) == 9_990:
            await js.publish(f"{stream}.a", b"10001", headers={"H": "1"})
        if len(seen) == 9_991:
            assert msg.headers == {"H": "1"}
            assert msg.metadata.sequence.stream == 10_001
            break
    assert seen == list(range(11, 10_002))


def test_sync_ordered_consumer_yields_messages_in_order(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish_batch(f"{stream}.a", ["x"] * 100)
    messages = sync_js.ordered_consumer(stream, f"{stream}.*")
    assert [next(messages).seq for _ in range(100)] == list(range(1, 101))
    messages.close()  # type: ignore[attr-defined]
    wait_until(lambda: sync_js.stream_info(stream).state.consumer_count == 0)


async def test_read_of_messages_of_max_payload_returns_all() -> None:
    with NatsServer(config="max_payload: 20MB") as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="BIG", subjects=["big"])
            sizes = [12_000_000, 10, 20_000_000 - 100, 9_000_000]
            for size in sizes:
                await js.publish("big", b"x" * size, timeout=20)
            found = []
            async with js.read("BIG", columns=["data"]) as reader:
                async for batch in reader:
                    found += [len(msg.data) for msg in batch]
            assert found == sizes
