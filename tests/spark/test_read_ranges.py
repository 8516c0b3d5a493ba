"""Which messages a read takes, read in this process: filters, patterns, times, losses, kinds of streams."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import threading
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from jetarrow.js.errors import DataLossError, NotFoundError, StreamRecreatedError
from jetarrow.spark.schema import SCHEMA
from jetarrow.spark.source import partition_reader, read_plan
from jetarrow.spark.source.batch_reader import PushdownReader
from jetarrow.spark.source.pushdown import Restriction, check_sound, restriction_of

from ..tools import wait_until

with contextlib.suppress(ImportError):  # Spark 4.0 has no filters
    from pyspark.sql.datasource import (
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        LessThan,
        LessThanOrEqual,
        Not,
        StringStartsWith,
    )

if TYPE_CHECKING:
    from .tools import Here, Streams


def seqs(table: pa.Table) -> list[int]:
    found: list[int] = table["seq"].to_pylist()
    return found


@pytest.fixture
def no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("small", [0, 20_000])
@pytest.mark.usefixtures("no_warning")
def test_filters_give_the_same_rows_wherever_they_are_evaluated(
    here: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(read_plan, "SMALL_RANGE", small)
    name = streams.new(allow_direct=True)
    streams.publish(name, [b"x"] * 90)
    streams.delete_messages(name, [1, 5, 44, 90])
    third = [seq for seq in range(2, 91, 3) if seq not in (5, 44)]
    for filters, expected in (
        (f"{name}.1", third),
        (f"{name}.*", [seq for seq in range(1, 91) if seq not in (1, 5, 44, 90)]),
        (f"{name}.0,{name}.2", [seq for seq in range(2, 90) if seq % 3 != 2]),
        (f"{name}.nothing", []),
        ("foreign.>", []),
    ):
        for options in ({}, {"minPartitions": 7}, {"reader": "direct"}, {"startingOffsets": json.dumps({name: 40})}):
            low = 40 if "startingOffsets" in options else 1
            assert seqs(here.read(name, subjects=filters, **options)) == [s for s in expected if s >= low], filters
    wait_until(lambda: streams.consumers(name) == 0)


def test_the_server_filters_where_it_finds_few(here: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    name = streams.new(allow_direct=True)
    streams.publish(name, [b"x"] * 90)
    third, all_of_it = f"{name}.1", f"{name}.>"

    def where(filters: str, **options: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
        plan = here.plan(name, subjects=filters, **options)[0].plan
        return plan.pushed, plan.local

    assert where(third) == ((third,), ())  # a short range
    assert where(all_of_it) == ((), ())  # is no filter at all
    assert where(f"{name}.0,{name}.1", reader="direct") == ((), (f"{name}.0", f"{name}.1"))
    monkeypatch.setattr(read_plan, "SMALL_RANGE", 10)
    assert where(third) == ((), (third,))  # a third of it
    monkeypatch.setattr(read_plan, "_FEW_MATCHES", 0.5)
    assert where(third) == ((third,), ())
    assert where(f"{third},{name}.2") == ((), (third, f"{name}.2"))


def test_a_pattern_finds_streams(here: Here, streams: Streams) -> None:
    mark = uuid.uuid4().hex[:8]
    for part in ("a", "b", "bb"):
        streams.create(f"P{mark}{part}")
        streams.publish(f"P{mark}{part}", [b"x"] * 3)
    found = here.read(streamPattern=f"P{mark}.")
    assert found["stream"].to_pylist() == [f"P{mark}a"] * 3 + [f"P{mark}b"] * 3
    named = here.read(streamPattern=f"P{mark}.*", startingOffsets=json.dumps({f"P{mark}b": 3}))
    assert seqs(named) == [1, 2, 3, 3, 1, 2, 3]
    with pytest.raises(NotFoundError, match="matches option streamPattern='NoneX"):
        here.read(streamPattern="NoneX")
    with pytest.raises(ValueError, match=f"'endingOffsets': 'X' is not read; valid: one of P{mark}a, P{mark}b"):
        here.read(streamPattern=f"P{mark}.", endingOffsets='{"X": 3}')


def test_ranges_by_time(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 20)
    times = here.read(name, includeTimeNs=True)["time_ns"].to_pylist()

    def text(nanoseconds: int) -> str:
        return f"{datetime.fromtimestamp(nanoseconds // 10**9):%Y-%m-%dT%H:%M:%S}.{nanoseconds % 10**9:09d}"

    local = {"timeZone": str(datetime.now().astimezone().tzinfo)}
    assert local["timeZone"]
    for start, end in ((0, 20), (3, 9), (19, 20), (5, 5)):
        until = {} if end == 20 else {"endingTimestamp": text(times[end])}
        # Offsets do not count beside a time.
        given: dict[str, Any] = {"startingTimestamp": text(times[start]), "startingOffsets": f'{{"{name}": 7}}'}
        assert seqs(here.read(name, **given, **until, **local)) == list(range(start + 1, end + 1))
    assert seqs(here.read(name, startingTimestamp=text(times[3] + 1), **local)) == list(range(5, 21))
    assert seqs(here.read(name, startingTimestamp="2100-01-01Z")) == []
    assert seqs(here.read(name, startingTimestamp=0, endingTimestamp="2100-01-01Z")) == list(range(1, 21))
    assert seqs(here.read(name, endingTimestamp=0)) == []


@pytest.mark.parametrize(
    ("options", "config", "fails"),
    [
        ({}, {}, True),
        ({"failOnDataLoss": "false"}, {}, False),
        ({"failOnDataLoss": "strict"}, {}, True),
        ({}, {"max_msgs_per_subject": 1000}, False),
        ({"failOnDataLoss": "true"}, {"max_msgs_per_subject": 1000}, True),
        ({}, {"retention": "workqueue", "allow_direct": True}, False),
        ({"subjects": "*.0,*.1,*.2"}, {}, False),
        ({"subjects": "*.0,*.1,*.2", "failOnDataLoss": "strict"}, {}, True),
        ({"subjects": "*.*", "failOnDataLoss": "strict", "reader": "direct"}, {"allow_direct": True}, True),
    ],
)
def test_lost_messages(
    here: Here, streams: Streams, options: dict[str, str], config: dict[str, Any], fails: bool
) -> None:
    name = streams.new(**config)
    streams.publish(name, [b"x"] * 20)
    start = {"startingOffsets": f'{{"{name}": 3}}'}
    # Planned before, read after they were lost; then planned after.
    reader = here.source(name, **start, **options).reader(SCHEMA)
    planned = reader.partitions()
    streams.purge(name, before=8)
    lost = rf"messages 3 to 7 of stream .{name}. are gone"
    if fails:
        with pytest.raises(DataLossError, match=lost) as error:
            here.table(SCHEMA, reader, planned)
        assert str(error.value).endswith("set failOnDataLoss=false to continue with the remaining messages")
        with pytest.raises(DataLossError, match=f"sequence 3 of stream '{name}' is gone; the stream begins with 8"):
            here.plan(name, **start, **options)
        return
    with pytest.warns(UserWarning, match=lost):
        assert seqs(here.table(SCHEMA, reader, planned)) == list(range(8, 21))
    with pytest.warns(UserWarning, match=lost):
        assert seqs(here.read(name, **start, **options)) == list(range(8, 21))


def test_a_stream_that_was_made_again_is_another_one(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"old"] * 10)
    reader = here.source(name).reader(SCHEMA)
    planned = reader.partitions()
    streams.delete(name)
    with pytest.raises(NotFoundError, match=f"there is no stream '{name}' at .* any more"):
        here.table(SCHEMA, reader, planned)
    streams.create(name)
    streams.publish(name, [b"new"] * 10)
    with pytest.raises(
        StreamRecreatedError, match=f"stream '{name}' of 20.* was planned, but it was created again at 20"
    ):
        here.table(SCHEMA, reader, planned)


def test_a_leader_that_does_not_know_the_newest_messages_yet(
    here: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Played by a plan that is ahead of the stream: a task waits for the rest, and does not end early."""
    name = streams.new()
    streams.publish(name, [b"x"] * 10)
    reader = here.source(name).reader(SCHEMA)
    ahead = [dataclasses.replace(one, end=16) for one in here.plan(name)]
    waits = threading.Event()
    monkeypatch.setattr(partition_reader.time, "sleep", lambda _: waits.set())
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(here.table, SCHEMA, reader, ahead)
        assert waits.wait(10)
        streams.publish(name, [b"x"] * 10)
        assert seqs(done.result(10)) == list(range(1, 16))
    monkeypatch.setattr(partition_reader, "_NEW_LEADER_TIMEOUT", 0.0)
    gone = [dataclasses.replace(one, end=31) for one in ahead]
    with pytest.raises(DataLossError, match=f"messages 21 to 30 of stream '{name}' are gone: it ends before them; set"):
        here.table(SCHEMA, reader, gone)
    lenient = here.source(name, failOnDataLoss=False).reader(SCHEMA)
    with pytest.warns(UserWarning, match="messages 21 to 30 of stream"):
        assert seqs(here.table(SCHEMA, lenient, gone)) == list(range(1, 21))
    # A reader that ends does not wait for the server's answer.
    wait_until(lambda: streams.consumers(name) == 0)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_reading_takes_nothing(here: Here, streams: Streams, retention: str) -> None:
    name = streams.new(retention=retention, allow_direct=True)
    streams.run(lambda js: js.add_consumer(name, durable_name="keeps", ack_policy="explicit"))
    streams.publish(name, [b"x"] * 30)
    for _ in range(2):
        assert seqs(here.read(name, minPartitions=4)) == list(range(1, 31))
    assert streams.left(name) == list(range(1, 31))
    assert streams.consumers(name) == 1
    with pytest.raises(ValueError, match=f"'reader': pull would remove messages from {retention} stream"):
        here.read(name, reader="pull")


