"""One task of a write, against a real server and without Spark's JVM."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.js.errors import BatchError
from jetarrow.server import NatsServer
from jetarrow.spark.options.write import write_options
from jetarrow.spark.sink import rows as write_rows
from jetarrow.spark.sink.partition_writer import PartitionWriter
from jetarrow.spark.sink.rows import PublishCalls

from .tools import has_unread, wait_until

if TYPE_CHECKING:
    from .tools import Stored, Streams

    Read = Callable[..., list[Stored]]
    Run = Callable[..., PartitionWriter]


def batch(payloads: list[bytes | None], **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"data": pa.array(payloads, pa.binary())} | columns)


def numbers(count: int) -> list[bytes | None]:
    return [b"%d" % i for i in range(count)]


@pytest.fixture
def run(nats_url: str) -> Run:
    """`run(stream, *batches, scope=, **options)` runs a task to its end."""

    def run(stream: str, *batches: pa.RecordBatch, scope: str = "q:0:0", **options: str) -> PartitionWriter:
        given = {"servers": nats_url, "stream": stream, "subject": f"{stream}.a", **options}
        task = PartitionWriter(write_options(given), window=120, scope=scope, partition=0)
        assert task.write(iter(batches)) == sum(len(rows) for rows in batches)
        return task

    return run


def test_another_attempt_stores_nothing(run: Run, streams: Streams, stored: Read) -> None:
    """Equal rows are stored as often as they were written, and not again by attempts in any order."""
    name = streams.new()
    rows = [b"%d" % (i % 500) for i in range(3_000)]
    for attempt in range(3):
        random.Random(attempt).shuffle(rows)
        cut = [1000, 1999, 700][attempt]
        task = run(name, batch(rows[:cut]), batch(rows[cut:]))
        assert task.duplicates == (0 if attempt == 0 else 3_000)
    found = stored(name)
    assert Counter(message.data for message in found) == Counter(rows)
    assert {len(message.id or "") for message in found} == {22, 24}
    assert sum(1 for message in found if (message.id or "")[22:] == ".5") == 500


def test_half_an_attempt_in_another_order(run: Run, streams: Streams, stored: Read) -> None:
    """Positional ids lost 2,000 of 10,000 payloads here."""
    name = streams.new()
    rows = numbers(2_000)
    run(name, batch(rows[:700]))
    assert run(name, batch(rows[::-1])).duplicates == 700
    assert Counter(message.data for message in stored(name)) == Counter(rows)


@pytest.mark.parametrize("other", ["q:0:1", "q:1:0", "p:0:0"])
def test_other_partitions_batches_and_queries_are_other_rows(
    other: str, run: Run, streams: Streams, stored: Read
) -> None:
    name = streams.new()
    run(name, batch(numbers(10)))
    assert run(name, batch(numbers(10)), scope=other).duplicates == 0
    assert len(stored(name)) == 20


def test_msg_id_of_a_row_is_used_in_any_scope(run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new()
    rows = batch(numbers(4), msg_id=pa.array(["a", None, "b", None]))
    run(name, rows)
    assert run(name, rows, scope="q:1:0").duplicates == 2
    ids = [message.id or "" for message in stored(name)]
    assert (ids[0], ids[2], [len(i) for i in ids]) == ("a", "b", [1, 22, 1, 22, 22, 22])


def test_without_ids(run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new()
    run(name, batch(numbers(3)), dedup="none")
    run(name, batch(numbers(3), msg_id=pa.array([None, "x", None], pa.string())), dedup="none")
    assert [message.id for message in stored(name)] == [None, None, None, None, "x", None]


def test_ids_depend_on_all_columns_of_a_row(run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new()
    kinds = pa.map_(pa.string(), pa.list_(pa.string()))
    headers = [None, [], [("X", ["1"])], [("X", ["1", "2"])], [("X", ["2", "1"])], [("X", []), ("Y", ["1"])]]
    rows = pa.RecordBatch.from_pydict(
        {
            "subject": [f"{name}.{i}" for i in "aaaaaab"],
            "data": pa.array(["x"] * 7),
            "headers": pa.array([*headers, None], kinds),
        }
    )
    given = {"subject": ""}
    run(name, rows, **given)
    assert run(name, rows.slice(3), rows.slice(0, 3), **given).duplicates == 7
    found = stored(name)
    sent = [{}, {}, {"X": ["1"]}, {"X": ["1", "2"]}, {"X": ["2", "1"]}, {"Y": ["1"]}, {}]
    assert [message.headers for message in found] == sent
    assert [message.subject for message in found] == rows.column("subject").to_pylist()
    # Null and empty headers give equal messages: the second one has the next number.
    assert found[1].id == f"{found[0].id}.1"
    assert len({message.id for message in found}) == 7


@pytest.mark.parametrize("mode", ["fast", "atomic", "auto"])
def test_modes(mode: str, run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new(allow_batched=True, allow_atomic=True)
    rows = numbers(2_500)
    for _ in range(2):
        run(name, batch(rows[:1_700]), batch(rows[1_700:]), publishMode=mode)
    assert [message.data for message in stored(name)] == rows


def test_atomic_after_half_an_attempt(run: Run, streams: Streams, stored: Read) -> None:
    """Units that are partly stored already are completed."""
    name = streams.new(allow_atomic=True)
    rows = numbers(2_500)
    run(name, batch(rows[:1_000]), publishMode="atomic")
    assert run(name, batch(rows[::-1]), publishMode="atomic").duplicates == 1_000
    assert Counter(message.data for message in stored(name)) == Counter(rows)


def test_chunks(run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new(allow_atomic=True)
    rows = numbers(2_500)
    run(name, batch(rows), writeMode="atomic", chunk="400")
    assert [message.data for message in stored(name)] == rows
    with jetarrow.sync.connect(streams.url) as nc:
        headers = nc.jetstream().read(name, columns=["headers"]).read_all().column("headers").to_pylist()
    assert len({dict(found)["Nats-Batch-Id"][0] for found in headers}) == 7


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs Linux")
@pytest.mark.parametrize("mode", ["async", "fast", "atomic"])
def test_a_server_that_is_killed_with_rows_unanswered(
    mode: str, own_server: NatsServer, streams: Streams, stored: Read
) -> None:
    streams.url = own_server.url
    name = streams.new(allow_batched=True, allow_atomic=True)

    def kill() -> None:
        wait_until(lambda: has_unread(own_server))
        own_server.kill()
        own_server.start()

    killer = threading.Thread(target=kill)

    def batches() -> Iterator[pa.RecordBatch]:
        rows = numbers(5_000)
        yield batch(rows[:2_000])
        own_server.pause()
        killer.start()
        yield batch(rows[2_000:])

    given = {"servers": own_server.url, "stream": name, "subject": f"{name}.a", "publishMode": mode}
    try:
        assert PartitionWriter(write_options(given), window=120, scope="q", partition=0).write(batches()) == 5_000
    finally:
        killer.join()
    found = Counter(message.data for message in stored(name, url=own_server.url))
    assert found == Counter(numbers(5_000))


def test_atomic_is_all_or_nothing(run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new(allow_atomic=True, max_msgs=1_500, discard="new")
    with pytest.raises(BatchError, match=r"the first is row 1[0-9]{3} of partition 0: .*10077") as caught:
        run(name, batch(numbers(2_500)), publishMode="atomic")
    assert caught.value.row is not None
    # The second chunk does not fit; the third, of 500 rows, does.
    rows = numbers(2_500)
    assert [message.data for message in stored(name)] == rows[:1_000] + rows[2_000:]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"data": None}, "row 1203 of partition 0: the payload is null"),
        ({"subject": None}, "row 1203 of partition 0: the subject is null"),
        ({"subject": "a b"}, "row 1203 of partition 0: "),
        ({"subject": "nobody.takes.this"}, "row 1203 of partition 0: "),
        ({"data": b"x" * (1 << 20)}, "row 1203 of partition 0: "),
    ],
)
def test_the_first_row_that_fails_is_named(
    bad: dict[str, Any],
    said: str,
    run: Run,
    streams: Streams,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in a later call and a later batch."""
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 500)
    name = streams.new()
    rows = [{"data": b"%d" % i, "subject": f"{name}.a"} for i in range(2_000)]
    rows[1_203].update(bad)
    rows[1_209].update(bad)
    schema = pa.schema({"data": pa.binary(), "subject": pa.string()})
    batches = [pa.RecordBatch.from_pylist(rows[i : i + 150], schema) for i in range(0, 2_000, 150)]
    with pytest.raises(BatchError) as caught:
        run(name, *batches, subject="")
    assert said in str(caught.value)
    assert "2 of 500 rows could not be stored" in str(caught.value)
    assert caught.value.row == 1_203


