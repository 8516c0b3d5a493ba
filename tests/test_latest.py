"""The last message of each subject, at opening or at a point in the past, despite concurrent changes."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .test_read_malformed import MALFORMED, publish_raw, wait_stored
from .tools import fill_subjects, no_consumer_stays, wait_until

State = dict[str, tuple[int, bytes]]
COLUMNS = ["seq", "subject", "data"]


def state(table: pa.Table) -> State:
    """Returns each subject's row, and checks that subjects are unique and sequences ascend."""
    seqs, subjects = table["seq"].to_pylist(), table["subject"].to_pylist()
    assert seqs == sorted(set(seqs))
    assert len(set(subjects)) == len(subjects)
    return dict(zip(subjects, zip(seqs, table["data"].to_pylist(), strict=True), strict=True))


async def kept(js: JetStreamContext, stream: str, end: int) -> State:
    """Returns the state before sequence `end`, computed from all messages."""
    table = await js.read(stream, end_seq=end, columns=COLUMNS).read_all()
    rows = zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)
    return {subject: (seq, data) for seq, subject, data in rows}


@contextmanager
def written(url: str, stream: str, subjects: list[str]) -> Iterator[Callable[[], int]]:
    """Publishes to all subjects in rounds in a thread; yields a function that returns the number of rounds."""
    stop, rounds = threading.Event(), [0]

    def write() -> None:
        with jetarrow.sync.connect(url) as nc:
            mine = nc.jetstream()
            while not stop.is_set():
                rounds[0] += 1
                mine.publish_batch(subjects, [b"%d" % rounds[0]] * len(subjects)).raise_for_errors()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield lambda: rounds[0]
    finally:
        stop.set()
        thread.join()


async def test_the_last_of_each_subject(js: JetStreamContext, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    await fill_subjects(js, stream, ["a", "b", "a", "c.x", "b", "d"])
    reader = js.latest(stream)
    table = await reader.read_all()
    assert table.schema.names == ["stream", "seq", "subject", "timestamp", "headers", "data"]
    rows = {"a": (3, b"3"), "c.x": (4, b"4"), "b": (5, b"5"), "d": (6, b"6")}
    expected = {f"{stream}.{token}": row for token, row in rows.items()}
    assert state(table) == expected
    assert reader.position == 7
    assert state(sync_js.latest(stream).read_all()) == expected
    assert pa.table(sync_js.latest(stream, columns=["seq"]))["seq"].to_pylist() == [3, 4, 5, 6]
    assert list(state(await js.latest(stream, f"{stream}.*").read_all())) == [f"{stream}.{t}" for t in "abd"]
    assert list(state(await js.latest(stream, [f"{stream}.c.>", f"{stream}.a"]).read_all())) == [
        f"{stream}.a",
        f"{stream}.c.x",
    ]
    assert (await js.latest(stream, limit=2, columns=["seq"]).read_all())["seq"].to_pylist() == [3, 4]
    assert (await js.latest(stream, f"{stream}.nothing").read_all()).num_rows == 0
    batches = [len(batch) async for batch in js.latest(stream, batch_rows=3)]
    assert batches == [3, 1]


async def test_read_from_the_position_follows_later_changes(js: JetStreamContext, stream: str) -> None:
    await fill_subjects(js, stream, ["a", "b", "a"])
    reader = js.latest(stream, columns=COLUMNS)
    await reader.read_all()
    await js.publish(f"{stream}.b", b"4")
    async with js.read(stream, start_seq=reader.position, follow=True) as changes:
        assert (await anext(aiter(changes))).seqs.to_pylist() == [4]


async def test_an_empty_stream(js: JetStreamContext, stream: str) -> None:
    assert (await js.latest(stream).read_all()).num_rows == 0
    assert (await js.latest(stream, as_of_seq=5).read_all()).num_rows == 0
    await js.publish(f"{stream}.a", b"1")
    await js.purge_stream(stream)
    reader = js.latest(stream)
    assert (await reader.read_all()).num_rows == 0
    assert reader.position == 2
    with pytest.raises(js_errors.NotFoundError, match="NoSuch"):
        await js.latest("NoSuch").read_all()


async def test_latest_decodes_values_with_a_schema(js: JetStreamContext, stream: str) -> None:
    for number in range(6):
        await js.publish(f"{stream}.{number % 3}", json.dumps({"id": number}) if number != 4 else "no JSON")
    table = await js.latest(stream, schema="id BIGINT", flatten=True, columns=["seq", "value"]).read_all()
    assert table.select(["seq", "id"]).to_pydict() == {"seq": [4, 5, 6], "id": [3, None, 5]}
    assert table["_corrupt_record"].to_pylist() == [None, "no JSON", None]
    dropped = await js.latest(stream, schema={"id": int}, mode="DROPMALFORMED").read_all()
    assert dropped["seq"].to_pylist() == [4, 6]
    with pytest.raises(js_errors.DecodeError):
        await js.latest(stream, schema="id BIGINT", mode="FAILFAST").read_all()


async def test_markers(js: JetStreamContext, stream: str) -> None:
    await fill_subjects(js, stream, "abcd")
    await js.publish(f"{stream}.a", b"", headers={"KV-Operation": "DEL"})
    await js.publish(f"{stream}.b", b"", headers={"KV-Operation": "PURGE"})
    await js.publish(f"{stream}.c", b"", headers={"Nats-Marker-Reason": "MaxAge"})
    await js.publish(f"{stream}.d", b"new", headers={"KV-Operation": "PUT"})
    assert (await js.latest(stream).read_all())["seq"].to_pylist() == [8]
    assert (await js.latest(stream, deleted=True).read_all())["seq"].to_pylist() == [5, 6, 7, 8]
    # At sequence 5 only the first subject was deleted.
    assert (await js.latest(stream, as_of_seq=5).read_all())["seq"].to_pylist() == [2, 3, 4]


async def test_invalid_arguments_raise_value_error(js: JetStreamContext, stream: str) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("not both", {"as_of_seq": 1, "as_of_time": "1h"}),
        ("as_of_seq must be 0 or more", {"as_of_seq": -1}),
        ("limit must be 1 or more", {"limit": 0}),
        ("at least 1", {"batch_rows": 0}),
        ("mode", {"mode": "SOMETIMES", "schema": "id BIGINT"}),
    ]
    for message, options in wrong:
        with pytest.raises(ValueError, match=message):
            await js.latest(stream, **options).read_all()