def test_direct_gets_have_to_be_allowed(here: Here, streams: Streams) -> None:
    for config in ({"retention": "workqueue"}, {}):
        name = streams.new(allow_direct=False, **config)
        with pytest.raises(ValueError, match=r"direct gets, which it does not allow: set allow_direct in its conf"):
            here.read(name, reader="direct" if not config else "auto")


@pytest.mark.needs_spark("4.1", "pushFilters")
class TestPushdown:
    """The filters of Spark, without Spark: none so far keeps them per query."""

    @pytest.mark.parametrize("version", ["4.1.4", "4.2.1", "4.3.0"])
    def test_it_is_refused_where_it_is_wrong(self, here: Here, version: str) -> None:
        with pytest.raises(ValueError, match=f"'pushdown': Spark {version} keeps the filters of one query"):
            check_sound(version)
        with pytest.raises(ValueError, match="'pushdown': Spark "):
            here.source("S", pushdown=True).reader(SCHEMA)
        with pytest.raises(ValueError, match="'pushdown': Spark pushes no filters into a streaming query"):
            here.source("S", pushdown=True).streamReader(SCHEMA).initialOffset()
        check_sound("5.0.0.dev1")

    def test_random_filters_lose_nothing(self, here: Here, streams: Streams) -> None:
        chance = random.Random(2)
        names = sorted(streams.new() for _ in range(2))
        for name in names:
            streams.publish(name, [b"x"] * 60)
        options = here.source(",".join(names))._read_options(SCHEMA, streaming=False)
        rows = here.read(",".join(names)).to_pylist()
        tick = timedelta(microseconds=1)
        compare: dict[type[Filter], Any] = {
            GreaterThan: lambda a, b: a > b,
            GreaterThanOrEqual: lambda a, b: a >= b,
            LessThan: lambda a, b: a < b,
            LessThanOrEqual: lambda a, b: a <= b,
            EqualTo: lambda a, b: a == b,
            In: lambda a, b: a in b,
            StringStartsWith: lambda a, b: a.startswith(b),
        }
        fewer = 0
        for _ in range(60):
            row = chance.choice(rows)
            value: dict[str, Any] = {
                "seq": row["seq"],
                "timestamp": row["timestamp"] + tick * chance.randint(-1, 1),
                "stream": row["stream"],
                "subject": row["subject"],
            }
            filters: list[Filter] = []
            for column in chance.sample(sorted(value), chance.randint(1, 3)):
                kinds = [EqualTo, In] + ([GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual] * 2)
                kind = chance.choice([EqualTo, In, StringStartsWith] if column in ("stream", "subject") else kinds)
                wanted = value[column][:-1] if kind is StringStartsWith else value[column]
                filters.append(kind((column,), (wanted, wanted) if kind is In else wanted))
            filters.append(Not(EqualTo(("seq",), 1)))
            reader = PushdownReader(SCHEMA, options)
            assert reader.pushFilters(filters) == filters  # Spark evaluates them again
            read = here.table(SCHEMA, reader, reader.partitions()).to_pylist()
            fewer += len(read) < len(rows)

            def holds(row: dict[str, Any], filters: list[Filter] = filters) -> bool:
                return all(
                    compare[type(one)](row[one.attribute[0]], one.value)  # type: ignore[attr-defined]
                    for one in filters[:-1]
                )

            assert [row for row in read if holds(row)] == [row for row in rows if holds(row)], filters
        assert fewer > 40

    def test_what_is_left_to_spark(self) -> None:
        untouched: list[Filter] = [
            EqualTo(("headers", "k"), "v"),
            EqualTo(("subject",), "a.*"),
            StringStartsWith(("subject",), "a"),
            GreaterThan(("timestamp",), datetime(2025, 1, 1)),
            Not(EqualTo(("seq",), 5)),
        ]
        assert restriction_of(untouched) == Restriction()
        assert restriction_of([StringStartsWith(("subject",), "a.b.")]).subjects == ("a.b.>",)
        assert restriction_of([StringStartsWith(("subject",), "a.b.c")]).subjects == ("a.b.>",)
