"""publish_batch(mode="atomic", chunk=): any number of rows in atomic batches."""

from __future__ import annotations

from typing import Any

import jetarrow
import jetarrow.errors
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.errors import UnsupportedError
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .chunks import numbers, rows_of

WRONG_LAST_SEQUENCE = 10071


async def test_rows_are_stored_in_chunks_and_in_order(js: JetStreamContext, atomic: str) -> None:
    payloads = numbers(2_500)
    result = await js.publish_batch(f"{atomic}.a", payloads, mode="atomic", chunk=1_000)
    assert (result.ok, result.stored, result.duplicates, result.stream) == (True, 2_500, 0, atomic)
    assert result.seqs.to_pylist() == list(range(1, 2_501))
    assert await rows_of(js, atomic) == payloads
    stored = await js.read(atomic, columns=["headers"]).read_all()
    ids = {dict(headers)["Nats-Batch-Id"][0] for headers in stored.column("headers").to_pylist()}
    assert len(ids) == 3


@pytest.mark.parametrize("chunk", [1, 7, 64])
async def test_tables_and_streams_of_tables(js: JetStreamContext, atomic: str, chunk: int) -> None:
    table = pa.table(
        {
            "subject": [f"{atomic}.{number % 5}" for number in range(300)],
            "data": pa.array(numbers(300), pa.binary()),
            "msg_id": [str(number) for number in range(300)],
        }
    )
    result = await js.publish_batch(None, table, mode="atomic", chunk=chunk)
    assert (result.ok, result.stored) == (True, 300)
    blocks = pa.RecordBatchReader.from_batches(
        table.schema, [*table[:0].to_batches(), *table.to_batches(max_chunksize=11)]
    )
    again = await js.publish_batch(None, blocks, mode="atomic", chunk=chunk + 2)
    assert (again.ok, again.stored, again.duplicates) == (True, 0, 300)
    assert again.seqs.to_pylist() == list(range(1, 301))
    assert await rows_of(js, atomic) == numbers(300)


