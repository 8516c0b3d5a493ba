"""Each published row has its own result, for any results of its neighbours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import jetarrow
import pyarrow as pa
import pytest
from jetarrow import errors
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import NoStreamResponseError
from jetarrow.jetstream.models import SubjectTransform
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.server import NatsServer

from tests.tools import free_port, until

ROWS, WINDOW = 40_000, 4_000
# Consecutive in-order acks before reply subjects are reused.
FIRM = 1_024


def numbered(count: int = ROWS) -> list[bytes]:
    return [b"%d" % row for row in range(count)]


async def contents(js: JetStreamContext, stream: str) -> dict[int, bytes]:
    held: dict[int, bytes] = {}
    async with js.read(stream) as reader:
        async for batch in reader:
            held.update(zip(batch.seqs.to_pylist(), batch.to_pyarrow().column("data").to_pylist(), strict=True))
    return held


async def failures(js: JetStreamContext, stream: str, result: PublishResult, rows: list[bytes]) -> dict[int, Exception]:
    """Errors of the rows that were not stored. The other rows have the reported sequences; the stream has no others."""
    failed = {error.row: error.error for error in result.errors}
    said = {seq: rows[row] for row, seq in enumerate(result.seqs.to_pylist()) if row not in failed}
    assert len(said) == len(rows) - len(failed)
    assert said == await contents(js, stream)
    return failed


async def test_messages_in_flight_have_distinct_reply_subjects(
    js: JetStreamContext, nats_url: str, stream: str
) -> None:
    rows = numbered()
    async with await jetarrow.connect(nats_url) as other:
        sub = await other.subscribe(f"{stream}.>")
        await other.flush()
        result = await js.publish_batch(f"{stream}.a", rows, max_inflight=300)
        replies = [(await sub.next_msg(timeout=10)).reply for _ in rows]
    assert not await failures(js, stream, result, rows)
    last: dict[str, int] = {}
    acked_before = 0
    for row, reply in enumerate(replies):
        # Reused only after its message was acknowledged, so not by neighbours.
        acked_before += reply in last
        assert row - last.get(reply, -FIRM) > 1
        last[reply] = row
    assert acked_before > ROWS / 4, "no reply subject was used again: this proves nothing"


async def test_rejected_rows_with_equal_payloads_have_errors(js: JetStreamContext, stream: str) -> None:
    """An expectation in the headers fails; the payloads are equal."""
    bad = {row for row in range(ROWS) if row % 1_999 == 3 or row % 2_503 in (7, 9, 10)}
    expected = {"Nats-Expected-Last-Subject-Sequence": "999999999"}
    headers = [expected if row in bad else {"X": "y"} for row in range(ROWS)]
    result = await js.publish_batch(f"{stream}.a", [b"same"] * ROWS, headers=headers, max_inflight=WINDOW)
    failed = {error.row: error.error for error in result.errors}
    assert set(failed) == bad
    assert {getattr(error, "err_code", None) for error in failed.values()} == {10071}
    assert (await js.stream_info(stream)).state.messages == ROWS - len(bad)
    seqs = [seq for row, seq in enumerate(result.seqs.to_pylist()) if row not in bad]
    assert seqs == list(range(1, ROWS - len(bad) + 1))


async def test_each_rejected_row_has_its_own_error(js: JetStreamContext, stream: str) -> None:
    """Neighbours are rejected for different reasons."""
    await js.update_stream((await js.stream_info(stream)).config.evolve(max_msg_size=1_000))
    wrong_seq, wrong_stream, wrong_id, too_large = range(4)
    kind = {row: row % 4 for start in range(5_000, ROWS, 3_001) for row in range(start, start + 9)}
    names = {
        wrong_seq: {"Nats-Expected-Last-Sequence": "999999999"},
        wrong_stream: {"Nats-Expected-Stream": "ELSEWHERE"},
        wrong_id: {"Nats-Expected-Last-Msg-Id": "none"},
        too_large: {"X": "y" * 1_000},
    }
    headers = [names[kind[row]] if row in kind else {"X": "y"} for row in range(ROWS)]
    result = await js.publish_batch(f"{stream}.a", [b"same"] * ROWS, headers=headers, max_inflight=WINDOW)
    codes = {wrong_seq: 10071, wrong_stream: 10060, wrong_id: 10070, too_large: 10054}
    assert {error.row: getattr(error.error, "err_code", None) for error in result.errors} == {
        row: codes[how] for row, how in kind.items()
    }


async def test_full_subject_does_not_affect_other_rows(js: JetStreamContext, stream: str) -> None:
    """With `discard_new_per_subject`, and one message per subject."""
    config = (await js.stream_info(stream)).config
    config = config.evolve(max_msgs_per_subject=1, discard="new", discard_new_per_subject=True)
    await js.update_stream(config)
    bad = {row for row in range(10_000, ROWS) if row % 997 in (1, 2)}
    subjects = [f"{stream}.{row - 1_000 if row in bad else row}" for row in range(ROWS)]
    rows = numbered()
    result = await js.publish_batch(subjects, rows, max_inflight=WINDOW)
    failed = await failures(js, stream, result, rows)
    assert set(failed) == bad
    assert {getattr(error, "err_code", None) for error in failed.values()} == {10077}


async def test_transformed_subjects_keep_their_results(js: JetStreamContext, stream: str) -> None:
    config = (await js.stream_info(stream)).config
    transform = SubjectTransform(src=f"{stream}.*", dest=f"{stream}.{{{{partition(1,1)}}}}")
    await js.update_stream(config.evolve(subject_transform=transform, max_msg_size=100))
    bad = {row for row in range(10_000, ROWS) if row % 997 in (1, 2)}
    rows = [bytes(101) if row in bad else b"same" for row in range(ROWS)]
    result = await js.publish_batch([f"{stream}.{row % 3}" for row in range(ROWS)], rows, max_inflight=WINDOW)
    assert {error.row: getattr(error.error, "err_code", None) for error in result.errors} == dict.fromkeys(bad, 10054)
    seqs = [seq for row, seq in enumerate(result.seqs.to_pylist()) if row not in bad]
    assert seqs == list(range(1, ROWS - len(bad) + 1))


@pytest.mark.parametrize("how", ["recreated", "purged"])
@pytest.mark.parametrize("face", ["publish_batch", "publish_async"])
async def test_decreasing_sequences_leave_no_row_unknown(
    js: JetStreamContext, stream: str, how: str, face: str
) -> None:
    """A stream is created again, or purged with another first sequence, while nothing is in flight."""
    config = (await js.stream_info(stream)).config
    half = ROWS // 2

    async def fall() -> None:
        if how == "purged":
            await js.purge_stream(stream)
        await js.delete_stream(stream)
        await js.add_stream(config)

    if face == "publish_batch":

        def blocks() -> Iterator[pa.RecordBatch]:
            rows = numbered()
            yield pa.record_batch({"data": rows[:half]})
            # Read when the window has room: wait until all earlier rows are acknowledged.
            assert empty.wait(60)
            yield pa.record_batch({"data": rows[half:]})

        empty, done, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

        def progress(count: int, total: int | None) -> None:
            if count >= half:
                loop.call_soon_threadsafe(done.set)

        async def fall_between() -> None:
            await done.wait()
            await fall()
            empty.set()

        falling = asyncio.ensure_future(fall_between())
        reader = pa.RecordBatchReader.from_batches(pa.schema({"data": pa.binary()}), blocks())
        result = await js.publish_batch(f"{stream}.a", reader, timeout=20, progress=progress)
        await falling
        result.raise_for_errors()
        seqs = result.seqs.to_pylist()
    else:
        first = [await js.publish_async(f"{stream}.a", row, wait_stall=30) for row in numbered(half)]
        seqs = [ack.seq for ack in await asyncio.gather(*first)]
        await fall()
        second = [await js.publish_async(f"{stream}.a", row, wait_stall=30) for row in numbered(half)]
        seqs += [ack.seq for ack in await asyncio.gather(*second)]
    assert seqs[:half] == list(range(1, half + 1))
    assert [seq for row, seq in enumerate(seqs[half:], 1) if seq != row] == []


@contextmanager
def hub_and_leaf() -> Iterator[tuple[str, str]]:
    port = free_port()
    hub = f"leafnodes {{ listen: 127.0.0.1:{port} }}\njetstream {{ domain: hub }}\n"
    leaf = f'leafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{port}" }} ] }}\njetstream {{ domain: leaf }}\n'
    with NatsServer(config=hub) as one, NatsServer(config=leaf) as other:
        yield one.url, other.url


async def is_stored_in_both(here: JetStreamContext, there: JetStreamContext) -> bool:
    await here.publish("s.a", b"first")
    return (await there.stream_info("S")).state.messages > 0


@pytest.mark.parametrize("leaf_begins", ["before", "meanwhile"])
async def test_acks_of_second_jetstream_resolve_no_other_rows(leaf_begins: str) -> None:
    """A leaf node's JetStream, in its own domain, stores the same subject in a stream of the same name."""
    with hub_and_leaf() as (hub_url, leaf_url):
        async with await jetarrow.connect(hub_url) as nc, await jetarrow.connect(leaf_url) as far:
            js, there = nc.jetstream(), far.jetstream()
            await js.add_stream(name="S", subjects=["s.>"], max_msg_size=100)
            if leaf_begins == "before":
                await there.add_stream(name="S", subjects=["s.>"])
                await until(lambda: is_stored_in_both(js, there))
            begun, loop = asyncio.Event(), asyncio.get_running_loop()

            async def begin() -> None:
                await begun.wait()
                if leaf_begins == "meanwhile":
                    await there.add_stream(name="S", subjects=["s.>"])

            def progress(done: int, total: int | None) -> None:
                if done > ROWS // 4:
                    loop.call_soon_threadsafe(begun.set)

            bad = {row for row in range(5_000, ROWS) if row % 997 in (1, 2)}
            rows = [bytes(101) if row in bad else b"%d" % row for row in range(ROWS)]
            beginning = asyncio.ensure_future(begin())
            # With ids, so that ambiguous rows are resent; a row may be stored only by the leaf.
            ids = [f"id{row}" for row in range(ROWS)]
            result = await js.publish_batch("s.a", rows, msg_ids=ids, timeout=20, progress=progress)
            await beginning
            held = [await contents(js, "S"), await contents(there, "S")]
    failed = {error.row for error in result.errors}
    said = {row: seq for row, seq in enumerate(result.seqs.to_pylist()) if row not in failed}
    assert [row for row, seq in said.items() if all(stream.get(seq) != rows[row] for stream in held)] == []
    assert failed <= bad


