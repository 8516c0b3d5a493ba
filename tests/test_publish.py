"""publish and publish_batch against a real stream."""

from __future__ import annotations

import array
import asyncio
from datetime import timedelta
from typing import Any

import jetarrow.sync
import polars as pl
import pyarrow as pa
import pytest
from jetarrow import errors
from jetarrow.aio.client import Client
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext


async def rows(js: JetStreamContext, stream: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await js.read(stream).read_all()).to_pylist()
    return found


async def test_publish_returns_ack(js: JetStreamContext, stream: str) -> None:
    headers = {"One": "1", "Two": ["2", "zwei"]}
    ack = await js.publish(f"{stream}.a", b"payload", headers=headers, msg_id="id-1")
    assert (ack.stream, ack.seq, ack.duplicate) == (stream, 1, False)
    again = await js.publish(f"{stream}.a", b"payload", msg_id="id-1")
    assert (again.seq, again.duplicate) == (1, True)
    assert headers == {"One": "1", "Two": ["2", "zwei"]}
    (row,) = await rows(js, stream)
    assert row["data"] == b"payload"
    assert row["headers"] == [("Nats-Msg-Id", ["id-1"]), ("One", ["1"]), ("Two", ["2", "zwei"])]


async def test_server_errors_are_typed(js: JetStreamContext, stream: str) -> None:
    with pytest.raises(js_errors.NoStreamResponseError, match="nobody"):
        await js.publish("nobody.listens", b"")
    with pytest.raises(js_errors.APIError) as info:
        await js.publish(f"{stream}.a", b"", stream="ANOTHER")
    assert (info.value.code, info.value.err_code) == (400, 10060)


BAD_SUBJECTS = [
    "",
    "a b",
    "a\r\nPUB evil 2\r\nhi",
    "a\tb",
    "a\0b",
    ".a",
    "a.",
    "a..b",
    "a.*",
    "a.>",
    "x" * 5_000,
]


@pytest.mark.parametrize("subject", BAD_SUBJECTS, ids=lambda s: repr(s[:12]))
async def test_invalid_subjects_are_rejected(js: JetStreamContext, stream: str, subject: str) -> None:
    good = f"{stream}.a"
    with pytest.raises(errors.BadSubjectError):
        await js.publish(subject, b"")
    with pytest.raises(errors.BadSubjectError):
        await js.publish_batch(subject, [b""])
    with pytest.raises(errors.BadSubjectError):
        await js.publish_batch([good, subject], [b"", b""])
    assert (await js.publish(good, b"still alive")).seq == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"a b": "1"},
        {"a:b": "1"},
        {"": "1"},
        {"a\r\nb": "1"},
        {"ä": "1"},
        {"a": "1\r\nb: 2"},
        {"a": ["1", "2\n"]},
    ],
    ids=repr,
)
async def test_invalid_headers_are_rejected(js: JetStreamContext, stream: str, headers: dict[str, Any]) -> None:
    with pytest.raises(errors.BadHeaderError):
        await js.publish(f"{stream}.a", b"", headers=headers)
    with pytest.raises(errors.BadHeaderError):
        await js.publish_batch(f"{stream}.a", [b""], headers=headers)
    assert (await js.publish(f"{stream}.a", b"still alive")).seq == 1


async def test_max_payload_includes_headers(nc: Client, js: JetStreamContext, stream: str) -> None:
    limit = nc.max_payload
    subject = f"{stream}.a"
    assert (await js.publish(subject, bytes(limit))).seq == 1
    for call in (
        js.publish(subject, bytes(limit + 1)),
        js.publish(subject, bytes(limit), headers={"A": "1"}),
        js.publish_batch(subject, [b"fits", bytes(limit + 1)]),
        js.publish_batch(subject, [b"fits", bytes(limit)], msg_ids=[None, "id"]),
    ):
        with pytest.raises(errors.MaxPayloadError, match=str(limit)):
            await call
    assert (await js.stream_info(stream)).state.messages == 1


