"""publish_batch in the modes fast, atomic and auto (ADR-50)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow import errors
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer


@pytest.fixture
async def batched(js: JetStreamContext, stream: str) -> str:
    """The stream, with both kinds of batch allowed."""
    config = (await js.stream_info(stream)).config.evolve(allow_batched=True, allow_atomic=True)
    await js.update_stream(config)
    return stream


async def data(js: JetStreamContext, stream: str) -> list[bytes]:
    found: list[bytes] = (await js.read(stream, columns=["data"]).read_all()).column(0).to_pylist()
    return found


@pytest.mark.parametrize("count", [1, 2, 499, 500, 501, 12_345])
@pytest.mark.parametrize("window", [5_000, 7])
async def test_fast_mode_stores_all_in_order(js: JetStreamContext, batched: str, count: int, window: int) -> None:
    payloads = [b"%d" % i for i in range(count)]
    result = await js.publish_batch(f"{batched}.a", payloads, mode="fast", max_inflight=window)
    result.raise_for_errors()
    assert (result.stream, result.count, result.stored, result.duplicates) == (batched, count, count, None)
    assert result.seqs.to_pylist() == [None] * (count - 1) + [count]
    assert await data(js, batched) == payloads


async def test_fast_mode_supports_ids_headers_and_arrow(js: JetStreamContext, batched: str) -> None:
    table = pa.table(
        {
            "data": [b"%d" % i for i in range(3_000)],
            "subject": [f"{batched}.{i % 3}" for i in range(3_000)],
            "msg_id": [str(i) for i in range(3_000)],
        }
    )
    for _ in range(2):
        result = await js.publish_batch(payloads=table.to_reader(max_chunksize=700), mode="fast")
        assert (result.ok, result.stored) == (True, 3_000)
    found = (await js.read(batched).read_all()).to_pylist()
    assert [row["data"] for row in found] == table.column("data").to_pylist()
    assert found[7]["subject"] == f"{batched}.1"
    assert found[7]["headers"] == [("Nats-Msg-Id", ["7"])]


async def test_fast_mode_row_errors_affect_only_their_rows(js: JetStreamContext, batched: str) -> None:
    """Rejected rows have the server's error; all others are stored once, in order."""
    headers: list[dict[str, str] | None] = [None] * 2_000
    wrong = [5, 6, 777, 1_999]
    for row in wrong:
        headers[row] = {"Nats-Expected-Stream": "OTHER"}
    payloads = [b"%d" % i for i in range(2_000)]
    result = await js.publish_batch(f"{batched}.a", payloads, headers=headers, mode="fast", max_inflight=300)
    assert [error.row for error in result.errors] == wrong
    assert {getattr(error.error, "err_code", None) for error in result.errors} == {10060}
    assert await data(js, batched) == [payload for i, payload in enumerate(payloads) if i not in wrong]
    assert result.stored == 1_996


async def test_fast_mode_rejects_only_invalid_rows(js: JetStreamContext, batched: str) -> None:
    """Many consecutive rows are rejected, for different reasons; all others are stored."""
    count = 3_000
    dice = random.Random(1)
    headers: list[dict[str, str] | None] = [None] * count
    subjects = [f"{batched}.{row % 7}" for row in range(count)]
    wrong: dict[int, int | None] = {}
    for begin in dice.sample(range(1, count - 20), 12):
        for row in range(begin, begin + dice.randrange(1, 12)):
            if dice.random() < 0.5:
                subjects[row], wrong[row] = "nobody.takes.this", None
            else:
                headers[row], wrong[row] = {"Nats-Expected-Stream": "OTHER"}, 10060
    payloads = [b"%d" % row for row in range(count)]
    result = await js.publish_batch(subjects, payloads, headers=headers, mode="fast")
    assert {row: getattr(error, "err_code", None) for row, error in result.errors} == wrong
    assert await data(js, batched) == [payload for row, payload in enumerate(payloads) if row not in wrong]
    assert result.stored == count - len(wrong)


async def test_fast_mode_rejects_unsupported_options(js: JetStreamContext, batched: str) -> None:
    headers = [None, {"Nats-Expected-Last-Msg-Id": "x"}, None]
    result = await js.publish_batch(f"{batched}.a", [b"0", b"1", b"2"], headers=headers, mode="fast")
    assert [(error.row, type(error.error)) for error in result.errors] == [(1, ValueError)]
    assert await data(js, batched) == [b"0", b"2"]