@pytest.mark.parametrize("with_ids", [False, True])
async def test_rows_of_full_stream_have_errors(js: JetStreamContext, stream: str, with_ids: bool) -> None:
    most = 25_007
    await js.update_stream((await js.stream_info(stream)).config.evolve(max_msgs=most, discard="new"))
    rows = numbered()
    ids = {"msg_ids": [f"id{row}" for row in range(ROWS)]} if with_ids else {}
    result = await js.publish_batch(f"{stream}.a", rows, max_inflight=WINDOW, **ids)
    failed = await failures(js, stream, result, rows)
    assert list(failed) == list(range(most, ROWS))
    assert {error.err_code for error in failed.values()} == {10077}  # type: ignore[attr-defined]


async def test_oversized_rows_among_others_have_errors(js: JetStreamContext, stream: str) -> None:
    """Too large for the stream: at the start, middle and end of groups, and several in one group."""
    await js.update_stream((await js.stream_info(stream)).config.evolve(max_msg_size=100))
    bad = {row for row in range(ROWS) if row % 1_999 < 1 or row % 2_503 in (7, 9, 10)}
    rows = [bytes(101) if row in bad else b"%d" % row for row in range(ROWS)]
    result = await js.publish_batch(f"{stream}.a", rows, max_inflight=WINDOW)
    failed = await failures(js, stream, result, rows)
    assert set(failed) == bad
    assert {error.err_code for error in failed.values()} == {10054}  # type: ignore[attr-defined]


