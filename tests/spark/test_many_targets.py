"""One write to many streams: each row is sent to the stream of its subject, which its header names."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.spark.options.write import WriteOptions, write_options
from jetarrow.spark.sink import rows as write_rows
from jetarrow.spark.sink import target
from jetarrow.spark.sink.partition_writer import PartitionWriter
from jetarrow.spark.sink.routes import Routes, expect_streams
from jetarrow.spark.sink.target import prepare
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

if TYPE_CHECKING:
    from .tools import Stored, Streams

    Read = Callable[..., list[Stored]]
    Write = Callable[..., None]

COLUMNS = StructType([StructField("subject", StringType()), StructField("data", StringType())])


@pytest.fixture
def three(streams: Streams) -> list[str]:
    mark = uuid.uuid4().hex[:8]
    names = [f"T{mark}{letter}" for letter in "ABC"]
    for name in names:
        streams.create(name, subjects=[f"{name}.*", f"more.{name}.>"])
    return names


def write(options: WriteOptions, rows: pa.RecordBatch) -> PartitionWriter:
    found = prepare(COLUMNS, options, overwrite=False, streaming=True)
    task = PartitionWriter(options, window=found.window, scope="q:0:0", partition=0, routes=found.routes)
    assert task.write(iter([rows])) == rows.num_rows
    return task


@pytest.mark.parametrize("given", ["list", "pattern", "any"])
def test_every_row_goes_to_the_stream_of_its_subject(
    given: str, three: list[str], streams: Streams, stored: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes twice, with headers in some of the rows: no row is stored twice."""
    monkeypatch.setattr(write_rows, "_CALL_ROWS", 7)
    named = {"list": {"stream": ", ".join(three)}, "pattern": {"streamPattern": f"{three[0][:-1]}."}, "any": {}}[given]
    options = write_options({"servers": streams.url, **named})
    subjects = [[f"{three[i % 3]}.a", f"more.{three[i % 3]}.x.y"][i % 2] for i in range(40)]
    headers = pa.array(
        [None if i % 4 == 0 else [("N", [str(i)])] for i in range(40)], pa.map_(pa.string(), pa.list_(pa.string()))
    )
    rows = pa.RecordBatch.from_pydict({"subject": subjects, "data": [b"%d" % i for i in range(40)], "headers": headers})
    assert [write(options, rows).duplicates for _ in range(2)] == [0, 40]
    for number, name in enumerate(three):
        found = stored(name)  # also checks the expected stream of each message
        assert [int(message.data) for message in found] == list(range(number, 40, 3))
        for message in found:
            i = int(message.data)
            assert (message.subject, message.headers) == (subjects[i], {} if i % 4 == 0 else {"N": [str(i)]})


def test_subject_of_no_stream_is_rejected(three: list[str], streams: Streams) -> None:
    options = write_options({"servers": streams.url, "stream": ",".join(three[:2])})
    rows = pa.RecordBatch.from_pydict({"subject": [f"{three[0]}.a", f"{three[2]}.a"], "data": [b"1", b"2"]})
    said = f"row 1 of partition 0: none of streams '{three[0]}', '{three[1]}' stores its subject '{three[2]}.a'"
    with pytest.raises(ValueError, match=said):
        write(options, rows)
    fixed = write_options({"servers": streams.url, "stream": ",".join(three[:2]), "subject": f"{three[2]}.a"})
    with pytest.raises(ValueError, match=r"'subject': none of streams .* stores"):
        prepare(COLUMNS, fixed, overwrite=False, streaming=False)
    with pytest.raises(jetarrow.errors.Error, match="there is no stream 'absent'"):
        prepare(
            COLUMNS,
            write_options({"servers": streams.url, "stream": f"{three[0]},absent"}),
            overwrite=False,
            streaming=False,
        )