async def test_fast_mode_into_full_stream_has_row_errors(js: JetStreamContext, batched: str) -> None:
    config = (await js.stream_info(batched)).config.evolve(max_msgs=100, discard="new")
    await js.update_stream(config)
    result = await js.publish_batch(f"{batched}.a", [b"x"] * 3_000, mode="fast")
    assert (result.stored, len(result.errors)) == (100, 2_900)
    assert {getattr(error.error, "err_code", None) for error in result.errors} == {10077}
    too_large = (await js.stream_info(batched)).config.evolve(max_msgs=-1, max_msg_size=10)
    await js.update_stream(too_large)
    rows = [b"small", b"x" * 20, b"small", b"x" * 20]
    result = await js.publish_batch(f"{batched}.a", rows, mode="fast")
    assert [(error.row, getattr(error.error, "err_code", None)) for error in result.errors] == [(1, 10054), (3, 10054)]
    assert (await data(js, batched))[100:] == [b"small", b"small"]


async def test_rejected_batch_raises_batch_error(js: JetStreamContext, batched: str, stream: str) -> None:
    wrong = [{"Nats-Expected-Stream": "OTHER"}, None]
    with pytest.raises(js_errors.BatchError, match="nothing of it is stored") as info:
        await js.publish_batch(f"{batched}.a", [b"x", b"y"], headers=wrong, mode="fast")
    assert info.value.err_code == 10060
    for headers in (wrong, wrong[::-1]):
        with pytest.raises(js_errors.BatchError, match="nothing of it is stored") as info:
            await js.publish_batch(f"{batched}.a", [b"x", b"y"], headers=headers, mode="atomic")
        assert info.value.err_code == 10060
    with pytest.raises(js_errors.BatchError, match="row 1") as info:
        await js.publish_batch(f"{batched}.a", [b"x", b"y", b"z"], msg_ids=["a", "a", "b"], mode="atomic")
    assert info.value.row == 1
    with pytest.raises(ValueError, match="1000 rows"):
        await js.publish_batch(f"{batched}.a", [b"x"] * 1_001, mode="atomic")
    assert await data(js, batched) == []


async def test_atomic_mode_stores_all_or_none(js: JetStreamContext, batched: str) -> None:
    await js.publish(f"{batched}.a", b"before")
    payloads = [b"%d" % i for i in range(1_000)]
    result = await js.publish_batch(f"{batched}.a", payloads, mode="atomic", msg_ids=[str(i) for i in range(1_000)])
    assert (result.stored, result.duplicates, result.stream) == (1_000, 0, batched)
    assert result.seqs.to_pylist() == list(range(2, 1_002))
    with pytest.raises(js_errors.BatchError) as info:
        await js.publish_batch(f"{batched}.a", [b"new", b"old"], mode="atomic", msg_ids=["new", "5"])
    assert info.value.err_code == 10201
    assert await data(js, batched) == [b"before", *payloads]


async def test_mode_without_stream_support_raises_error(js: JetStreamContext, stream: str) -> None:
    for mode, flag in (("fast", "allow_batched"), ("atomic", "allow_atomic")):
        with pytest.raises(errors.UnsupportedError, match=flag):
            await js.publish_batch(f"{stream}.a", [b"x"], mode=mode)
        with pytest.raises(js_errors.NoStreamResponseError):
            await js.publish_batch("nobody.listens", [b"x"], mode=mode)
        assert (await js.publish_batch(f"{stream}.a", [], mode=mode)).ok
    with pytest.raises(ValueError, match="window, fast, atomic, auto"):
        await js.publish_batch(f"{stream}.a", [b"x"], mode="quick")
    assert (await js.stream_info(stream)).state.messages == 0


async def test_auto_mode_selects_supported_mode(js: JetStreamContext, stream: str, batched: str) -> None:
    plain = f"{stream}-plain"
    await js.add_stream(name=plain, subjects=[f"{plain}.>"])
    assert (await js.publish_batch(f"{plain}.a", [b"x"] * 10, mode="auto")).duplicates == 0
    assert (await js.publish_batch(f"{batched}.a", [b"x"] * 10, mode="auto")).duplicates is None
    mixed = await js.publish_batch([f"{plain}.a", f"{batched}.a"], [b"x"] * 2, mode="auto")
    assert (mixed.ok, mixed.stream) == (True, None)
    nowhere = await js.publish_batch("nobody.listens", [b"x"], mode="auto")
    assert isinstance(nowhere.errors[0].error, js_errors.NoStreamResponseError)
    await js.delete_stream(plain)


def test_sync_publish_batch_supports_modes(sync_js: jetarrow.sync.JetStream, batched: str) -> None:
    assert sync_js.publish_batch(f"{batched}.a", ["x"] * 3_000, mode="fast").stored == 3_000
    assert sync_js.publish_batch(f"{batched}.a", ["x"] * 10, mode="atomic").seqs[9] == 3_010