async def test_rows_without_stream_among_others_have_errors(js: JetStreamContext, stream: str) -> None:
    bad = {row for row in range(ROWS) if row % 3_001 == 0}
    rows = numbered()
    subjects = [f"nobody.{stream}" if row in bad else f"{stream}.{row % 7}" for row in range(ROWS)]
    result = await js.publish_batch(subjects, rows, max_inflight=WINDOW)
    failed = await failures(js, stream, result, rows)
    assert set(failed) == bad
    assert {type(error) for error in failed.values()} == {NoStreamResponseError}


async def test_duplicate_rows_among_others_are_reported(js: JetStreamContext, stream: str) -> None:
    """Rows with the id of an earlier row, near and far, and of a message that was published before."""
    await js.publish(f"{stream}.a", b"before", headers={"Nats-Msg-Id": "before"})
    same = {row: row - row % 5_000 for row in range(2_003, ROWS, 1_777)}
    ids = [f"id{same.get(row, row)}" for row in range(ROWS)]
    ids[31_000] = "before"
    rows = numbered()
    result = await js.publish_batch(f"{stream}.a", rows, msg_ids=ids, max_inflight=WINDOW)
    result.raise_for_errors()
    seqs = result.seqs.to_pylist()
    assert result.duplicates == len(same) + 1
    first = {id: seqs[row] for row, id in reversed(list(enumerate(ids)))}
    first["before"] = 1
    assert seqs == [first[id] for id in ids]


