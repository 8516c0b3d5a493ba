"""Features of newer servers: time to live, roll-up, schedules, counters; and expectations per row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.jetstream.publish_headers import PublishExtras
from jetarrow.js.api import ErrorCode, Header
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BadRequestError

from .tools import until


@pytest.fixture
async def rich(js: JetStreamContext, stream: str) -> str:
    """A stream that allows all extras."""
    await js.update_stream(stream, allow_msg_ttl=True, allow_rollup_hdrs=True, allow_msg_schedules=True)
    return stream


async def headers(js: JetStreamContext, stream: str, seq: int) -> dict[str, str]:
    return (await js.get_msg(stream, seq)).headers or {}


@pytest.mark.parametrize(("ttl", "sent"), [("never", "never"), (90, "90"), (timedelta(minutes=2), "120"), (1.5, "1")])
async def test_msg_ttl_expires_message(js: JetStreamContext, rich: str, ttl: Any, sent: str) -> None:
    ack = await js.publish(f"{rich}.a", b"x", msg_ttl=ttl)
    assert await headers(js, rich, ack.seq) == {"Nats-TTL": sent}
    future = await js.publish_async(f"{rich}.a", b"x", msg_ttl=ttl)
    assert await headers(js, rich, (await future).seq) == {"Nats-TTL": sent}


@pytest.mark.parametrize("ttl", ["1h", 0, float("nan"), float("inf"), timedelta(0)])
async def test_invalid_msg_ttl_is_rejected(js: JetStreamContext, rich: str, ttl: Any) -> None:
    with pytest.raises(ValueError, match="msg_ttl"):
        await js.publish(f"{rich}.a", b"x", msg_ttl=ttl)
    with pytest.raises(ValueError, match="msg_ttl"):
        await js.publish_batch(f"{rich}.a", [b"x"], msg_ttl=ttl)


async def test_msg_ttl_never_overrides_max_age(js: JetStreamContext, stream: str) -> None:
    await js.update_stream(stream, allow_msg_ttl=True, max_age=1, duplicate_window=1)
    await js.publish(f"{stream}.a", b"goes")
    await js.publish(f"{stream}.a", b"stays", msg_ttl="never")

    async def gone() -> bool:
        return (await js.stream_info(stream)).state.first_seq == 2

    await until(gone)
    assert (await js.get_msg(stream, 2)).data == b"stays"


async def test_rollup_replaces_earlier_messages(js: JetStreamContext, rich: str) -> None:
    for token in "aab":
        await js.publish(f"{rich}.{token}", b"old")
    await js.publish(f"{rich}.a", b"all of a", rollup="sub")
    state = (await js.stream_info(rich, subjects_filter=">")).state
    assert state.subjects == {f"{rich}.a": 1, f"{rich}.b": 1}
    await js.publish(f"{rich}.c", b"all there is", rollup="all")
    assert (await js.stream_info(rich)).state.messages == 1


async def test_expected_last_sequence_of_other_subject_is_checked(js: JetStreamContext, rich: str) -> None:
    await js.publish(f"{rich}.orders.1", b"x")
    await js.publish(
        f"{rich}.orders.2", b"x", expected_last_subject_seq=1, expected_last_subject_seq_subject=f"{rich}.orders.*"
    )
    with pytest.raises(BadRequestError) as info:
        await js.publish(
            f"{rich}.orders.3", b"x", expected_last_subject_seq=1, expected_last_subject_seq_subject=f"{rich}.orders.*"
        )
    assert info.value.err_code == ErrorCode.STREAM_WRONG_LAST_SEQUENCE


async def test_scheduled_message_is_published_once(js: JetStreamContext, rich: str) -> None:
    later = datetime.now(UTC) + timedelta(seconds=1)
    sub = await js.subscribe(f"{rich}.target")
    await js.publish(
        f"{rich}.schedule",
        b"later",
        schedule=later,
        schedule_target=f"{rich}.target",
        schedule_ttl=60,
        headers={"A": "1"},
    )
    msg = await sub.next_msg(10)
    assert msg.data == b"later"
    assert msg.published is not None
    assert msg.published >= later - timedelta(milliseconds=50)
    said = msg.headers or {}
    assert (said["A"], said[Header.MSG_TTL], said[Header.SCHEDULER]) == ("1", "60", f"{rich}.schedule")
    # The schedule ends with this message.
    with pytest.raises(Exception, match="no message found"):
        await js.get_last_msg(rich, f"{rich}.schedule")


async def test_scheduled_message_is_published_repeatedly(js: JetStreamContext, rich: str) -> None:
    sub = await js.subscribe(f"{rich}.every")
    await js.publish(f"{rich}.schedule", b"tick", schedule=timedelta(seconds=1), schedule_target=f"{rich}.every")
    assert [(await sub.next_msg(10)).data for _ in range(2)] == [b"tick"] * 2
    # A purge of its subject ends the schedule; the next one is a cron line.
    assert (await js.purge_stream(rich, subject=f"{rich}.schedule")).purged == 1
    ack = await js.publish(
        f"{rich}.schedule",
        schedule="0 30 14 * * *",
        schedule_time_zone="Europe/Berlin",
        schedule_rollup="sub",
        schedule_target=f"{rich}.every",
    )
    stored = await headers(js, rich, ack.seq)
    assert (stored[Header.SCHEDULE], stored[Header.SCHEDULE_TIME_ZONE]) == ("0 30 14 * * *", "Europe/Berlin")


async def test_schedule_publishes_last_message_of_source(js: JetStreamContext, rich: str) -> None:
    await js.publish(f"{rich}.sensor", b"21 degrees")
    sub = await js.subscribe(f"{rich}.sampled")
    await js.publish(
        f"{rich}.schedule",
        schedule="@every 1s",
        schedule_source=f"{rich}.sensor",
        schedule_target=f"{rich}.sampled",
    )
    assert (await sub.next_msg(10)).data == b"21 degrees"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"rollup": "subject"}, "rollup must be"),
        ({"schedule_target": "a"}, "schedule is missing"),
        ({"schedule": timedelta(milliseconds=1)}, "at least 1 second"),
        ({"schedule": "@hourly", "schedule_target": "a", "schedule_ttl": 0}, "schedule_ttl"),
    ],
)
async def test_invalid_extras_are_rejected(
    js: JetStreamContext, stream: str, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        await js.publish(f"{stream}.a", **options)
    assert (await js.stream_info(stream)).state.messages == 0


async def test_unknown_extras_raise_type_error(js: JetStreamContext, stream: str) -> None:
    for name in PublishExtras.__annotations__:
        given: dict[str, Any] = {name: None}
        await js.publish(f"{stream}.a", **given)
    for verb in (js.publish, js.publish_async):
        call: Any = verb
        with pytest.raises(TypeError, match="no option 'schedul'"):
            await call(f"{stream}.a", schedul="@hourly")


async def test_schedule_without_allow_msg_schedules_is_rejected(js: JetStreamContext, stream: str) -> None:
    with pytest.raises(BadRequestError) as info:
        await js.publish(f"{stream}.a", schedule="@hourly", schedule_target=f"{stream}.b")
    assert info.value.err_code == ErrorCode.MESSAGE_SCHEDULES_DISABLED


async def test_increment_returns_counter_value(own: JetStreamContext) -> None:
    await own.add_stream(name="C", subjects=["c.>"], allow_msg_counter=True, allow_direct=True)
    assert [await own.increment("c.a"), await own.increment("c.a", 10), await own.increment("c.a", by=-4)] == [1, 11, 7]
    assert [await own.counter("C", "c.a"), await own.stream("C").counter("c.b")] == [7, 0]
    assert await own.increment("c.big", 2**70) == 2**70
    ack = await own.publish("c.a", headers={"Nats-Incr": "1"})
    assert ack.val == "8"
    # Messages with the same id are counted once.
    assert [await own.increment("c.d", msg_id="x") for _ in range(3)] == [1, 1, 1]
    await own.add_stream(name="P", subjects=["p"])
    with pytest.raises(BadRequestError) as info:
        await own.increment("p")
    assert info.value.err_code == ErrorCode.MESSAGE_INCR_DISABLED
    await own.publish("p", b"text")
    with pytest.raises(ValueError, match="not one of a counter"):
        await own.counter("P", "p")


def test_sync_increment_returns_counter_value(own_sync: jetarrow.sync.JetStream) -> None:
    own_sync.add_stream(name="C", subjects=["c.>"], allow_msg_counter=True)
    assert (own_sync.increment("c.a", 5), own_sync.counter("C", "c.a")) == (5, 5)
    assert own_sync.stream("C").counter("c.a") == 5


KINDS = {"list": list, "pyarrow": pa.array, "tuple": tuple}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("payloads", [[b"1", b"2", b"3", b"4"], pa.array([b"1", b"2", b"3", b"4"])])
async def test_expectations_per_row_are_checked(js: JetStreamContext, rich: str, kind: str, payloads: Any) -> None:
    await js.publish(f"{rich}.b", b"0")
    subjects = [f"{rich}.{token}" for token in "abac"]
    result = await js.publish_batch(
        subjects,
        payloads,
        expected_last_subject_seq=KINDS[kind]([0, 7, None, 0]),
        msg_ttl=KINDS[kind]([None, 5, 60, None]),
        max_inflight=1,
    )
    assert result.seqs.to_pylist() == [2, None, 3, 4]
    (failed,) = result.errors
    assert (failed.row, failed.error.err_code) == (1, ErrorCode.STREAM_WRONG_LAST_SEQUENCE)
    expected = Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value
    found = [await headers(js, rich, seq) for seq in (2, 3, 4)]
    assert found == [{expected: "0"}, {"Nats-TTL": "60"}, {expected: "0"}]


async def test_single_expectation_applies_to_all_rows(js: JetStreamContext, rich: str) -> None:
    result = await js.publish_batch(
        f"{rich}.a", [b"1", b"2"], expected_last_subject_seq=0, msg_ttl="never", max_inflight=1
    )
    assert [row.row for row in result.errors] == [1]
    assert (await headers(js, rich, 1))["Nats-TTL"] == "never"
    ids = ["x", "y"]
    result = await js.publish_batch(
        f"{rich}.b", [b"1", b"2"], msg_ids=ids, expected_last_msg_id=[None, "x"], max_inflight=1
    )
    result.raise_for_errors()


async def test_expectations_keep_other_headers(js: JetStreamContext, rich: str) -> None:
    kind = pa.map_(pa.string(), pa.list_(pa.string()))
    table = pa.table(
        {
            "data": [b"x", b"y"],
            "subject": [f"{rich}.a", f"{rich}.b"],
            "headers": pa.array([[("H", ["1", "2"])], None], kind),
        }
    )
    (await js.publish_batch(None, table, msg_ttl=[5, 6], headers=[None, {"Z": "9"}])).raise_for_errors()
    assert (await js.get_msg(rich, 1)).headers_all == {"H": ["1", "2"], "Nats-TTL": ["5"]}
    assert (await js.get_msg(rich, 2)).headers_all == {"Z": ["9"], "Nats-TTL": ["6"]}
    # Rows of an Arrow stream have their own headers, and those of the call.
    (await js.publish_batch(None, table.to_reader(max_chunksize=1), headers={"Z": "9", "H": "3"})).raise_for_errors()
    assert (await js.get_msg(rich, 3)).headers_all == {"H": ["3"], "Z": ["9"]}
    assert (await js.get_msg(rich, 4)).headers_all == {"H": ["3"], "Z": ["9"]}
    chunked = pa.chunked_array([[b"1"], [b"2", b"3"]])
    (await js.publish_batch(f"{rich}.c", chunked, headers=[{"N": "1"}, None, {"N": "3"}])).raise_for_errors()
    assert [(await headers(js, rich, seq)).get("N") for seq in (5, 6, 7)] == ["1", None, "3"]


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({"msg_ttl": [5]}, ValueError, "msg_ttl has 1 entries, payloads has 2"),
        ({"expected_last_seq": object()}, TypeError, "expected_last_seq must be one value"),
        ({"expected_last_seq": [1, 2], "headers": [None]}, ValueError, "headers has 1 entries"),
        ({"msg_ttl": [5, "soon"]}, ValueError, "msg_ttl"),
    ],
)
async def test_expectations_of_wrong_length_are_rejected(
    js: JetStreamContext, rich: str, options: dict[str, Any], kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        await js.publish_batch(f"{rich}.a", [b"1", b"2"], **options)
    assert (await js.stream_info(rich)).state.messages == 0


async def test_expectations_per_row_reject_arrow_stream(js: JetStreamContext, rich: str) -> None:
    rows = pa.RecordBatchReader.from_batches(pa.schema({"data": pa.binary()}), iter(()))
    with pytest.raises(TypeError, match="not an Arrow stream"):
        await js.publish_batch(f"{rich}.a", rows, msg_ttl=[5])