def test_sync_face_stores_chunks(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.update_stream(sync_js.stream_info(stream).config.evolve(allow_atomic=True))
    result = sync_js.publish_batch(f"{stream}.a", numbers(50), mode="atomic", chunk=20, on_reject="split")
    assert (result.ok, result.stored) == (True, 50)


async def test_no_rows(js: JetStreamContext, atomic: str) -> None:
    assert (await js.publish_batch(f"{atomic}.a", [], mode="atomic", chunk=10)).count == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mode": "atomic", "chunk": 0}, "chunk must be 1 to 1000"),
        ({"mode": "atomic", "chunk": 1_001}, "chunk must be 1 to 1000"),
        ({"chunk": 10}, 'chunk= needs mode="atomic"'),
        ({"mode": "atomic", "on_reject": "split"}, "on_reject= needs"),
        ({"mode": "atomic", "chunk": 2, "on_reject": "spilt"}, "split"),
    ],
)
async def test_invalid_options_send_nothing(
    js: JetStreamContext, atomic: str, options: dict[str, Any], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        await js.publish_batch(f"{atomic}.a", [b"x"], **options)
    assert (await js.stream_info(atomic)).state.last_seq == 0


async def test_a_stream_without_atomic_batches_is_refused_before_anything_is_sent(
    js: JetStreamContext, stream: str
) -> None:
    with pytest.raises(UnsupportedError, match="allow_atomic=True"):
        await js.publish_batch(f"{stream}.a", numbers(100), mode="atomic", chunk=10)
    assert (await js.stream_info(stream)).state.last_seq == 0


async def test_a_rejected_row_rejects_its_chunk_and_is_named(js: JetStreamContext, atomic: str) -> None:
    expected: list[int | None] = [None] * 500
    expected[234] = 77
    subjects = [f"{atomic}.{number}" for number in range(500)]
    result = await js.publish_batch(
        subjects, numbers(500), expected_last_subject_seq=expected, mode="atomic", chunk=100
    )
    assert [error.row for error in result.errors] == list(range(200, 300))
    for row, error in result.errors:
        if row == 234:
            assert isinstance(error, js_errors.APIError)
            assert error.err_code == WRONG_LAST_SEQUENCE
        else:
            assert isinstance(error, js_errors.BatchError)
            assert (error.row, error.err_code) == (234, WRONG_LAST_SEQUENCE)
    left = [data for number, data in enumerate(numbers(500)) if not 200 <= number < 300]
    assert sorted(await rows_of(js, atomic)) == sorted(left)


@pytest.mark.parametrize("bad", [[0], [99], [234], [200, 201, 299], [0, 100, 499], list(range(300, 400))])
async def test_split_stores_the_rest_of_the_chunk(js: JetStreamContext, atomic: str, bad: list[int]) -> None:
    expected = [77 if number in bad else None for number in range(500)]
    subjects = [f"{atomic}.{number}" for number in range(500)]
    result = await js.publish_batch(
        subjects, numbers(500), expected_last_subject_seq=expected, mode="atomic", chunk=100, on_reject="split"
    )
    assert [error.row for error in result.errors] == bad
    assert {error.error.err_code for error in result.errors} == {WRONG_LAST_SEQUENCE}  # type: ignore[attr-defined]
    assert (result.stored, result.duplicates) == (500 - len(bad), 0)
    data = await rows_of(js, atomic)
    assert sorted(data) == sorted(data for number, data in enumerate(numbers(500)) if number not in bad)
    seqs = result.seqs.to_pylist()
    assert all(data[seq - 1] == b"%d" % row for row, seq in enumerate(seqs) if seq is not None)


@pytest.mark.parametrize("on_reject", ["chunk", "split"])
async def test_a_row_that_is_too_large_for_the_stream(js: JetStreamContext, atomic: str, on_reject: Any) -> None:
    """The server checks the size of each row by itself, and answers none of them."""
    config = (await js.stream_info(atomic)).config.evolve(max_msg_size=500)
    await js.update_stream(config)
    payloads = numbers(300)
    payloads[150] = b"x" * 600
    result = await js.publish_batch(f"{atomic}.a", payloads, mode="atomic", chunk=100, on_reject=on_reject)
    failed = {error.row: error.error for error in result.errors}
    assert sorted(failed) == ([150] if on_reject == "split" else list(range(100, 200)))
    assert isinstance(failed[150], js_errors.APIError)
    assert "size" in str(failed[150])
    assert (await js.stream_info(atomic)).state.messages == 300 - len(failed)


@pytest.mark.parametrize("on_reject", ["chunk", "split"])
async def test_a_row_without_a_payload(js: JetStreamContext, atomic: str, on_reject: Any) -> None:
    column = pa.array([None if number == 15 else b"x" for number in range(30)], pa.binary())
    result = await js.publish_batch(f"{atomic}.a", column, mode="atomic", chunk=10, on_reject=on_reject)
    assert [error.row for error in result.errors] == ([15] if on_reject == "split" else list(range(10, 20)))
    assert "null" in str(result.errors[-1].error)


async def test_rows_that_the_stream_has_are_duplicates(js: JetStreamContext, atomic: str) -> None:
    subject = f"{atomic}.a"
    ids = [str(number) for number in range(400)]
    first = await js.publish_batch(subject, numbers(250), msg_ids=ids[:250], mode="atomic", chunk=100)
    assert (first.stored, first.duplicates) == (250, 0)
    # Rows of the second chunk are known, and rows of it are new.
    again = await js.publish_batch(subject, numbers(400), msg_ids=ids, mode="atomic", chunk=170)
    assert (again.ok, again.stored, again.duplicates) == (True, 150, 250)
    assert again.seqs.to_pylist() == list(range(1, 401))
    assert await rows_of(js, atomic) == numbers(400)


async def test_an_id_twice_in_a_call(js: JetStreamContext, atomic: str) -> None:
    ids = ["a", "b", "a", "c", "c", None, "d", "b"]
    result = await js.publish_batch(f"{atomic}.a", numbers(8), msg_ids=ids, mode="atomic", chunk=5)
    assert (result.ok, result.stored, result.duplicates) == (True, 5, 3)
    assert result.seqs.to_pylist() == [1, 2, 1, 3, 3, 4, 5, 2]
    assert await rows_of(js, atomic) == [b"0", b"1", b"3", b"5", b"6"]


async def test_a_full_stream_rejects_whole_chunks(js: JetStreamContext, atomic: str) -> None:
    config = (await js.stream_info(atomic)).config.evolve(max_msgs=250, discard="new")
    await js.update_stream(config)
    result = await js.publish_batch(
        f"{atomic}.a", numbers(1_000), mode="atomic", chunk=100, on_reject="split", timeout=20
    )
    assert (result.stored, len(result.errors)) == (200, 800)
    assert "maximum messages exceeded" in str(result.errors[0].error)
    assert await rows_of(js, atomic) == numbers(200)


@pytest.mark.newest_server
async def test_a_server_that_allows_few_batches() -> None:
    config = "jetstream { limits: { batch: { max_inflight_per_stream: 2 } } }"
    with NatsServer(config=config) as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s.>"], allow_atomic=True)
            result = await js.publish_batch("s.a", numbers(5_000), mode="atomic", chunk=50)
            result.raise_for_errors()
            assert sorted(await rows_of(js, "S")) == sorted(numbers(5_000))


@pytest.mark.parametrize("on_reject", ["chunk", "split"])
@pytest.mark.parametrize("denied", [3, 19])
async def test_a_row_that_the_server_denies_is_named(denied: int, on_reject: Any) -> None:
    user = 'users: [{ user: u, password: p, permissions: { publish: { deny: "s.secret" } } }]'
    with NatsServer(config=f"authorization {{ {user} }}") as server:
        async with await jetarrow.connect(server.url, user="u", password="p") as nc:
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s.>"], allow_atomic=True)
            subjects = ["s.secret" if row == denied else "s.a" for row in range(40)]
            result = await js.publish_batch(subjects, numbers(40), mode="atomic", chunk=10, on_reject=on_reject)
            failed = {error.row: error.error for error in result.errors}
            first = denied // 10 * 10
            assert sorted(failed) == ([denied] if on_reject == "split" else list(range(first, first + 10)))
            assert "s.secret" in str(failed[denied])
            assert await rows_of(js, "S") == [data for row, data in enumerate(numbers(40)) if row not in failed]