@pytest.mark.parametrize("every", [2_777, 499, 97])
async def test_rows_of_two_streams_have_their_sequences(
    js: JetStreamContext, nats_url: str, stream: str, every: int
) -> None:
    """Rows of one stream with single rows of another, whose acks arrive before or after those of the neighbours."""
    other = f"{stream}other"
    await js.add_stream(name=other, subjects=[f"{other}.>"])
    rows = numbered()
    elsewhere = {row for row in range(ROWS) if row % every == 96 or row % (7 * every) == 50}
    subjects = [f"{other}.a" if row in elsewhere else f"{stream}.a" for row in range(ROWS)]
    result = await js.publish_batch(subjects, rows, max_inflight=WINDOW)
    await js.delete_stream(other)
    result.raise_for_errors()
    seqs = result.seqs.to_pylist()
    assert [seqs[row] for row in sorted(elsewhere)] == list(range(1, len(elsewhere) + 1))
    rest = [seq for row, seq in enumerate(seqs) if row not in elsewhere]
    assert rest == list(range(1, len(rest) + 1))


@pytest.mark.parametrize("with_ids", [False, True])
async def test_only_rows_without_response_time_out(
    js: JetStreamContext, nats_url: str, stream: str, with_ids: bool
) -> None:
    """A subscriber does not respond to them: only these rows time out."""
    rows = numbered()
    deaf = {row for row in range(20_000, ROWS) if row % 53 in (0, 1, 30)}
    subjects = [f"deaf.{stream}" if row in deaf else f"{stream}.a" for row in range(ROWS)]
    ids = {"msg_ids": [f"id{row}" for row in range(ROWS)]} if with_ids else {}
    async with await jetarrow.connect(nats_url) as other:
        await other.subscribe(f"deaf.{stream}", cb=ignore)
        await other.flush()
        result = await js.publish_batch(subjects, rows, max_inflight=WINDOW, timeout=10, **ids)
    failed = await failures(js, stream, result, rows)
    assert set(failed) == deaf
    assert {type(error) for error in failed.values()} == {errors.TimeoutError}


async def ignore(msg: jetarrow.Msg) -> None:
    pass


async def test_user_without_get_permission_has_exact_results() -> None:
    config = """
    authorization { users = [
        { user: admin, password: a }
        { user: p, password: p, permissions: { publish: ["full.>"], subscribe: ["_INBOX.>"] } }
    ] }
    """
    most, refused = 25_007, []

    async def note(error: Exception) -> None:
        refused.append(error)

    with NatsServer(config=config) as server:
        async with (
            await jetarrow.connect(server.url, user="admin", password="a") as admin,
            await jetarrow.connect(server.url, user="p", password="p", error_cb=note) as nc,
        ):
            await admin.jetstream().add_stream(name="FULL", subjects=["full.>"], max_msgs=most, discard="new")
            result = await nc.jetstream().publish_batch("full.a", numbered(), max_inflight=WINDOW, timeout=30)
            await nc.flush()
    codes = {error.row: getattr(error.error, "err_code", None) for error in result.errors}
    assert codes == dict.fromkeys(range(most, ROWS), 10077)
    assert result.seqs.to_pylist()[:most] == list(range(1, most + 1))
    assert not refused, "it sent a request without permission"


async def test_futures_of_full_stream_have_errors(js: JetStreamContext, stream: str) -> None:
    most = 25_007
    await js.update_stream((await js.stream_info(stream)).config.evolve(max_msgs=most, discard="new"))
    futures = [await js.publish_async(f"{stream}.a", row, wait_stall=30) for row in numbered()]
    acks = await asyncio.gather(*futures, return_exceptions=True)
    assert [getattr(ack, "seq", None) for ack in acks] == [*range(1, most + 1), *[None] * (ROWS - most)]
    assert {getattr(ack, "err_code", None) for ack in acks[most:]} == {10077}