async def test_as_of_every_sequence(js: JetStreamContext, stream: str) -> None:
    """The state at every sequence equals a model, with deleted messages, with and without filters."""
    chance = random.Random(14)
    await fill_subjects(js, stream, (chance.choice(["a", "b", "c.x", "c.y", "d"]) for _ in range(40)))
    for seq in chance.sample(range(1, 40), 8):
        await js.delete_msg(stream, seq)
    for as_of in range(1, 45):
        expected = await kept(js, stream, as_of + 1)
        reader = js.latest(stream, columns=COLUMNS, as_of_seq=as_of)
        first = (await js.stream_info(stream)).state.first_seq
        if first > 1 and as_of < first:
            with pytest.raises(js_errors.DataLossError):
                await reader.read_all()
            continue
        assert state(await reader.read_all()) == expected
        assert reader.position == min(as_of, 40) + 1
        filters = [f"{stream}.c.*", f"{stream}.a"]
        wanted = {subject: row for subject, row in expected.items() if subject.split(".")[1] in "ac"}
        assert state(await js.latest(stream, filters, columns=COLUMNS, as_of_seq=as_of).read_all()) == wanted


async def test_as_of_times(js: JetStreamContext, stream: str) -> None:
    await fill_subjects(js, stream, "ababc")
    table = await js.read(stream, columns=["seq", "timestamp"]).read_all()
    for seq, stamp in zip(table["seq"].to_pylist(), table["timestamp"].cast(pa.int64()).to_pylist(), strict=True):
        time = pa.scalar(stamp, pa.timestamp("ns")).as_py().isoformat() + "Z"
        found = state(await js.latest(stream, columns=COLUMNS, as_of_time=time).read_all())
        assert found == await kept(js, stream, seq)
    assert (await js.latest(stream, as_of_time="1h").read_all()).num_rows == 0
    assert (await js.latest(stream, as_of_time="0s").read_all()).num_rows == 3