def test_reserved_headers_are_rejected(run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new()
    kind = pa.map_(pa.string(), pa.string())
    for bad in ("Nats-Msg-Id", "nats-expected-last-sequence", "NATS-BATCH-ID"):
        headers = pa.array([None, [("X", "1"), ("Y", "2")], None, [], [("Z", "3"), (bad, "x")]], kind)
        rows = batch(numbers(5), headers=headers)
        with pytest.raises(ValueError, match=f"row 6: header '{bad}' is reserved"):
            run(name, rows.slice(1, 3), rows.slice(1))
    allowed = pa.array([[("Nats-Msg-Identity", "1"), ("Nats-TTL-not", "2")]], kind)
    run(name, batch([b"x"], headers=allowed))
    assert [message.data for message in stored(name)][-1:] == [b"x"]


@pytest.mark.parametrize("kind", [pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.list_(pa.string()))])
def test_reserved_headers_are_dropped_on_request(run: Run, streams: Streams, stored: Read, kind: pa.MapType) -> None:
    name = streams.new()

    def value(text: str) -> object:
        return text if pa.types.is_string(kind.item_type) else [text]

    headers = pa.array(
        [None, [("X", value("1")), ("nats-msg-ID", value("2"))], [("Nats-Expected-Last-Sequence", value("77"))], []],
        kind,
    )
    run(name, batch(numbers(4), headers=headers).slice(1), reservedHeaders="drop")
    assert [message.headers for message in stored(name)] == [{"X": ["1"]}, {}, {}]