async def test_wrong_types_raise_type_error(js: JetStreamContext, stream: str) -> None:
    subject = f"{stream}.a"
    for payload in (None, 1, 1.5, object(), {"a": 1}):
        with pytest.raises(TypeError):
            await js.publish(subject, payload)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"payloads\[1\]"):
            await js.publish_batch(subject, [b"", payload])  # type: ignore[list-item]
    for payloads in (b"one message", "one message", None, 7):
        with pytest.raises(TypeError):
            await js.publish_batch(subject, payloads)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lone surrogate"):
        await js.publish(subject, "\ud800")
    for wrong in ({"msg_ids": ["a"]}, {"headers": [None]}, {"max_inflight": 0}, {"timeout": -1}):
        with pytest.raises(ValueError, match=r"msg_ids|headers|max_inflight|timeout"):
            await js.publish_batch(subject, [b"", b""], **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="subject"):
        await js.publish_batch([subject], [b"", b""])
    assert (await js.stream_info(stream)).state.messages == 0


async def test_publish_accepts_each_payload_type(js: JetStreamContext, stream: str) -> None:
    kinds = [
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"a view")[2:],
        "grüße",
        array.array("B", b"array"),
        b"",
    ]
    result = await js.publish_batch(f"{stream}.a", kinds)
    result.raise_for_errors()
    expected = [b"bytes", b"bytearray", b"view", "grüße".encode(), b"array", b""]
    assert [row["data"] for row in await rows(js, stream)] == expected


async def test_publish_batch_returns_result_per_row(js: JetStreamContext, stream: str) -> None:
    subjects = [f"{stream}.a", "nobody.listens", f"{stream}.b", f"{stream}.a"]
    headers = [None, None, {"H": "b"}, None]
    result = await js.publish_batch(subjects, ["0", "1", "2", "3"], headers=headers, msg_ids=["x", None, "y", "x"])
    assert (result.count, result.stored, result.duplicates, len(result.errors)) == (4, 2, 1, 1)
    assert (result.stream, result.ok, result.seqs.to_pylist()) == (stream, False, [1, None, 2, 1])
    (failed,) = result.errors
    assert failed.row == 1
    assert isinstance(failed.error, js_errors.NoStreamResponseError)
    with pytest.raises(js_errors.BatchError, match="row 1") as info:
        result.raise_for_errors()
    assert info.value.errors == result.errors
    table = pa.record_batch(result).to_pydict()
    assert table["row"] == [0, 1, 2, 3]
    assert table["seq"] == [1, None, 2, 1]
    assert table["status"] == ["stored", "error", "stored", "duplicate"]
    assert [text is None for text in table["error"]] == [True, False, True, True]
    found = await rows(js, stream)
    assert [(row["subject"], row["data"]) for row in found] == [(f"{stream}.a", b"0"), (f"{stream}.b", b"2")]
    assert found[1]["headers"] == [("H", ["b"]), ("Nats-Msg-Id", ["y"])]


@pytest.mark.parametrize("window", [1, 7, 5_000])
async def test_publish_batch_larger_than_window_stores_all(js: JetStreamContext, stream: str, window: int) -> None:
    count = 300 if window == 1 else 12_000
    payloads = [str(i) for i in range(count)]
    result = await js.publish_batch(f"{stream}.a", payloads, max_inflight=window)
    result.raise_for_errors()
    assert result.seqs.to_pylist() == list(range(1, count + 1))
    assert [row["data"].decode() for row in await rows(js, stream)] == payloads


async def test_publish_batch_stores_into_two_streams(js: JetStreamContext, stream: str) -> None:
    other = f"{stream}-2"
    await js.add_stream(name=other, subjects=[f"{other}.>"])
    result = await js.publish_batch([f"{stream}.a", f"{other}.a"] * 50, [b"x"] * 100)
    assert (result.stream, result.stored) == (None, 100)
    await js.delete_stream(other)


async def test_expected_stream_mismatch_is_row_error(js: JetStreamContext, stream: str) -> None:
    good = await js.publish_batch(f"{stream}.a", [b"x"], expected_stream=stream)
    assert good.stored == 1
    wrong = await js.publish_batch(f"{stream}.a", [b"x"], expected_stream="OTHER")
    error = wrong.errors[0].error
    assert isinstance(error, js_errors.BadRequestError)
    assert error.err_code == 10060


async def test_publish_checks_expectations(js: JetStreamContext, stream: str) -> None:
    subject = f"{stream}.a"
    await js.publish(subject, b"x", msg_id="one", expected_stream=stream, expected_last_seq=0)
    await js.publish(subject, b"x", msg_id="two", expected_last_subject_seq=1, expected_last_msg_id="one")
    for wrong, code in (
        ({"expected_stream": "OTHER"}, 10060),
        ({"expected_last_seq": 7}, 10071),
        ({"expected_last_subject_seq": 7}, 10071),
        ({"expected_last_msg_id": "one"}, 10070),
    ):
        with pytest.raises(js_errors.BadRequestError) as info:
            await js.publish(subject, b"x", **wrong)  # type: ignore[arg-type]
        assert info.value.err_code == code
        with pytest.raises(js_errors.BadRequestError):
            await (await js.publish_async(subject, b"x", **wrong))  # type: ignore[arg-type]
    assert (await js.stream_info(stream)).state.messages == 2


