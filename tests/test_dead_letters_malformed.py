"""Dead letters among messages that are no advisories: those are counted, reported once and skipped."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jetarrow.errors import BadSubjectError
from jetarrow.jetstream.advisory_rows import ADVISORY_SCHEMA, row_of
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import DecodeError, MalformedMessageError

from .raw_publish import raw_publish
from .strategies import TEXTS, bounded
from .tools import until, wait_until

TIME = "2024-05-01T10:00:00.123456789Z"
GOOD = {"stream": "S", "consumer": "c", "stream_seq": 1, "deliveries": 3, "timestamp": "2200-01-01T00:00:00Z"}

# Payloads that are no advisories, by what is wrong with them.
BAD: dict[str, bytes] = {
    "empty payload": b"",
    "empty object": b"{}",
    "null": b"null",
    "list": b"[1]",
    "no JSON": b"\xff{",
    "no sequence": json.dumps({**GOOD, "stream_seq": None}).encode(),
    "no consumer": json.dumps({**GOOD, "consumer": None}).encode(),
    "empty consumer": json.dumps({**GOOD, "consumer": ""}).encode(),
    "no time": json.dumps({name: value for name, value in GOOD.items() if name != "timestamp"}).encode(),
}
for _value in (-1, 0, 1.5, 2**63, 2**64, 10**30, "1", True, [1], {"a": 1}):
    BAD[f"stream_seq {_value!r}"] = json.dumps({**GOOD, "stream_seq": _value}).encode()
for _value in ("", "x", "2024", "2024-13-01T00:00:00Z", "2024-05-01T10:00:00", 5, "9999-12-31T23:59:59Z"):
    BAD[f"timestamp {_value!r}"] = json.dumps({**GOOD, "timestamp": _value}).encode()
for _value in ("0001-01-01T00:00:00+23:59", "-001-01-01T00:00:00Z", "2024-05-01T10:00:00+99:99"):
    BAD[f"timestamp {_value!r}"] = json.dumps({**GOOD, "timestamp": _value}).encode()
for _value in (-1, 2**63, "3", 1.5):
    BAD[f"deliveries {_value!r}"] = json.dumps({**GOOD, "deliveries": _value}).encode()
for _value in (5, ["c"], {}):
    BAD[f"consumer {_value!r}"] = json.dumps({**GOOD, "consumer": _value}).encode()


@pytest.fixture
def kept(sync_js: jetarrow.sync.JetStream, stream: str) -> Iterator[str]:
    """A stream with one message whose dead letters are kept."""
    sync_js.publish(f"{stream}.a", b"first")
    sync_js.keep_dead_letters(stream)
    yield stream
    sync_js.delete_stream(f"{stream}_DEAD_LETTERS")


def subject(stream: str, kind: str = "MSG_TERMINATED") -> str:
    return f"$JS.EVENT.ADVISORY.CONSUMER.{kind}.{stream}.c"


@pytest.mark.parametrize("payload", BAD.values(), ids=BAD)
async def test_payload_that_is_no_advisory_is_counted_and_skipped(nats_url: str, kept: str, payload: bytes) -> None:
    told: list[Exception] = []

    async def take(error: Exception) -> None:
        told.append(error)

    async with await jetarrow.connect(nats_url, error_cb=take) as nc:
        js = nc.jetstream()
        await js.publish(subject(kept), json.dumps(GOOD).encode())
        for _ in range(2):
            await js.publish(subject(kept), payload)
        await js.publish(subject(kept, "MAX_DELIVERIES"), json.dumps({**GOOD, "consumer": "d"}).encode())
        letters = js.dead_letters(kept)
        assert letters.malformed == 0
        for _ in range(2):
            table = await letters.read_all()
            assert [(row["consumer"], row["kind"], row["data"]) for row in table.to_pylist()] == [
                ("c", "terminated", b"first"),
                ("d", "max_deliver", b"first"),
            ]
            assert letters.malformed == 2
        await until(lambda: told)
        (error,) = told
        assert isinstance(error, DecodeError)
        assert error.seq == 2
        assert f"skipped 2 of 4 messages of stream '{kept}_DEAD_LETTERS'" in str(error)
        assert (await letters.replay(subject=f"{kept}.again")).stored == 1


async def test_subject_of_another_kind_is_counted_and_skipped(js: JetStreamContext, kept: str) -> None:
    """The subjects of the stream can be changed, and messages can come from a source."""
    name = f"{kept}_DEAD_LETTERS"
    await js.update_stream(name, subjects=[subject(kept), f"{kept}-x", f"{kept}-y.>"])
    for each in (f"{kept}-x", f"{kept}-y.a.b.c.d.e", subject(kept)):
        await js.publish(each, json.dumps(GOOD).encode())
    letters = js.dead_letters(kept)
    assert (await letters.read_all()).num_rows == 1
    assert letters.malformed == 2


def test_blocking_face_counts_them_and_reports_once(nats_url: str, kept: str) -> None:
    told: list[Exception] = []
    with jetarrow.sync.connect(nats_url, error_cb=told.append) as nc:
        js = nc.jetstream()
        for payload in (b"{}", json.dumps(GOOD).encode(), b"{}"):
            js.publish(subject(kept), payload)
        letters = js.dead_letters(kept)
        assert letters.malformed == 0
        assert (letters.read_all().num_rows, letters.malformed) == (1, 2)
        wait_until(lambda: told)
        assert [type(error) for error in told] == [DecodeError]
        assert letters.replay(subject=f"{kept}.again").stored == 1


def test_without_error_cb_they_are_logged(
    sync_js: jetarrow.sync.JetStream, kept: str, caplog: pytest.LogCaptureFixture
) -> None:
    sync_js.publish(subject(kept), b"{}")
    assert sync_js.dead_letters(kept).read_all().num_rows == 0
    wait_until(lambda: "skipped 1 of 1 messages" in caplog.text)


def test_replay_needs_no_pandas(sync_js: jetarrow.sync.JetStream, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sync_js.publish(subject(kept), json.dumps({**GOOD, "timestamp": "2200-01-01T00:00:00.123456789Z"}).encode())
    letters = sync_js.dead_letters(kept)
    letters.read_all()
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert letters.replay(subject=f"{kept}.again").stored == 1


def test_rows_without_deliveries_and_reason_are_rows(sync_js: jetarrow.sync.JetStream, kept: str) -> None:
    few = {"consumer": "c", "stream_seq": 7, "timestamp": "2024-05-01T10:00:00.5+02:00"}
    sync_js.publish(subject(kept), json.dumps(few).encode())
    letters = sync_js.dead_letters(kept)
    (row,) = letters.read_all().to_pylist()
    assert (row["deliveries"], row["reason"], row["seq"], row["data"]) == (None, None, 7, None)
    assert row["died"].isoformat().startswith("2024-05-01T08:00:00.5")
    assert letters.malformed == 0


def given_up(js: jetarrow.sync.JetStream, stream: str) -> jetarrow.sync.DeadLetters:
    """Dead letters of all messages of a stream."""
    count = js.stream_info(stream).state.messages
    for msg in js.pull_subscribe(f"{stream}.>", durable="d").fetch(count):
        msg.term()
    wait_until(lambda: js.stream_info(f"{stream}_DEAD_LETTERS").state.messages == count)
    return js.dead_letters(stream)


def test_replay_leaves_out_headers_that_cannot_be_sent_and_reports_it(nats_url: str, kept: str) -> None:
    raw_publish(nats_url, f"{kept}.b", b"second", {"sp ace": "x", "Good": "y", "": "z"})
    told: list[Exception] = []
    with jetarrow.sync.connect(nats_url, error_cb=told.append) as nc:
        js = nc.jetstream()
        letters = given_up(js, kept)
        table = letters.read_all()
        assert dict(table["headers"][1].as_py())["sp ace"] == ["x"]
        assert letters.replay(subject=f"{kept}.again").stored == 2
        again = js.get_last_msg(kept, f"{kept}.again")
        assert again.headers_all is not None
        assert {name: values for name, values in again.headers_all.items() if name != "Nats-Msg-Id"} == {"Good": ["y"]}
        wait_until(lambda: any("sp ace" in str(error) for error in told))
        (error,) = [error for error in told if "replayed 1 messages" in str(error)]
        assert isinstance(error, MalformedMessageError)
        assert (error.stream, error.seq, error.subject) == (kept, 2, f"{kept}.b")


def test_replay_to_a_subject_that_nobody_may_publish_to_is_refused(
    sync_js: jetarrow.sync.JetStream, nats_url: str, kept: str
) -> None:
    raw_publish(nats_url, f"{kept}.*", b"second")
    letters = given_up(sync_js, kept)
    with pytest.raises(BadSubjectError, match=r"could not replay sequence 2 of .*, and nothing was sent.* subject="):
        letters.replay()
    assert sync_js.stream_info(kept).state.messages == 2
    assert letters.replay([0]).stored == 1
    assert letters.replay(subject=f"{kept}.again").count == 2


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.sampled_from([TIME, 1, "c"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=3,
)
ADVISORIES = st.fixed_dictionaries(
    {},
    optional={
        "consumer": st.just("c") | ANYTHING,
        "stream_seq": st.integers(-2, 3) | ANYTHING,
        "deliveries": st.just(1) | ANYTHING,
        "reason": TEXTS | ANYTHING,
        "timestamp": st.just(TIME) | st.datetimes().map(lambda time: time.isoformat() + "Z") | TEXTS | ANYTHING,
    },
)
PAYLOADS = ADVISORIES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=10)


def test_payloads_of_any_kind_are_rows_or_counted(sync_js: jetarrow.sync.JetStream, kept: str) -> None:
    seen: list[int] = []

    @bounded(120)
    @given(st.lists(PAYLOADS, min_size=1, max_size=12))
    @example([json.dumps(GOOD).encode(), b"{"])
    def run(payloads: list[bytes]) -> None:
        sync_js.purge_stream(f"{kept}_DEAD_LETTERS")
        sync_js.publish_batch(subject(kept), payloads).raise_for_errors()
        letters = sync_js.dead_letters(kept)
        rows = letters.read_all().to_pylist()
        assert len(rows) + letters.malformed == len(payloads)
        assert all(row["seq"] >= 1 and row["consumer"] and row["died"] is not None for row in rows)
        seen.append(len(rows))

    run()
    assert any(seen), "no example had an advisory that is one"


@bounded(500)
@given(
    st.sampled_from(["$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.c", "", "a.b", "....."]) | TEXTS,
    st.none()
    | st.fixed_dictionaries(
        {
            "consumer": st.none() | TEXTS,
            "stream_seq": st.none() | st.integers(-(2**63), 2**63 - 1),
            "deliveries": st.none() | st.integers(-(2**63), 2**63 - 1),
            "reason": st.none() | TEXTS,
            "timestamp": st.none() | TEXTS | st.just(TIME) | st.datetimes().map(lambda time: time.isoformat() + "Z"),
        }
    ),
    st.none() | TEXTS,
)
def test_row_of_any_decoded_value_is_a_row_or_a_value_error(name: str, value: Any, error: str | None) -> None:
    try:
        row = row_of("S", name, value, error)
    except ValueError:
        return
    assert value is not None
    assert error is None
    assert (row["seq"], row["consumer"]) == (value["stream_seq"], value["consumer"])
    assert row["seq"] >= 1
    assert -(2**63) <= row["died"] < 2**63
    assert set(row) == {"kind", "died", "stream", "seq"} | set(ADVISORY_SCHEMA) - {"stream_seq", "timestamp"}