@pytest.mark.parametrize("several", [False, True])
def test_binary_headers_are_written_as_they_are(run: Run, streams: Streams, stored: Read, several: bool) -> None:
    name = streams.new()
    kind = pa.map_(pa.string(), pa.list_(pa.binary()) if several else pa.binary())

    def headers(value: bytes) -> list[tuple[str, object]]:
        return [("X", [value, b""] if several else value)]

    rows = batch(numbers(4), headers=pa.array([headers("é".encode()), None, headers(b"1"), headers(b"\xff")], kind))
    run(name, rows.slice(0, 3))
    # A piece without any headers has their type too.
    run(streams.new(), rows.slice(1, 1))
    rest = [""] if several else []
    assert [message.headers for message in stored(name)] == [{"X": ["é", *rest]}, {}, {"X": ["1", *rest]}]
    with pytest.raises(ValueError, match="could not publish row 4: the value of a header is not UTF-8; encode it"):
        run(streams.new(), rows.slice(1, 2), rows.slice(1))


def test_sparks_own_error_is_raised(run: Run, streams: Streams) -> None:
    class Gone(RuntimeError):
        pass

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(numbers(10))
        yield batch(numbers(10))
        raise Gone("the JVM has gone")

    options = write_options({"servers": streams.url, "stream": streams.new(), "subject": "x"})
    task = PartitionWriter(options, window=120, scope="q", partition=0)
    with pytest.raises(Gone, match="the JVM has gone"):
        task.write(batches())


def test_nothing_to_write(run: Run, streams: Streams) -> None:
    run(streams.new())
    run(streams.new(), batch([]), batch([]))


def test_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are limited in rows, pieces and calls in bytes; a row larger than both limits is sent alone."""
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 100)
    monkeypatch.setattr(write_rows, "_CALL_BYTES", 10_000)
    monkeypatch.setattr(write_rows, "_PIECE_BYTES", 2_000)
    pieces: list[pa.RecordBatch] = []

    def seen(piece: pa.RecordBatch) -> pa.RecordBatch:
        pieces.append(piece)
        return piece

    sizes = [1] * 333 + [300] * 50 + [15_000] * 3
    rows = [b"x" * size for size in sizes]
    given = [batch([]), batch(rows[:333]), batch([]), batch(rows[333:383]), batch(rows[383:])]
    calls = PublishCalls(iter(given), seen)
    found = [reader.read_all() for reader in calls]
    assert [row for call in found for row in call.column("data").to_pylist()] == rows
    assert max(call.num_rows for call in found) == 100
    assert [call.num_rows for call in found[:3]] == [100, 100, 100]
    assert max(piece.nbytes for piece in pieces if piece.num_rows > 1) <= 2_000
    # A call ends with the piece that fills it.
    assert all(call.nbytes - max(2_000, call.slice(call.num_rows - 1).nbytes) < 10_000 for call in found)
    assert len(found) > 5