async def test_publish_batch_sets_time_to_live(js: JetStreamContext, stream: str) -> None:
    config = (await js.stream_info(stream)).config.evolve(allow_msg_ttl=True)
    await js.update_stream(config)
    await js.publish(f"{stream}.a", b"x", msg_ttl=100)
    await (await js.publish_async(f"{stream}.a", b"x", msg_ttl=timedelta(minutes=2)))
    (await js.publish_batch(f"{stream}.a", [b"x"], msg_ttl=300, expected_stream=stream)).raise_for_errors()
    (await js.publish_batch(f"{stream}.a", pa.array([b"x"]), msg_ttl=400)).raise_for_errors()
    found = [dict(row["headers"])["Nats-TTL"] for row in await rows(js, stream)]
    assert found == [["100"], ["120"], ["300"], ["400"]]
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="msg_ttl"):
            await js.publish_batch(f"{stream}.a", [b"x"], msg_ttl=wrong)


async def test_publish_batch_without_rows_returns_empty_result(js: JetStreamContext) -> None:
    result = await js.publish_batch("a.b", [])
    assert (result.count, result.ok, result.stream, result.seqs.to_pylist()) == (0, True, None, [])


async def test_progress_is_reported_and_its_error_raised(js: JetStreamContext, stream: str) -> None:
    calls: list[tuple[int, int | None]] = []
    await js.publish_batch(f"{stream}.a", [b"x"] * 30_000, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (30_000, 30_000)
    assert all(total == 30_000 for _, total in calls)

    def broken(done: int, total: int | None) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await js.publish_batch(f"{stream}.a", [b"x"] * 200_000, max_inflight=100, progress=broken)


KINDS = [StopIteration, StopAsyncIteration, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("face", ["async", "sync"])
def test_any_exception_of_progress_is_raised(nats_url: str, stream: str, kind: type[BaseException], face: str) -> None:
    def progress(done: int, total: int | None) -> None:
        raise kind("mine")

    async def publish() -> None:
        async with await jetarrow.connect(nats_url) as nc:
            js = nc.jetstream()
            call = js.publish_batch(f"{stream}.a", [b"x"] * 200_000, max_inflight=100, progress=progress)
            try:
                await asyncio.wait_for(call, 20)
            except RuntimeError as error:
                assert (await js.publish(f"{stream}.a", b"still alive")).stream == stream
                raise error

    # A StopIteration in a coroutine becomes a RuntimeError.
    with pytest.raises(RuntimeError if kind is StopIteration else kind) as info:
        if face == "async":
            asyncio.run(publish())
        else:
            with jetarrow.sync.connect(nats_url) as nc:
                rows = [b"x"] * 200_000
                nc.jetstream().publish_batch(f"{stream}.a", rows, max_inflight=100, progress=progress)
    if kind is StopIteration:
        assert "StopIteration" in str(info.value)


async def test_cancelled_publish_batch_leaves_client_usable(js: JetStreamContext, stream: str) -> None:
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    def progress(done: int, total: int | None) -> None:
        loop.call_soon_threadsafe(begun.set)

    call = js.publish_batch(f"{stream}.a", [b"x"] * 200_000, max_inflight=100, progress=progress)
    task = asyncio.ensure_future(call)
    await asyncio.wait_for(begun.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await js.publish(f"{stream}.a", b"still alive")).stream == stream


def test_sync_publish_and_publish_batch_store_messages(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    ack = sync_js.publish(f"{stream}.a", "one")
    assert ack.seq == 1
    result = sync_js.publish_batch(f"{stream}.a", ["x"] * 10, msg_ids=[str(i) for i in range(10)])
    assert result.stored == 10
    with pytest.raises(js_errors.NoStreamResponseError):
        sync_js.publish("nobody.listens", b"")
    with pytest.raises(errors.BadSubjectError):
        sync_js.publish_batch("a b", [b""])


BINARY = [b"zero", b"", "grüße".encode()]
COLUMNS = {
    "binary": pa.array(BINARY, pa.binary()),
    "large_binary": pa.array(BINARY, pa.large_binary()),
    "binary_view": pa.array(BINARY, pa.binary_view()),
    "string": pa.array([b.decode() for b in BINARY], pa.string()),
    "large_string": pa.array([b.decode() for b in BINARY], pa.large_string()),
    "string_view": pa.array([b.decode() for b in BINARY], pa.string_view()),
    "sliced": pa.array([b"before", *BINARY, b"after"], pa.binary()).slice(1, 3),
    "chunked": pa.chunked_array([pa.array(BINARY[:1]), pa.array([], pa.binary()), pa.array(BINARY[1:])]),
    "polars": pl.Series("data", BINARY),
    "polars text": pl.Series("data", [b.decode() for b in BINARY]),
}


@pytest.mark.parametrize("kind", COLUMNS)
async def test_publish_batch_accepts_arrow_columns(js: JetStreamContext, stream: str, kind: str) -> None:
    ids = pa.chunked_array([pa.array(["i0"]), pa.array([None, "i2"], pa.string())])
    result = await js.publish_batch(f"{stream}.a", COLUMNS[kind], msg_ids=ids, headers={"H": "1"})
    result.raise_for_errors()
    found = await rows(js, stream)
    assert [row["data"] for row in found] == BINARY
    assert [dict(row["headers"]).get("Nats-Msg-Id") for row in found] == [["i0"], None, ["i2"]]
    assert all(dict(row["headers"])["H"] == ["1"] for row in found)


async def test_publish_batch_accepts_table_with_all_columns(js: JetStreamContext, stream: str) -> None:
    table = pa.table(
        {
            "subject": [f"{stream}.{i}" for i in range(4)],
            "data": [b"0", b"1", b"2", b"3"],
            "msg_id": ["a", "b", None, "a"],
            "headers": pa.array(
                [[("H", ["1", "2"])], None, [], [("X", ["3"]), ("Y", ["4"])]],
                pa.map_(pa.string(), pa.list_(pa.string())),
            ),
        }
    )
    result = await js.publish_batch(payloads=table.to_reader(max_chunksize=3))
    assert (result.count, result.stored, result.duplicates, result.ok) == (4, 3, 1, True)
    found = await rows(js, stream)
    assert [(row["subject"], row["data"]) for row in found] == [(f"{stream}.{i}", b"%d" % i) for i in range(3)]
    assert found[0]["headers"] == [("H", ["1", "2"]), ("Nats-Msg-Id", ["a"])]
    assert found[2]["headers"] is None
    simple = pa.table({"data": ["x"], "headers": pa.array([[("K", "v")]], pa.map_(pa.string(), pa.string()))})
    assert (await js.publish_batch(f"{stream}.z", simple)).ok
    assert (await rows(js, stream))[-1]["headers"] == [("K", ["v"])]


async def test_invalid_arrow_rows_are_row_errors(nc: Client, js: JetStreamContext, stream: str) -> None:
    limit = nc.max_payload
    result = await js.publish_batch(f"{stream}.a", pa.array([b"0", None, b"2"]))
    assert [(error.row, type(error.error)) for error in result.errors] == [(1, ValueError)]
    assert result.seqs.to_pylist() == [1, None, 2]
    table = pa.table({"data": [b"ok", b"x" * (limit + 1), b"ok"], "subject": [f"{stream}.a", f"{stream}.a", "a b"]})
    result = await js.publish_batch(payloads=table)
    assert [type(error.error) for error in result.errors] == [errors.MaxPayloadError, errors.BadSubjectError]
    with pytest.raises(errors.MaxPayloadError):
        await js.publish_batch(f"{stream}.a", pa.array([b"ok", b"x" * (limit + 1)]))
    with pytest.raises(TypeError, match="Int64"):
        await js.publish_batch(f"{stream}.a", pa.array([1, 2]))
    with pytest.raises(TypeError, match="subject"):
        await js.publish_batch(payloads=pa.array([b"x"]))
    with pytest.raises(TypeError, match="subject"):
        await js.publish_batch(payloads=pa.table({"data": [b"x"]}))
    with pytest.raises(ValueError, match="data"):
        await js.publish_batch(f"{stream}.a", pa.table({"payload": [b"x"]}))
    with pytest.raises(ValueError, match="msg_ids"):
        await js.publish_batch(f"{stream}.a", pa.array([b"x", b"y"]), msg_ids=pa.array(["a"]))
    assert (await js.stream_info(stream)).state.messages == 3