@pytest.mark.parametrize("ids", [True, False])
async def test_fast_mode_across_server_restart_loses_no_row_with_id(own_server: NatsServer, ids: bool) -> None:
    """With ids no row is lost or duplicated; without ids, unknown results are reported as such."""
    count = 200_000
    payloads = [b"%d" % i for i in range(count)]
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.1, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        await js.add_stream(name="FAST", subjects=["fast.>"], allow_batched=True)
        restarted: list[asyncio.Task[object]] = []

        async def restart() -> None:
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.start)

        def progress(done: int, total: int | None) -> None:
            if done > count // 20 and not restarted:
                # At once, so that rows are left, and some are in flight when the link breaks.
                own_server.pause()
                restarted.append(asyncio.ensure_future(restart()))

        msg_ids = [str(i) for i in range(count)] if ids else None
        result = await js.publish_batch(
            "fast.a", payloads, msg_ids=msg_ids, mode="fast", max_inflight=500, progress=progress
        )
        assert restarted
        await restarted[0]
        found = [int(d) for d in (await js.read("FAST", columns=["data"]).read_all()).column(0).to_pylist()]
        assert result.stored + len(result.errors) == count
        if ids:
            result.raise_for_errors()
            assert sorted(found) == list(range(count))
            # Rows in flight when the server ended.
            assert nc.metrics_by_verb()["publish_batch"]["resent"] > 0
        else:
            assert {type(error.error) for error in result.errors} <= {js_errors.PublishUnconfirmedError}
            assert len(result.errors) <= 500
            assert len(found) == len(set(found))
            assert set(range(count)) - set(found) <= {error.row for error in result.errors}


async def test_fast_mode_with_silent_server_times_out(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream()
        await js.add_stream(name="FAST", subjects=["fast.>"], allow_batched=True)

        def blocks() -> Iterator[pa.RecordBatch]:
            for block in range(30):
                if block == 10:
                    own_server.pause()
                yield pa.record_batch({"data": [b"x" * 1_000] * 1_000})

        reader = pa.RecordBatchReader.from_batches(pa.schema({"data": pa.binary()}), blocks())
        result = await js.publish_batch("fast.a", reader, mode="fast", timeout=1, max_inflight=1_000)
        own_server.resume()
        assert result.stored + len(result.errors) == result.count > 10_000
        assert isinstance(result.errors[-1].error, errors.TimeoutError)


async def test_atomic_mode_counts_added_headers() -> None:
    """The server closes the connection for one byte above the limit."""
    limit = 1_024
    with NatsServer(config=f"max_payload: {limit}") as server:
        async with await jetarrow.connect(server.url, allow_reconnect=False) as nc:
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s.>"], allow_atomic=True)
            stored, refused = 0, None
            for size in range(limit - 160, limit + 1):
                try:
                    stored += (await js.publish_batch("s.a", [b"x", b"x" * size], mode="atomic")).stored
                except js_errors.BatchError as error:
                    refused = error
                    break
            assert refused is not None
            assert (refused.row, type(refused.__cause__)) == (1, errors.MaxPayloadError)
            assert stored > 0
            assert refused is not None
            assert (refused.row, type(refused.__cause__)) == (1, errors.MaxPayloadError)
            assert nc.is_connected
            assert (await js.stream_info("S")).state.messages == stored


@pytest.mark.parametrize("mode", ["fast", "auto"])
async def test_slow_producer_does_not_delay_sent_blocks(js: JetStreamContext, batched: str, mode: str) -> None:
    """A late block is sent when it arrives; a wait would cost seconds for each block."""

    def blocks() -> Iterator[pa.RecordBatch]:
        for number in range(8):
            time.sleep(0.05)
            yield pa.record_batch({"data": [b"%d" % number]})

    took: list[float] = []
    # The feed takes 0.4 s; each blind wait is 3 s. The best of three: a busy machine may pause.
    while len(took) < 3 and min(took, default=3) >= 2.5:
        reader = pa.RecordBatchReader.from_batches(pa.schema({"data": pa.binary()}), blocks())
        begun = time.monotonic()
        result = await js.publish_batch(f"{batched}.a", reader, mode=mode)
        took.append(time.monotonic() - begun)
        assert result.stored == 8
    assert min(took) < 2.5
    assert await data(js, batched) == [b"%d" % number for number in range(8)] * len(took)


@pytest.mark.parametrize("mode", ["fast", "atomic"])
async def test_batch_start_during_leader_election_is_retried(own: JetStreamContext, mode: str) -> None:
    """The stream is known, and its subject has no responder for a short time, as during an election."""
    config = {"allow_batched": True, "allow_atomic": True}
    await own.add_stream(name="S", subjects=["s.>"], **config)

    async def later() -> None:
        # The first message is sent again a quarter of a second after its 503.
        await asyncio.sleep(0.1)
        await own.update_stream(name="S", subjects=["s.>", "late.>"], **config)

    # The mode is looked up by the stream's name.
    late = asyncio.create_task(later())
    rows = [b"%d" % i for i in range(50)]
    result = await own.publish_batch("late.a", rows, mode=mode, expected_stream="S")
    await late
    assert (result.stored, result.stream) == (50, "S")
    assert await data(own, "S") == rows
    with pytest.raises(js_errors.BatchError, match="no stream has the subject"):
        await own.publish_batch("never.a", rows, mode=mode, expected_stream="S")
