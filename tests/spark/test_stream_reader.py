"""Offsets, admission and commits of a streaming query, driven as Spark drives them, without its JVM."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import uuid
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from jetarrow.js.errors import DataLossError, NotFoundError, StreamRecreatedError, StreamRolledBackError
from jetarrow.spark.source import history, stream_reader
from jetarrow.spark.source.admission import admit, share
from jetarrow.spark.source.offsets import Entry, Offset
from jetarrow.spark.source.stream_reader import (
    JetStreamStreamReader,
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

if TYPE_CHECKING:
    from .tools import Here, Streams

ALL = ReadAllAvailable()


def through_json(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset restored from JSON text, as Spark stores it."""
    return dict(json.loads(json.dumps(offset)))


def next_of(offset: dict[str, Any]) -> dict[str, int]:
    return {name: entry["next"] for name, entry in offset["streams"].items()}


def run(reader: JetStreamStreamReader, start: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The offsets of a query that goes on until nothing is left, its start first."""
    offsets = [through_json(reader.initialOffset() if start is None else start)]
    while True:
        end = through_json(reader.latestOffset(offsets[-1], reader.getDefaultReadLimit()))
        if json.dumps(end) == json.dumps(offsets[-1]):
            return offsets
        offsets.append(end)
        assert len(offsets) < 200


def rows(here: Here, reader: JetStreamStreamReader, offsets: list[dict[str, Any]]) -> list[list[tuple[str, int]]]:
    """(stream, sequence) of each batch."""
    found = []
    for start, end in pairwise(offsets):
        table = here.batch(reader, start, end)
        found.append(list(zip(table["stream"].to_pylist(), table["seq"].to_pylist(), strict=True)))
    return found


def test_the_text_of_an_offset_is_canonical() -> None:
    one, two = Entry("c", 5, "earliest"), Entry("c", 7)
    offset = Offset({"B": two, "A": two}, start={"B": two, "A": one}, parts={"B": 1, "A": 2})
    text = json.dumps(offset.json())
    assert text == (
        '{"from": {"A": {"created": "c", "initial": "earliest", "next": 5}, "B": {"created": "c", "next": 7}},'
        ' "parts": {"A": 2, "B": 1},'
        ' "streams": {"A": {"created": "c", "next": 7}, "B": {"created": "c", "next": 7}}, "v": 1}'
    )
    assert Offset.of(json.loads(text)) == offset
    assert "from" not in Offset({}, start=None).json()
    for wrong in ({"v": 2}, {"v": 1}, {"offset": 1}, {**offset.json(), "streams": [1]}):
        with pytest.raises(ValueError, match="this checkpoint"):
            Offset.of(wrong)


def test_shares() -> None:
    chance = random.Random(4)
    for _ in range(2000):
        sizes = {str(i): chance.choice([0, 1, 2, 50, 10**6]) for i in range(chance.randint(1, 6))}
        limit = chance.randint(1, 300)
        shares = share(sizes, limit)
        assert list(shares) == list(sizes)
        assert all(0 <= shares[name] <= size for name, size in sizes.items())
        assert sum(shares.values()) == min(limit, sum(sizes.values()))
        if limit >= sum(size > 0 for size in sizes.values()):
            assert all(shares[name] >= 1 for name, size in sizes.items() if size)
        assert shares == share(dict(reversed(sizes.items())), limit)
    assert share({"A": 900, "B": 100}, 100) == {"A": 89, "B": 11}  # one for each, the rest by size
    assert admit({"A": 100, "B": 100}, {"A": 10.0, "B": 30.0}, most_offsets=None, most_bytes=400) == {"A": 10, "B": 10}
    assert admit({"A": 100}, {"A": 10.0}, most_offsets=None, most_bytes=1) == {"A": 1}
    assert admit({"A": 100}, {"A": 10.0}, most_offsets=7, most_bytes=10_000) == {"A": 7}


@pytest.mark.needs_spark("4.2", "limits per micro-batch")
def test_batches_are_exact_and_replayed_exactly(here: Here, streams: Streams) -> None:
    a, b = streams.new(), streams.new()
    streams.publish(a, [b"x"] * 70)
    streams.publish(b, [b"x"] * 30)
    streams.delete_messages(a, [3, 60, 70])
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 20, "minPartitions": 3}
    reader = here.stream(f"{a},{b}", **options)
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    offsets = run(reader)
    assert [sum(next_of(offset).values()) - 2 for offset in offsets] == [0, 20, 40, 60, 80, 100]
    batches = rows(here, reader, offsets)
    assert sorted(row for batch in batches for row in batch) == sorted(
        [(a, seq) for seq in range(1, 71) if seq not in (3, 60, 70)] + [(b, seq) for seq in range(1, 31)]
    )
    # A new process with changed options: logged batches stay the same. `start` is ignored, because Spark requests it
    # anew for batch 0.
    other = here.stream(f"{a},{b}", maxOffsetsPerPartition=1)
    assert rows(here, other, offsets) == batches
    parts = [[(p.stream, p.start, p.end) for p in reader.partitions(*pair)] for pair in pairwise(offsets)]
    again = [[(p.stream, p.start, p.end) for p in other.partitions({}, end)] for end in offsets[1:]]
    assert parts == again
    assert reader.partitions(offsets[2], offsets[2]) == []
    # The query continues at its last offset.
    streams.publish(a, [b"x"] * 5)
    assert rows(here, other, run(other, offsets[-1])) == [[(a, seq) for seq in range(71, 76)]]


def test_latest_is_pinned_by_the_first_batch(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 10)
    reader = here.stream(name)
    first = reader.initialOffset()
    assert (next_of(first), first["from"]) == ({name: 11}, {})
    streams.publish(name, [b"x"] * 5)
    end = reader.latestOffset(first, ALL)
    streams.publish(name, [b"x"] * 100)
    replay = here.stream(name)
    assert next_of(replay.initialOffset()) == {name: 116}
    assert here.batch(replay, replay.initialOffset(), end)["seq"].to_pylist() == [11, 12, 13, 14, 15]
    # A first batch that was logged with no data stays without.
    assert replay.partitions(replay.initialOffset(), first) == []


def test_where_a_query_starts(here: Here, streams: Streams) -> None:
    name, empty = streams.new(), streams.new()
    queue = streams.new(retention="workqueue", allow_direct=True)
    streams.publish(name, [b"x"] * 10)
    streams.publish(queue, [b"x"] * 3)
    streams.purge(name, before=4)

    def start(stream: str, **options: object) -> int:
        return next_of(here.stream(stream, **options).initialOffset())[stream]

    assert (start(name), start(empty), start(queue)) == (11, 1, 1)
    assert start(queue, startingOffsets="latest") == 4
    assert (start(name, startingOffsets="earliest"), start(empty, startingOffsets="earliest")) == (4, 1)
    assert start(name, startingOffsets=f'{{"{name}": 6}}') == 6
    full = streams.new()
    streams.publish(full, [b"x"] * 3)
    assert start(full, startingOffsets=f'{{"{full}": 1}}') == 1
    assert start(name, startingOffsets=f'{{"{name}": -1}}') == 11
    assert start(name, startingTimestamp="0") == 4
    assert start(name, startingTimestamp="2100-01-01Z") == 11
    # Beyond the end: messages before the start are not read.
    reader = here.stream(name, startingOffsets=f'{{"{name}": 13}}')
    assert run(reader) == [reader.initialOffset()]
    streams.publish(name, [b"x"] * 5)
    assert rows(here, reader, run(reader)) == [[(name, 13), (name, 14), (name, 15)]]
    # A purged start is data loss.
    reader = here.stream(name, startingOffsets=f'{{"{name}": 2}}')
    offsets = run(reader)
    with pytest.raises(DataLossError, match=rf"messages 2 to 3 of stream '{name}' are gone .* this batch is \[2, 16\)"):
        reader.partitions(*offsets)


def test_foreign_and_deleted_messages_make_no_batches(here: Here, streams: Streams) -> None:
    name = streams.new()
    options = {"subjects": f"{name}.1", "startingOffsets": "earliest", "maxOffsetsPerTrigger": 4}
    reader = here.stream(name, **options)
    streams.publish(name, [b"x"])
    assert len(run(reader)) == 1
    streams.publish(name, [b"x"] * 3)  # 1 is at sequence 3
    offsets = run(reader)
    assert rows(here, reader, offsets) == [[(name, 3)]]
    # Many foreign messages, then one that matches: one batch, and none for the foreign messages at the end.
    for _ in range(20):
        streams.run(lambda js: js.publish(f"{name}.0", b"x"))
    streams.publish(name, [b"x"] * 3)
    offsets = run(reader, offsets[-1])
    assert rows(here, reader, offsets) == [[(name, 26)]]
    assert run(reader, offsets[-1]) == offsets[-1:]
    # With a limit, deleted messages do not make empty batches either.
    plain = here.stream(name, startingOffsets="earliest", maxOffsetsPerTrigger=2)
    streams.delete_messages(name, list(range(2, 26)))
    assert rows(here, plain, run(plain)) == [[(name, 1)], [(name, 26), (name, 27)]]


@pytest.mark.needs_spark("4.2", "limits per micro-batch")
def test_limits_by_bytes_and_least_offsets(here: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    name = streams.new()
    streams.publish(name, [bytes(1000)] * 40)
    by_bytes = here.stream(name, startingOffsets="earliest", maxBytesPerTrigger="12k")
    assert by_bytes.getDefaultReadLimit() == ReadMaxBytes(12 << 10)
    sizes = [len(batch) for batch in rows(here, by_bytes, run(by_bytes))]
    assert sum(sizes) == 40
    assert 3 <= len(sizes) <= 5
    start = by_bytes.initialOffset()
    assert next_of(by_bytes.latestOffset(start, ALL)) == {name: 41}

    now = [1000.0]
    monkeypatch.setattr(stream_reader.time, "monotonic", lambda: now[0])
    least = here.stream(name, startingOffsets="earliest", minOffsetsPerTrigger=50, maxTriggerDelay="1m")
    assert least.getDefaultReadLimit() == ReadMinRows(50)
    first = least.latestOffset(least.initialOffset(), ReadMinRows(50))
    assert next_of(first) == {name: 41}  # the first one of a run does not wait
    streams.publish(name, [b"x"] * 10)
    assert least.latestOffset(first, ReadMinRows(50)) == first
    assert next_of(least.latestOffset(first, ALL)) == {name: 51}
    now[0] += 61
    late = least.latestOffset(first, ReadMinRows(50))
    assert next_of(late) == {name: 51}
    streams.publish(name, [b"x"] * 50)
    assert next_of(least.latestOffset(late, ReadMinRows(50))) == {name: 101}


def test_available_now_ends_at_what_was_there(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 10)
    reader = here.stream(name, startingOffsets="earliest", maxOffsetsPerTrigger=4, minOffsetsPerTrigger=9)
    reader.prepareForTriggerAvailableNow()
    streams.publish(name, [b"x"] * 10)
    offsets = run(reader)
    assert [next_of(offset)[name] for offset in offsets] == [1, 5, 9, 11]
    assert reader.reportLatestOffset() is not None
    assert next_of(reader.reportLatestOffset() or {}) == {name: 21}


def test_streams_that_come_and_go(here: Here, streams: Streams) -> None:
    mark = uuid.uuid4().hex[:8]
    old, new = f"N{mark}a", f"N{mark}b"
    streams.create(old)
    streams.publish(old, [b"x"] * 3)
    options = {"streamPattern": f"N{mark}.*", "startingOffsets": "earliest"}
    reader = here.stream(**options)
    offsets = run(reader)
    streams.create(new)
    assert run(reader, offsets[-1]) == offsets[-1:]  # nothing in it yet
    streams.publish(new, [b"x"] * 2)
    offsets = run(reader, offsets[-1])
    assert rows(here, reader, offsets) == [[(new, 1), (new, 2)]]
    streams.delete(old)
    with pytest.raises(NotFoundError, match=f"stream '{old}' was deleted, and its unread messages are lost"):
        reader.latestOffset(offsets[-1], ALL)
    lenient = here.stream(**options, failOnDataLoss=False)
    assert lenient.latestOffset(offsets[-1], ALL) == offsets[-1]
    streams.create(old)
    with pytest.raises(StreamRecreatedError, match="use a new checkpoint"):
        lenient.latestOffset(offsets[-1], ALL)
    with pytest.raises(StreamRecreatedError, match="use a new checkpoint"):
        here.stream(**options).partitions(
            {},
            through_json(
                Offset.of(offsets[-1]).json()
                | {
                    "from": {
                        old: offsets[-1]["streams"][old] | {"next": 1},
                        new: offsets[-1]["streams"][new],
                    }
                }
            ),
        )


def test_a_stream_that_ends_before_what_was_read(here: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_NEW_LEADER_TIMEOUT", 0.3)
    name = streams.new()
    streams.publish(name, [b"x"] * 3)
    reader = here.stream(name, startingOffsets="earliest")
    end = run(reader)[-1]
    end["streams"][name]["next"] = 9
    with pytest.raises(StreamRolledBackError, match=f"'{name}' was rolled back: message 8 was seen, .* ends at 3 now"):
        reader.latestOffset(end, ALL)


class OlderSpark:
    """Calls a reader as Spark 4.0 and 4.1 do: the end of a batch without its start, and before the initial offset."""

    def __init__(self, here: Here) -> None:
        self.here = here
        self.logged: list[dict[str, Any]] = []

    def run(self, reader: JetStreamStreamReader, *, batches: int) -> list[list[tuple[str, int]]]:
        """Start the query, or start it again; returns (stream, sequence) of each batch."""
        found = []
        if self.logged:
            reader.partitions(self.logged[-1], self.logged[-1])
        for _ in range(batches):
            end = through_json(reader.latestOffset())
            start = self.logged[-1] if self.logged else through_json(reader.initialOffset())
            if self.logged:
                reader.commit(start)
            self.logged.append(end)
            table = self.here.batch(reader, start, end).to_pydict()
            found.append(list(zip(table["stream"], table["seq"], strict=True)))
        return found


def test_spark_before_4_2_reads_each_message_once(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 3)
    reader, older = here.stream(name, startingOffsets="earliest"), OlderSpark(here)
    assert older.run(reader, batches=2) == [[(name, 1), (name, 2), (name, 3)], []]
    # An offset that differs would start a batch without rows.
    assert json.dumps(older.logged[0]) == json.dumps(older.logged[1])
    streams.publish(name, [b"x"] * 2)
    assert older.run(here.stream(name), batches=1) == [[(name, 4), (name, 5)]]
    assert [name in offset["from"] for offset in older.logged] == [True] * 3


def test_spark_before_4_2_starts_at_latest(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 3)
    reader, older = here.stream(name), OlderSpark(here)
    assert older.run(reader, batches=1) == [[]]
    streams.publish(name, [b"x"] * 2)
    assert older.run(here.stream(name), batches=1) == [[(name, 4), (name, 5)]]


def test_spark_before_4_2_reads_an_added_stream_from_its_first_message(here: Here, streams: Streams) -> None:
    one, added, other = streams.new(), streams.new(), streams.new()
    for name in (one, added, other):
        streams.publish(name, [b"x"] * 2)
    older = OlderSpark(here)
    older.run(here.stream(one, startingOffsets="earliest"), batches=1)
    found = older.run(here.stream(f"{one},{added}"), batches=1)
    assert found == [[(added, 1), (added, 2)]]
    with pytest.raises(ValueError, match=f"this checkpoint is of a query that reads .*, not '{other}'"):
        older.run(here.stream(other), batches=1)


def test_spark_before_4_2_restarts_a_query_with_a_consumer(here: Here, streams: Streams) -> None:
    name = streams.new(retention="interest", allow_direct=True)
    options = {"commitMode": "consumer", "commitConsumer": "spark"}
    older = OlderSpark(here)
    assert older.run(here.stream(name, **options), batches=1) == [[]]
    streams.publish(name, [b"x"] * 3)
    assert older.run(here.stream(name, **options), batches=1) == [[(name, 1), (name, 2), (name, 3)]]
    with pytest.raises(ValueError, match="is that of another query"):
        OlderSpark(here).run(here.stream(name, **options), batches=1)


def test_it_can_be_imported_where_spark_has_no_admission_control() -> None:
    code = (
        "import sys, pyspark.sql.datasource; sys.modules['pyspark.sql.streaming.datasource'] = None\n"
        "from jetarrow.spark.source.stream_reader import JetStreamStreamReader\n"
        "from jetarrow.spark.datasource import JetStreamSource\n"
        "source = JetStreamSource({'servers': 'a:1', 'stream': 'S'})\n"
        "print(type(source.streamReader(source.schema())).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("JetStreamStreamReader", 0), done.stderr


def test_query_may_start_at_the_first_sequence(here: Here, streams: Streams) -> None:
    """No message precedes it, so the position has no mark, and the server is not asked for sequence 0."""
    name = streams.new()
    streams.publish(name, [b"x"] * 5)
    reader = here.stream(name, startingOffsets=json.dumps({name: 1}))
    start = reader.initialOffset()
    assert start["streams"][name]["next"] == 1
    assert here.batch(reader, start, reader.latestOffset(start)).column("seq").to_pylist() == [1, 2, 3, 4, 5]