async def test_purged_past_raises_data_loss_error(js: JetStreamContext, stream: str) -> None:
    await fill_subjects(js, stream, "ababab")
    await js.purge_stream(stream, seq=4)
    for options in ({"as_of_seq": 3}, {"as_of_time": "1h"}):
        with pytest.raises(js_errors.DataLossError, match="4"):
            await js.latest(stream, **options).read_all()  # type: ignore[arg-type]
    assert state(await js.latest(stream, columns=COLUMNS, as_of_seq=4).read_all()) == {f"{stream}.b": (4, b"4")}
    assert (await js.latest(stream, as_of_seq=0).read_all()).num_rows == 0


async def test_many_subjects_in_the_past(js: JetStreamContext, stream: str) -> None:
    subjects = [f"{stream}.{number}" for number in range(1500)]
    for _ in range(3):
        (await js.publish_batch(subjects, [b"x"] * 1500)).raise_for_errors()
    for as_of in (1024, 1025, 1500, 2000, 4400):
        table = await js.latest(stream, columns=COLUMNS, as_of_seq=as_of, batch_rows=100).read_all()
        assert state(table) == await kept(js, stream, as_of + 1)


async def test_while_others_write(nats_url: str, js: JetStreamContext, stream: str) -> None:
    """With all history kept, the result is exactly the state of every subject at opening."""
    subjects = [f"{stream}.{number}" for number in range(2000)]
    positions = []
    with written(nats_url, stream, subjects) as rounds:
        for number in range(6):
            # Waits for a whole round since the last read, which may have contained the round in progress.
            begun = rounds()
            wait_until(lambda begun=begun: rounds() > begun + 1)
            reader = js.latest(stream, columns=COLUMNS, batch_rows=500)
            found = state(await reader.read_all())
            assert reader.position is not None
            positions.append(reader.position)
            if number % 3 == 0:
                assert found == await kept(js, stream, reader.position)
            assert set(found) == set(subjects)
            assert all(seq < reader.position for seq, _ in found.values())
    assert len(set(positions)) == 6


async def test_while_values_are_overwritten(nats_url: str, js: JetStreamContext, stream: str) -> None:
    """With one message per subject, each subject is read once; an overwritten message is read as its successor."""
    await js.update_stream((await js.stream_info(stream)).config.evolve(max_msgs_per_subject=1))
    subjects = [f"{stream}.{number}" for number in range(3000)]
    replaced = 0
    with written(nats_url, stream, subjects) as rounds:
        wait_until(lambda: rounds() > 1)
        # The number of writes during a read depends on the machine.
        for number in range(200):
            if number >= 8 and replaced:
                break
            reader = js.latest(stream, columns=COLUMNS, batch_rows=500)
            found = state(await reader.read_all())
            assert set(found) == set(subjects)
            assert reader.position is not None
            replaced += sum(seq >= reader.position for seq, _ in found.values())
    assert replaced, "nothing was overwritten while it was read: the test saw nothing"


async def test_messages_deleted_during_a_read_are_left_out(js: JetStreamContext, stream: str) -> None:
    subjects = [f"{stream}.{number}" for number in range(20_000)]
    (await js.publish_batch(subjects, [b"x" * 100] * 20_000)).raise_for_errors()
    async with js.latest(stream, columns=["seq"], batch_rows=100, fetch_bytes=1000) as reader:
        await anext(aiter(reader))
        await js.purge_stream(stream)
        await js.publish(f"{stream}.new", b"new")
        rest = (await reader.read_all())["seq"].to_pylist()
    # Delivery waits for the reader: most messages were not in flight yet.
    assert len(rest) < 15_000
    assert rest == sorted(rest)


