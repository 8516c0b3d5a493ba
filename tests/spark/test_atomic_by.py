"""atomicBy: groups of equal values are stored whole or not at all, and once, whatever is tried again."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from jetarrow.core.errors import Error
from jetarrow.js.errors import BatchError
from jetarrow.server import NatsServer
from jetarrow.spark.options.write import write_options
from jetarrow.spark.sink import group_writer
from jetarrow.spark.sink.batch_records import BatchName
from jetarrow.spark.sink.group_writer import GroupWriter
from jetarrow.spark.sink.rows import check_columns
from jetarrow.spark.sink.target import prepare
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, DoubleType, LongType, StringType, StructField, StructType

from .tools import has_unread, wait_until

if TYPE_CHECKING:
    from .tools import Stored, Streams

    Read = Callable[..., list[Stored]]
    Write = Callable[..., None]
    Run = Callable[..., GroupWriter]

SCHEMA = pa.schema({"order": pa.int64(), "data": pa.binary()})


def rows_of(order: int, count: int) -> list[dict[str, Any]]:
    """Rows of one group; the first two have the same data, in every group."""
    return [{"order": order, "data": b"same" if i < 2 else b"%d of %d" % (i, order)} for i in range(count)]


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


ORDERS = {order: rows_of(order, 1 + order % 7) for order in range(40)}
ALL = Counter(row["data"] for rows in ORDERS.values() for row in rows)


@pytest.fixture
def run(nats_url: str) -> Run:
    """`run(stream, *batches, **options)` runs a task to its end."""

    def run(
        stream: str, *batches: pa.RecordBatch, scope: str = "q:0:0", name: BatchName | None = None, **options: str
    ) -> GroupWriter:
        given = {"servers": nats_url, "stream": stream, "subject": f"{stream}.a", "atomicBy": "order", **options}
        task = GroupWriter(write_options(given), window=120, scope=scope, partition=0, name=name)
        assert task.write(iter(batches)) == sum(len(rows) for rows in batches)
        return task

    return run


def shuffled(seed: int, orders: dict[int, list[dict[str, Any]]] = ORDERS) -> list[pa.RecordBatch]:
    """The groups in some order, and their rows in some order, in batches of eleven."""
    chance = random.Random(seed)
    groups = [chance.sample(rows, len(rows)) for rows in chance.sample(list(orders.values()), len(orders))]
    rows = [row for group in groups for row in group]
    return [batch(rows[at : at + 11]) for at in range(0, len(rows), 11)]


def test_another_attempt_stores_nothing(run: Run, streams: Streams, stored: Read) -> None:
    """After a part of the groups, in any order; equal rows of other groups are other rows."""
    name = streams.new(allow_atomic=True)
    some = {order: ORDERS[order] for order in (3, 4, 11, 20)}
    assert run(name, *shuffled(0, some)).duplicates == 0
    assert run(name, *shuffled(1)).duplicates == sum(map(len, some.values()))
    assert run(name, *shuffled(2)).duplicates == ALL.total()
    assert Counter(message.data for message in stored(name)) == ALL


def test_a_group_is_refused_whole(run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new(allow_atomic=True, max_msgs=10, discard="new")
    said = r"could not store group order=1 in stream '\w+', and none of its rows is; it begins with row 6 .*10077"
    with pytest.raises(BatchError, match=said) as caught:
        run(name, batch([*rows_of(0, 6), *rows_of(1, 5), *rows_of(2, 3)]), maxInFlight="1")
    assert caught.value.row is not None
    assert Counter(message.data for message in stored(name)) == Counter(row["data"] for row in rows_of(0, 6))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (rows_of(1, 2) + rows_of(2, 2) + rows_of(1, 1), "order=1 of partition 0 has rows in two places"),
        (rows_of(1, 2) + rows_of(2, 1001), "order=2 of partition 0 has more than 1000 rows"),
        ([*rows_of(1, 2), {"order": None, "data": b""}], "row 2 of partition 0 has no 'order'"),
    ],
)
def test_rows_of_a_group_have_to_be_side_by_side(rows: Any, said: str, run: Run, streams: Streams) -> None:
    with pytest.raises(ValueError, match=said):
        run(streams.new(allow_atomic=True), *(batch(rows[at : at + 300]) for at in range(0, len(rows), 300)))


def test_ids_of_the_rows_own(run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new(allow_atomic=True)
    rows = batch(rows_of(1, 3)).append_column("msg_id", pa.array(["a", "b", "c"]))
    run(name, rows)
    assert run(name, rows, scope="another query").duplicates == 3
    with pytest.raises(ValueError, match="row 3 of partition 0: it has the msg_id 'b' of another"):
        run(name, rows, batch(rows_of(2, 1)).append_column("msg_id", pa.array(["b"])))
    # A row has the id of another one: the group is not stored, and must not be taken for a stored one.
    with pytest.raises(Error, match=r"store group order=3: stream '.*' has 1 of its 2 rows, because it has changed"):
        run(name, batch(rows_of(3, 2)).append_column("msg_id", pa.array(["x", "b"])))
    assert [message.id for message in stored(name)] == ["a", "b", "c"]


def test_with_a_state_past_the_window(run: Run, streams: Streams, stored: Read) -> None:
    name = streams.new(allow_atomic=True, duplicate_window=100_000_000)
    given = {"exactlyOnce": "state", "sinkState": f"STATE_{name}"}
    options = write_options(
        {"servers": streams.url, "stream": name, "subject": f"{name}.a", "atomicBy": "order", **given}
    )
    schema = StructType([StructField("data", BinaryType()), StructField("order", LongType())])
    prepare(schema, options, overwrite=False, streaming=True)

    def dies() -> Iterator[pa.RecordBatch]:
        yield from shuffled(0, {order: ORDERS[order] for order in range(10)})
        raise RuntimeError("the worker is gone")

    at = BatchName("query", 1, 0)
    with pytest.raises(RuntimeError):
        GroupWriter(options, window=0.1, scope="q", partition=0, name=at).write(dies())
    wait_until(lambda: len(stored(name)) > 0)
    # Other ids, of which the server knows none: only the state's tag identifies stored groups.
    before = len(stored(name))
    assert run(name, *shuffled(3), scope="q", name=at, **given).duplicates == before
    assert Counter(message.data for message in stored(name)) == ALL
    assert run(name, *shuffled(4), scope="q", name=at, **given).duplicates == ALL.total()


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs Linux")
def test_a_server_that_is_killed_with_groups_unanswered(own_server: NatsServer, streams: Streams, stored: Read) -> None:
    streams.url = own_server.url
    name = streams.new(allow_atomic=True)

    def kill() -> None:
        wait_until(lambda: has_unread(own_server))
        own_server.kill()
        own_server.start()

    killer = threading.Thread(target=kill)

    def batches() -> Iterator[pa.RecordBatch]:
        given = shuffled(0)
        yield from given[:3]
        own_server.pause()
        killer.start()
        yield from given[3:]

    given = {"servers": own_server.url, "stream": name, "subject": f"{name}.a", "atomicBy": "order"}
    try:
        task = GroupWriter(write_options(given), window=120, scope="q", partition=0)
        assert task.write(batches()) == ALL.total()
    finally:
        killer.join()
    assert Counter(message.data for message in stored(name, url=own_server.url)) == ALL


def test_too_many_open_batches_are_waited_for(
    run: Run, streams: Streams, stored: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, publish, refused = streams.new(allow_atomic=True), group_writer.publish_rows, 0

    def busy(*args: Any, **given: Any) -> Any:
        nonlocal refused
        if refused < 3:
            refused += 1
            raise BatchError("atomic publish too many inflight", err_code=10210)
        return publish(*args, **given)

    monkeypatch.setattr(group_writer, "publish_rows", busy)
    run(name, *shuffled(0))
    assert Counter(message.data for message in stored(name)) == ALL


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"publishMode": "fast"}, "publishMode': fast does not go with atomicBy"),
        ({"dedup": "none"}, "atomicBy': does not go with dedup=none"),
    ],
)
def test_options_that_do_not_go_with_it(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        write_options({"servers": "x", "stream": "S", "atomicBy": "order", **given})


def test_atomic_by_requires_a_suitable_column() -> None:
    data, order = StructField("data", BinaryType()), StructField("order", LongType())
    check_columns(StructType([data, order]), subject="s", atomic_by="order")
    check_columns(StructType([data, StructField("subject", StringType())]), subject=None, atomic_by="subject")
    with pytest.raises(ValueError, match="there is no column 'order' for option 'atomicBy'"):
        check_columns(StructType([data]), subject="s", atomic_by="order")
    with pytest.raises(ValueError, match="column 'order' of atomicBy is double, not string"):
        check_columns(StructType([data, StructField("order", DoubleType())]), subject="s", atomic_by="order")


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.slow
def test_a_task_that_is_tried_again(
    spark: SparkSession, write: Write, streams: Streams, stored: Read, tmp_path: Path
) -> None:
    name, path = streams.new(allow_atomic=True), str(tmp_path / "failed")

    def fails_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            yield rows.slice(0, rows.num_rows // 2)
            if not Path(path).exists():
                Path(path).touch()
                raise RuntimeError("half-way")
            yield rows.slice(rows.num_rows // 2)

    def frame(parts: int) -> DataFrame:
        numbers = spark.range(300).selectExpr("id % 100 as order", "cast(id as string) as data")
        return numbers.repartition(parts, "order").sortWithinPartitions("order")

    write(frame(2).mapInArrow(fails_once, "order long, data string"), name, subject=f"{name}.a", atomicBy="order")
    data = [int(message.data) for message in stored(name)]
    assert sorted(data) == list(range(300))
    assert all(len({one % 100 for one in data[at : at + 3]}) == 1 for at in range(0, 300, 3))
    torn = spark.range(4, numPartitions=2).selectExpr("id % 2 as order", "cast(id as string) as data")
    with pytest.raises(Exception, match="2 groups of 'order' had rows in more than one partition"):
        write(torn, name, subject=f"{name}.a", atomicBy="order")