def test_a_stream_that_moved_its_subject_refuses_the_row(three: list[str], streams: Streams) -> None:
    """The driver looks streams up once: a row whose subject has moved to another stream is not stored there."""
    options = write_options({"servers": streams.url, "stream": ",".join(three)})
    found = prepare(COLUMNS, options, overwrite=False, streaming=True)
    streams.update(three[0], subjects=[f"{three[0]}.b"])
    streams.update(three[1], subjects=[f"{three[0]}.a"])
    task = PartitionWriter(options, window=120, scope="q", partition=0, routes=found.routes)
    with pytest.raises(jetarrow.js.errors.BatchError, match=r"the first is row 0 of partition 0: .*10060"):
        task.write(iter([pa.RecordBatch.from_pydict({"subject": [f"{three[0]}.a"], "data": [b"1"]})]))


def test_pattern_is_listed_again_after_an_interval(
    three: list[str], streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = write_options({"servers": streams.url, "streamPattern": f"{three[0][:-1]}.*"})

    def names() -> set[str]:
        return {name for _, name in prepare(COLUMNS, options, overwrite=False, streaming=True).routes}

    assert names() == set(three)
    new = f"{three[0]}_NEW"
    streams.create(new)
    assert names() == set(three)
    monkeypatch.setattr(target, "_LIST_INTERVAL", 0.0)
    assert names() == {*three, new}


def test_subjects_and_patterns() -> None:
    routes = Routes([("a.b", "EXACT"), ("a.*.c", "STAR"), ("x.>", "REST"), ("a.*.d.>", "DEEP")])
    found = {"a.b": "EXACT", "a.q.c": "STAR", "x.y": "REST", "x.y.z": "REST", "a.b.d.e": "DEEP", "a.b.c": "STAR"}
    for subject in ("a", "x", "a.b.d", "b", "", "a.*.q"):
        found[subject] = None  # type: ignore[assignment]
    assert {subject: routes.stream_of(subject) for subject in found} == found
    assert routes.streams_of(pa.array(list(found))).to_pylist() == list(found.values())


@pytest.mark.parametrize("listed", [False, True])
def test_expect_streams_adds_a_header(listed: bool) -> None:
    def value(text: str) -> Any:
        return [text] if listed else text

    kind = pa.map_(pa.string(), pa.list_(pa.string()) if listed else pa.string())
    given: list[Any] = [None, [], [("X", value("1"))], [("X", value("1")), ("Y", value("2"))], None, [("Z", None)]]
    rows = pa.RecordBatch.from_pydict({"headers": pa.array(given, kind)})
    streams = pa.array(list("abcdef"))
    wanted = [
        [*(entries or []), ("Nats-Expected-Stream", value(letter))]
        for entries, letter in zip(given, "abcdef", strict=True)
    ]
    assert expect_streams(rows, streams).column("headers").to_pylist() == wanted
    assert expect_streams(rows.slice(2, 3), streams.slice(2, 3)).column("headers").to_pylist() == wanted[2:5]
    none = pa.RecordBatch.from_pydict({"data": [b"1", b"2"]})
    found = expect_streams(none, pa.array(["a", "b"])).column("headers").to_pylist()
    assert found == [[("Nats-Expected-Stream", "a")], [("Nats-Expected-Stream", "b")]]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"publishMode": "fast"}, "publishMode is for one stream, and this write is for streams 'A', 'B'"),
        ({"atomicBy": "x"}, "atomicBy is for one stream"),
        ({"exactlyOnce": "state", "sinkState": "B"}, "exactlyOnce=state is for one stream"),
        ({"stream": "", "subject": "x"}, "'stream': is required with the option 'subject'"),
        (
            {"stream": "", "straem": "A"},
            r"is required \(unknown options given: straem; did you mean stream\?\)",
        ),
    ],
)
def test_options_for_one_stream_are_rejected_with_many(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        write_options({"servers": "x", "stream": "A,B", **given})


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_through_spark(spark: SparkSession, nats_url: str, three: list[str], stored: Read) -> None:
    letter = "substring('ABC', int(id % 3) + 1, 1)"
    rows = spark.range(30).selectExpr(
        f"concat('{three[0][:-1]}', {letter}, '.n') as subject", "cast(id as string) as data"
    )
    options = {"servers": nats_url, "streamPattern": f"{three[0][:-1]}."}
    rows.write.format("jetstream").options(**options).mode("append").save()
    for number, name in enumerate(three):
        assert sorted(int(message.data) for message in stored(name)) == list(range(number, 30, 3))