@pytest.mark.parametrize("written_meanwhile", [False, True], ids=["quiet", "written to"])
async def test_over_restarts(own_server: NatsServer, written_meanwhile: bool) -> None:
    count = 20_000
    subjects = [f"S.{number}" for number in range(count)]
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["S.>"])
        for value in (b"old" * 30, b"new" * 30):
            (await js.publish_batch(subjects, [value] * count)).raise_for_errors()
        batches: list[pa.RecordBatch] = []
        async with js.latest("S", columns=COLUMNS, batch_rows=1000, fetch_bytes=1) as reader:
            async for batch in reader:
                batches.append(batch.to_pyarrow())
                if len(batches) in (3, 9):
                    await asyncio.to_thread(own_server.kill)
                    await asyncio.to_thread(own_server.start)
                    if written_meanwhile:
                        await js.publish("S.new", b"x")
                        (await js.publish_batch(subjects[::2], [b"newer"] * (count // 2))).raise_for_errors()
        assert state(pa.Table.from_batches(batches)) == await kept(js, "S", 2 * count + 1)
        assert nc.stats["reconnects"] == 2


async def test_read_continues_after_its_consumer_is_deleted(js: JetStreamContext, stream: str) -> None:
    count = 20_000
    subjects = [f"{stream}.{number}" for number in range(count)]
    (await js.publish_batch(subjects * 2, [b"x" * 100] * (2 * count))).raise_for_errors()
    batches: list[pa.RecordBatch] = []
    async with js.latest(stream, columns=COLUMNS, batch_rows=1000, fetch_bytes=1) as reader:
        async for batch in reader:
            batches.append(batch.to_pyarrow())
            if len(batches) == 3:
                for name in [name async for name in js.stream(stream).consumer_names()]:
                    await js.delete_consumer(stream, name)
    assert state(pa.Table.from_batches(batches)) == await kept(js, stream, 2 * count + 1)


@pytest.mark.parametrize("as_of", [None, 7])
@pytest.mark.parametrize("kind", ["latin-1", "version"])
async def test_malformed_headers(
    nats_url: str, js: JetStreamContext, stream: str, kind: str, as_of: int | None
) -> None:
    """A message that breaks the connection on every delivery is handled, as a subject's last one and before it."""
    await fill_subjects(js, stream, "abc")
    broken = [(MALFORMED[kind][0], b"malformed")]
    publish_raw(nats_url, f"{stream}.b", broken)
    publish_raw(nats_url, f"{stream}.c", broken)
    await wait_stored(js, stream, 5)
    await fill_subjects(js, stream, "ca" if as_of is None else "cab")

    async def quiet(_: Exception) -> None:
        pass

    async with await jetarrow.connect(nats_url, error_cb=quiet, reconnect_time_wait=0.05) as nc:
        reader = nc.jetstream().latest(stream, columns=COLUMNS, as_of_seq=as_of)
        found = state(await asyncio.wait_for(reader.read_all(), 30))
    assert found == {f"{stream}.b": (4, b"malformed"), f"{stream}.c": (6, b"1"), f"{stream}.a": (7, b"2")}


async def test_no_consumer_is_left(js: JetStreamContext, stream: str) -> None:
    await fill_subjects(js, stream, "abcabc")
    await js.latest(stream).read_all()
    await js.latest(stream, as_of_seq=4).read_all()
    await no_consumer_stays(js, stream)
    async with js.latest(stream, batch_rows=1) as reader:
        await anext(aiter(reader))
    assert [name async for name in js.stream(stream).consumer_names()] == []


async def test_all_comes_from_one_consumer(nc: jetarrow.Client, js: JetStreamContext, stream: str) -> None:
    await js.publish_batch([f"{stream}.{number}" for number in range(3_000)], [b"x" * 100] * 3_000)
    made = await nc.subscribe(f"$JS.API.CONSUMER.CREATE.{stream}.>")
    for _ in range(3):
        assert (await js.latest(stream).read_all()).num_rows == 3_000
    # "Batch Completed" overtakes the last messages of its batch: none was left out.
    await nc.flush()
    assert made.pending_msgs == 3


async def test_work_queue_raises_value_error(own: JetStreamContext) -> None:
    await own.add_stream(name="W", subjects=["w.>"], retention="workqueue")
    with pytest.raises(ValueError, match="last message of each subject"):
        await own.latest("W").read_all()
