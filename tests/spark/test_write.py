"""`df.write.format("jetstream")` with a real Spark: stored messages and reported errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from .tools import Stored, Streams

    Read = Callable[..., list[Stored]]
    Write = Callable[..., None]

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def numbers(spark: SparkSession, count: int, *columns: str, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) as data", *columns)


def told(error: pytest.ExceptionInfo[PySparkException]) -> str:
    """The error as a user sees it; our own errors have no traceback in front."""
    text = str(error.value)
    assert "Traceback" not in text
    assert "Py4J" not in text
    return text


def test_all_columns(spark: SparkSession, write: Write, streams: Streams, stored: Read) -> None:
    name = streams.new()
    frame = numbers(
        spark,
        300,
        f"concat('{name}.', id % 3) as subject",
        "if(id % 2 = 0, map('Kind', array('even', cast(id as string))), null) as headers",
        "if(id % 5 = 0, concat('own-', id), null) as msg_id",
    )
    write(frame, name)
    found = {int(message.data): message for message in stored(name)}
    assert sorted(found) == list(range(300))
    for i, message in found.items():
        assert message.subject == f"{name}.{i % 3}"
        assert message.headers == ({} if i % 2 else {"Kind": ["even", str(i)]})
        assert (message.id == f"own-{i}") if i % 5 == 0 else len(message.id or "") == 22
    # The server knows ids of the user for two minutes, in any write; generated ids are unique to a write.
    write(frame, name)
    assert len(stored(name)) == 300 + 240


def test_subject_option_binary_data_and_plain_headers(
    spark: SparkSession, write: Write, streams: Streams, stored: Read
) -> None:
    name = streams.new()
    columns = ("unhex('00ff') as data", "'not.this' as subject", "map('A', '1', 'B', '') as headers")
    write(spark.range(3).selectExpr(*columns), name, subject=f"{name}.x", dedup="none")
    assert stored(name) == [(f"{name}.x", b"\x00\xff", None, {"A": ["1"], "B": [""]})] * 3


def test_equal_rows_are_all_stored(spark: SparkSession, write: Write, streams: Streams, stored: Read) -> None:
    name = streams.new()
    write(spark.range(0, 999, 1, 3).selectExpr("'x' as data"), name, subject=f"{name}.x")
    assert Counter(message.data for message in stored(name)) == {b"x": 999}


def test_fast_mode(spark: SparkSession, write: Write, streams: Streams, stored: Read) -> None:
    name = streams.new(allow_batched=True)
    write(numbers(spark, 5_000), name, subject=f"{name}.x", publishMode="fast")
    assert sorted(int(message.data) for message in stored(name)) == list(range(5_000))


def test_an_empty_frame(spark: SparkSession, write: Write, streams: Streams, stored: Read) -> None:
    name = streams.new()
    write(numbers(spark, 10).where("data = 'none'"), name, subject=f"{name}.x")
    assert stored(name) == []


def test_a_stream_into_another(
    spark: SparkSession, write: Write, load: Callable[..., DataFrame], streams: Streams, stored: Read
) -> None:
    """Sequences as ids: writing the stream again adds only new messages."""
    source, target = streams.new(), streams.new()
    streams.publish(source, [b"%d" % i for i in range(500)])
    columns = ("data", f"replace(subject, '{source}', '{target}') as subject", "concat(stream, ':', seq) as msg_id")
    for parts, count in ((1, 500), (4, 600)):
        streams.publish(source, [b"%d" % i for i in range(500, count)])
        write(load(source, minPartitions=parts).selectExpr(*columns), target)
        found = stored(target)
        assert sorted(int(message.data) for message in found) == list(range(count))
    assert {message.subject for message in found} == {f"{target}.{i}" for i in range(3)}


@pytest.mark.parametrize("mode", ["overwrite", "ignore", "errorifexists"])
def test_only_append(mode: str, spark: SparkSession, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"old"])
    writer = numbers(spark, 1).write.format("jetstream").option("servers", streams.url).option("stream", name)
    with pytest.raises(PySparkException) as error:
        writer.mode(mode).save()
    if mode == "overwrite":
        assert f"mode overwrite would have to delete the messages of stream '{name}'" in told(error)
    streams.publish(name, [b"is still there"])
    assert streams.messages(name) == 2


def test_the_driver_refuses_what_cannot_work(
    spark: SparkSession, write: Write, streams: Streams, closed_port: int
) -> None:
    frame = numbers(spark, 1)
    name = streams.new()
    cases = [
        ({"stream": "", "subject": "x"}, "ValueError: jetstream option 'stream': is required"),
        ({"stream": "NOWHERE", "subject": "x"}, f"there is no stream 'NOWHERE' at {streams.url}"),
        ({"servers": f"127.0.0.1:{closed_port}", "subject": "x"}, "NoServersError"),
        ({}, "there is neither a column 'subject' nor the option 'subject'"),
        ({"subject": "x", "publishMode": "fast"}, "publishMode=fast is not available here: it needs a stream with"),
        ({"subject": "x", "publishMode": "atomic"}, "it needs a stream with allow_atomic"),
    ]
    for options, said in cases:
        with pytest.raises(PySparkException) as error:
            write(frame, **{"stream": name, **options})
        assert "Failed to initialize Python data source writer" in told(error)
        assert said in told(error)


def test_a_stream_that_is_full_in_the_middle(spark: SparkSession, write: Write, streams: Streams, stored: Read) -> None:
    name = streams.new(max_msgs=1_200, discard="new")
    frame = numbers(spark, 3_000, "concat('id-', id) as msg_id", partitions=1)
    with pytest.raises(PySparkException) as error:
        write(frame, name, subject=f"{name}.x")
    assert "BatchError: nats: jetstream: 1800 of 3000 rows could not be stored in stream" in told(error)
    assert "the first is row 1200 of partition 0: " in told(error)
    assert "err_code=10077 description='maximum messages exceeded'" in told(error)
    streams.update(name, max_msgs=-1)
    write(frame, name, subject=f"{name}.x")
    assert [int(message.data) for message in stored(name)] == list(range(3_000))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["if(id = 7, null, 'x') as data", "'{stream}.x' as subject"], "row 7 of partition 0: the payload is null"),
        (["'x' as data", "if(id = 7, '{other}.x', '{stream}.x') as subject"], "row 7 of partition 0: .*err_code=10060"),
    ],
)
def test_error_of_a_task_names_the_row_and_the_cause(
    columns: list[str], said: str, spark: SparkSession, write: Write, streams: Streams
) -> None:
    name, other = streams.new(), streams.new()
    frame = spark.range(0, 20, 1, 1).selectExpr(*(text.format(stream=name, other=other) for text in columns))
    with pytest.raises(PySparkException, match=said) as error:
        write(frame, name)
    told(error)
    assert streams.messages(other) == 0


def test_a_short_duplicate_window_warns(streams: Streams) -> None:
    from jetarrow.spark.options.write import write_options
    from jetarrow.spark.sink.target import prepare
    from pyspark.sql.types import StringType, StructField, StructType

    name = streams.new(duplicate_window=5_000_000_000)
    given = {"servers": streams.url, "stream": name, "subject": "x"}
    data = StructType([StructField("data", StringType())])
    with pytest.warns(UserWarning, match="duplicates for 5 s, which is less than recoveryWindow=120 s") as caught:
        assert prepare(data, write_options(given), overwrite=False, streaming=False).window == 5
    assert len(caught) == 1
    for harmless in ({"recoveryWindow": "5s"}, {"dedup": "none"}):
        options = write_options({**given, **harmless})
        for _ in range(2):
            assert prepare(data, options, overwrite=False, streaming=True).window == 5
