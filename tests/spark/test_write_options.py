"""The options and columns of a write, without Spark's JVM and without a server."""

from __future__ import annotations

import pytest
from jetarrow.spark.datasource import JetStreamSource
from jetarrow.spark.options.write import WriteOptions, write_options
from jetarrow.spark.sink.rows import check_columns
from jetarrow.spark.sink.target import prepare
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

GOOD = {"servers": "127.0.0.1:4222", "stream": "ORDERS"}
DATA = StructType([StructField("data", BinaryType())])
TEXT, NUMBER = StringType(), IntegerType()


def options(**given: str) -> WriteOptions:
    return write_options({**GOOD, **given})


def test_defaults() -> None:
    found = options()
    assert (found.stream, found.subject, found.publish_mode, found.dedup) == ("ORDERS", None, "async", "content")
    assert (found.recovery_window, found.max_in_flight) == (120.0, None)


def test_everything_given() -> None:
    found = options(
        SUBJECT=" orders.new ", publishmode="FAST", Dedup="None", recoveryWindow="1.5 h", maxinflight="9", stream="A"
    )
    assert (found.stream, found.subject, found.publish_mode, found.dedup) == ("A", "orders.new", "fast", "none")
    assert (found.recovery_window, found.max_in_flight) == (5400.0, 9)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("90s", 90), ("2m", 120), ("2 min", 120), ("1h", 3600), ("1d", 86400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert options(recoveryWindow=text).recovery_window == seconds


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("stream", "A,A", "names no stream, or one twice"),
        ("streamPattern", "A.*", "'streamPattern': does not go with 'stream'; valid: one of the two, or neither"),
        ("publishMode", "quick", "'quick' cannot be used; valid: async (default), fast, atomic, auto"),
        ("writeMode", "quick", "'quick' cannot be used; valid: async (default), fast, atomic, auto"),
        ("chunk", "100", "is for atomic batches; valid: 1 to 1000 rows with writeMode=atomic"),
        ("dedup", "positional", "valid: content (default), none"),
        ("recoveryWindow", "120", "'120' is not a duration; valid: a number and ms, s, m, h or d, default 2m"),
        ("recoveryWindow", "-1s", "is not a duration"),
        ("maxInFlight", "0", "a whole number from 1, default no limit"),
    ],
)
def test_invalid_values_are_refused_in_one_line(option: str, value: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^jetstream option '{option}': ") as caught:
        options(**{option: value})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_option_is_an_error_and_those_of_spark_are_known() -> None:
    given = {**GOOD, "publishMod": "hunter2", "checkpointLocation": "x", "queryName": "q", "servers": "127.0.0.1:1"}
    with pytest.raises(ValueError, match=r"unknown options: publishmod; did you mean publishMode\? Known") as caught:
        JetStreamSource(given).writer(DATA, overwrite=False)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("streaming", [False, True])
def test_what_would_delete_messages_is_refused(streaming: bool) -> None:
    with pytest.raises(ValueError, match="would have to delete the messages of stream 'ORDERS'") as caught:
        prepare(DATA, options(subject="a"), overwrite=True, streaming=streaming)
    assert ("outputMode complete" if streaming else "mode overwrite") in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ([("value", TEXT)], "column 'value' cannot be written"),
        ([("data", TEXT), ("data", TEXT)], "column 'data' occurs twice"),
        ([("data", NUMBER)], "column 'data' is int, not binary or string"),
        ([("data", TEXT), ("subject", BinaryType())], "column 'subject' is binary, not string"),
        ([("data", TEXT), ("msg_id", NUMBER)], "column 'msg_id' is int, not string"),
        ([("data", TEXT), ("headers", TEXT)], "column 'headers' is string, not map<string,string>"),
        ([("data", TEXT), ("headers", MapType(TEXT, NUMBER))], "column 'headers' is map<string,int>"),
        ([("data", TEXT), ("headers", MapType(NUMBER, TEXT))], "column 'headers' is map<int,string>"),
        ([("subject", TEXT)], "there is no column 'data'"),
        ([("data", TEXT)], "there is neither a column 'subject' nor the option 'subject'"),
    ],
)
def test_other_columns_are_refused(columns: list[tuple[str, object]], said: str) -> None:
    schema = StructType([StructField(name, kind) for name, kind in columns])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a write takes the columns data binary or string, subject string") as caught:
        check_columns(schema, subject=None)
    assert said in str(caught.value)


def test_columns_that_can_be_written() -> None:
    check_columns(DATA, subject="a")
    for headers in (MapType(TEXT, TEXT), MapType(TEXT, ArrayType(TEXT))):
        fields = [("data", VarcharType(9)), ("subject", TEXT), ("headers", headers), ("msg_id", TEXT)]
        check_columns(StructType([StructField(name, kind) for name, kind in fields]), subject=None)


def test_chunks_of_atomic_writes() -> None:
    assert options(writeMode="atomic").chunk == options(publishMode="atomic").chunk == 1_000
    assert options(writeMode="ATOMIC", chunk="250").chunk == 250
    for given, said in (
        ({"writeMode": "atomic", "chunk": "1001"}, "more than a server takes"),
        ({"writeMode": "atomic", "publishMode": "atomic"}, "another name of publishMode"),
        ({"atomicBy": "a", "chunk": "10"}, "does not go with atomicBy"),
    ):
        with pytest.raises(ValueError, match=said):
            options(**given)
