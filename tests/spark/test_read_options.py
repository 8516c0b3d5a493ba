"""The options of the source, without Spark's JVM and without a server."""

from __future__ import annotations

import pyarrow as pa
import pytest
from jetarrow.spark.datasource import JetStreamSource
from jetarrow.spark.options.bounds import EARLIEST, LATEST, Bound
from jetarrow.spark.options.read import RowOptions, read_options
from jetarrow.spark.schema import SCHEMA
from jetarrow.spark.source.filters import covers, matcher

GOOD = {"servers": "127.0.0.1:4222", "stream": "ORDERS"}


def test_defaults() -> None:
    options = read_options(GOOD)
    assert options.connection.servers == ("nats://127.0.0.1:4222",)
    assert (options.streams, options.pattern, options.subjects) == (("ORDERS",), None, ())
    assert options.start == options.end == Bound(None)
    assert (options.start.of("ORDERS", EARLIEST), options.end.of("ORDERS", LATEST)) == (EARLIEST, LATEST)
    assert (options.min_partitions, options.max_offsets_per_partition) == (None, None)
    assert (options.max_records_per_partition, options.max_partition_bytes) == (250_000, 128 << 20)
    assert options.max_bytes_per_partition is None
    assert (options.fetch_bytes, options.batch_rows, options.batch_bytes) == (8 << 20, 65_536, 2 << 20)
    assert options.rows == RowOptions(True, False, False, "binary", None, None, "_corrupt_record", "none")
    assert (options.fail_on_data_loss, options.reader, options.pushdown) == (None, "auto", False)
    assert (options.commit_mode, options.commit_consumer) == ("none", None)
    assert options.max_offsets_per_trigger is options.max_bytes_per_trigger is options.min_offsets_per_trigger is None
    assert options.max_trigger_delay == 900.0


def test_everything_given() -> None:
    options = read_options(
        {
            "SERVERS": " nats://a:1 , tls://b ,[::1]:3",
            "Stream": "A, B,C",
            "startingoffsets": '{"A": 7, "B": -2}',
            "endingOffsets": '{"A": 9, "C": -1}',
            "minPartitions": " 12 ",
            "maxoffsetsperpartition": "10",
            "maxRecordsPerPartition": "11",
            "maxBytesPerPartition": "1m",
            "maxPartitionBytes": "2m",
            "subjects": "a.*, b.>,c",
            "failOnDataLoss": "Strict",
            "includeheaders": "FALSE",
            "includeTimeNs": "true",
            "includeReply": "true",
            "payload": "JSON",
            "valueSchema": " a int ",
            "mode": "failfast",
            "columnNameOfCorruptRecord": "bad",
            "compression": "zstd",
            "reader": "direct",
            "fetchBytes": "512k",
            "batchRows": "10",
            "batchBytes": "1 MiB",
            "maxOffsetsPerTrigger": "5",
            "maxBytesPerTrigger": "1g",
            "minOffsetsPerTrigger": "2",
            "maxTriggerDelay": "90s",
        }
    )
    assert options.connection.servers == ("nats://a:1", "tls://b", "nats://[::1]:3")
    assert [options.start.of(name, 0) for name in "ABC"] == [7, EARLIEST, EARLIEST]
    assert [options.end.of(name, 0) for name in "ABC"] == [9, LATEST, LATEST]
    assert (options.min_partitions, options.max_offsets_per_partition) == (12, 10)
    assert (options.max_records_per_partition, options.max_bytes_per_partition) == (11, 1 << 20)
    assert options.subjects == ("a.*", "b.>", "c")
    assert (options.fail_on_data_loss, options.reader) == ("strict", "direct")
    assert options.rows == RowOptions(False, True, True, "json", "a int", "FAILFAST", "bad", "zstd")
    assert (options.fetch_bytes, options.batch_rows, options.batch_bytes) == (512 << 10, 10, 1 << 20)
    assert (options.max_offsets_per_trigger, options.max_bytes_per_trigger) == (5, 1 << 30)
    assert (options.min_offsets_per_trigger, options.max_trigger_delay) == (2, 90.0)


def test_a_stream_may_begin_at_the_latest() -> None:
    assert read_options({**GOOD, "startingOffsets": "latest"}, streaming=True).start == Bound(LATEST)
    named = read_options({**GOOD, "startingOffsets": '{"ORDERS": -1}'}, streaming=True).start
    assert named.of("ORDERS", EARLIEST) == LATEST
    assert read_options({**GOOD, "commitMode": "purge"}, streaming=True).commit_mode == "purge"
    keeper = read_options({**GOOD, "commitMode": "consumer", "commitConsumer": "spark"}, streaming=True)
    assert keeper.commit_consumer == "spark"


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("1735787045678", None, "2025-01-02T03:04:05.678000000Z"),
        ("0", None, "1970-01-01T00:00:00.000000000Z"),
        ("2025-01-02T03:04:05.123456789Z", None, "2025-01-02T03:04:05.123456789Z"),
        ("2025-01-02 03:04:05.5+01:00", "Asia/Tokyo", "2025-01-02T02:04:05.500000000Z"),
        ("2025-01-02T03:04-0330", None, "2025-01-02T06:34:00.000000000Z"),
        ("2025-01-02", "America/New_York", "2025-01-02T05:00:00.000000000Z"),
        ("2025-07-02 12:00:00", "Europe/Berlin", "2025-07-02T10:00:00.000000000Z"),
        ("2025-07-02", "GMT+8", "2025-07-01T16:00:00.000000000Z"),
        ("2025-07-02", "UTC", "2025-07-02T00:00:00.000000000Z"),
    ],
)
def test_times(text: str, zone: str | None, expected: str) -> None:
    given = {**GOOD, "startingTimestamp": text, "endingTimestamp": text, "startingOffsets": '{"ORDERS": 5}'}
    options = read_options(given | ({} if zone is None else {"timeZone": zone}))
    assert options.start.time == options.end.time == expected


def test_a_time_without_a_zone_is_not_guessed() -> None:
    # Spark does not pass the session's time zone to a Python source.
    with pytest.raises(ValueError, match="'startingTimestamp': '2025-01-02' has no time zone") as caught:
        read_options({**GOOD, "startingTimestamp": "2025-01-02"})
    assert 'timeZone=spark.conf.get("spark.sql.session.timeZone")' in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("servers", None, "'servers': is required"),
        ("servers", " , ", "'servers': is empty"),
        ("servers", "http://a:1", "'http://a:1' is not an address"),
        ("servers", "a:notaport", "'a:notaport' is not an address"),
        ("servers", "a:1/path", "is not an address"),
        ("stream", None, "'stream': is required"),
        ("stream", "", "'stream': is required"),
        ("stream", "A,A", "one twice"),
        ("stream", "A B", "'A B' cannot be a stream"),
        ("stream", "A.*", "cannot be a stream"),
        ("startingOffsets", "latest", "'latest' cannot be used; valid: earliest, or JSON"),
        ("startingOffsets", "first", "'first' cannot be used; valid: earliest, or JSON"),
        ("startingOffsets", "7", "'7' cannot be used; valid: earliest, or JSON"),
        ("startingOffsets", '{"ORDERS": -1}', "-1 of 'ORDERS' cannot be used"),
        ("startingOffsets", '{"ORDERS": 0}', "sequences begin with 1"),
        ("startingOffsets", '{"ORDERS": 1.5}', "1.5 of 'ORDERS' is not a sequence"),
        ("startingOffsets", '{"ORDERS": true}', "True of 'ORDERS' is not a sequence"),
        ("startingOffsets", '{"ORDERS": 9223372036854775808}', "cannot be used"),
        ("startingOffsets", '{"OTHER": 1}', "'OTHER' is not in option 'stream'; valid: one of ORDERS"),
        ("startingOffsets", '{"ORDERS": 1', '{"ORDERS": 100}'),
        ("endingOffsets", "earliest", "valid: latest, or JSON"),
        ("endingOffsets", '{"ORDERS": -2}', "-2 of 'ORDERS' cannot be used"),
        ("minPartitions", "0", "a whole number from 1"),
        ("minPartitions", "two", "'two' is not a count"),
        ("maxPartitionBytes", "much", "'much' is not a size"),
        ("maxOffsetsPerPartition", "-5", "'-5' is not a count"),
        ("maxOffsetsPerPartition", "", "'' is not a count"),
        ("streamPattern", "O.*", "does not go with 'stream'"),
        ("subjects", "a..b", "'a..b' is not a subject"),
        ("subjects", "a.>.b", "'a.>.b' is not a subject"),
        ("subjects", "a b", "'a b' is not a subject"),
        ("subjects", "a.*,x,*.b", "'a.*' and '*.b' overlap"),
        ("subjects", "a.b.c,a.>", "'a.b.c' and 'a.>' overlap"),
        ("startingTimestamp", "yesterday", "'yesterday' is not a time; valid: ISO 8601"),
        ("startingTimestamp", "2025-02-30", "'2025-02-30' is not a time"),
        ("endingTimestamp", "2025-01-01T00:00:00.1234567890Z", "is not a time"),
        ("endingTimestamp", "0001-01-01T00:00:00+10:00", "the time is out of range"),
        ("timeZone", "Mars/Olympus", "'Mars/Olympus' is not a time zone"),
        ("failOnDataLoss", "maybe", "'maybe' cannot be used; valid: true (default), false, strict"),
        ("includeHeaders", "1", "'1' cannot be used; valid: true (default), false"),
        ("payload", "csv", "'csv' cannot be used; valid: binary (default), string, json"),
        ("valueSchema", "a int", "needs payload=json"),
        ("mode", "LENIENT", "valid: PERMISSIVE (default), DROPMALFORMED, FAILFAST"),
        ("compression", "gzip", "valid: none (default), zlib, zstd"),
        ("reader", "push", "valid: auto (default), pull, direct"),
        ("fetchBytes", "-1", "'-1' is not a size"),
        ("fetchBytes", "0", "'0' is not a size"),
        ("batchBytes", "8 parsecs", "'8 parsecs' is not a size"),
        ("maxOffsetsPerTrigger", "0", "'0' is not a count"),
        ("maxBytesPerTrigger", "x", "'x' is not a size"),
        ("maxTriggerDelay", "soon", "'soon' is not a duration"),
        ("commitMode", "purge", "a batch read commits nothing"),
        ("commitConsumer", "c", "commitMode=none do not go together"),
        ("pushdown", "yes", "'yes' cannot be used; valid: false (default), true"),
    ],
)
def test_invalid_values_are_refused_in_one_line(option: str, value: str | None, said: str) -> None:
    given = {name: text for name, text in {**GOOD, option: value}.items() if text is not None}
    with pytest.raises(ValueError, match=f"^jetstream option '{option}': ") as caught:
        read_options(given)
    text = str(caught.value)
    assert said in text
    assert "; valid: " in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endingOffsets": "latest"}, "'endingOffsets': a streaming query has no end"),
        ({"endingTimestamp": "0"}, "'endingTimestamp': a streaming query has no end"),
        ({"commitMode": "consumer"}, "'commitConsumer': and commitMode=consumer do not go together"),
        ({"commitMode": "consumer", "commitConsumer": "a.b"}, "'commitConsumer': 'a.b' cannot be a consumer"),
        ({"commitMode": "purge", "startingOffsets": "latest"}, "'startingOffsets': does not go with commitMode=purge"),
        ({"commitMode": "purge", "startingOffsets": '{"ORDERS": 3}'}, "'startingOffsets': does not go with commit"),
        ({"commitMode": "purge", "startingTimestamp": "0"}, "'startingTimestamp': does not go with commitMode=purge"),
        ({"startingOffsets": "middle"}, "valid: earliest, latest, or JSON"),
    ],
)
def test_options_invalid_in_a_streaming_query_are_rejected(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=r"^jetstream option ") as caught:
        read_options({**GOOD, **given}, streaming=True)
    assert said in str(caught.value)
    assert "; valid: " in str(caught.value)


def test_a_pattern_is_a_regular_expression() -> None:
    given = {"servers": "a:1", "streamPattern": "ORD.*"}
    options = read_options(given | {"startingOffsets": '{"ORDERS": 3}'})
    assert (options.pattern, options.streams) == ("ORD.*", ())
    with pytest.raises(ValueError, match=r"'streamPattern': '\(' is not a regular expression"):
        read_options(given | {"streamPattern": "("})


@pytest.mark.parametrize(
    ("subject", "other", "expected"),
    [
        ("a.>", "a.>", True),
        ("a.>", "a.b", True),
        ("a.>", "a.*.c", True),
        (">", "a", True),
        ("a.>", "a", False),
        ("a.*", "a.b", True),
        ("a.*", "a.*", True),
        ("a.*", "a.>", False),
        ("a.b", "a.*", False),
        ("a.b", "a.b.c", False),
        ("a.b.c", "a.b", False),
    ],
)
def test_covers_compares_two_filters(subject: str, other: str, *, expected: bool) -> None:
    assert covers(subject, other) is expected


def test_filters_in_arrow_match_as_the_server_does() -> None:
    subjects = pa.array(["a", "a.b", "a.b.c", "axb", "b.b", "a.b\n", "+.b"])
    for filters, expected in (
        (["a.b", "axb"], ["a.b", "axb"]),
        (["a.*"], ["a.b", "a.b\n"]),
        (["a.>"], ["a.b", "a.b.c", "a.b\n"]),
        (["*.b"], ["a.b", "b.b", "+.b"]),
        (["a", "*.*.c"], ["a", "a.b.c"]),
        (["+.*"], ["+.b"]),
        ([">"], subjects.to_pylist()),
    ):
        assert subjects.filter(matcher(filters)(subjects)).to_pylist() == expected, filters


@pytest.mark.parametrize("servers", ["nats://joe:hunter2@a:1", "a:1,hunter2@b:2"])
def test_secrets_in_servers_are_refused_and_not_shown(servers: str) -> None:
    with pytest.raises(ValueError, match="'servers': an address must not have user and password") as caught:
        read_options({**GOOD, "servers": servers})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        "reader",
        "writer",
        pytest.param("streamWriter", marks=pytest.mark.needs_spark("4.1", "writeStream.format('jetstream')")),
    ],
)
def test_unknown_options_are_an_error_without_their_values(kind: str) -> None:
    given = {**GOOD, "subject": "a"} if "riter" in kind else GOOD
    source = JetStreamSource({**given, "maxInFlihgt": "hunter2", "startingOffset": "hunter2", "option.format": "1"})
    nearest = "startingOffsets" if kind == "reader" else "maxInFlight"
    overwrite = {} if kind == "reader" else {"overwrite": False}
    with pytest.raises(
        ValueError, match=f"unknown options: maxinflihgt, startingoffset; did you mean {nearest}"
    ) as caught:
        getattr(source, kind)(SCHEMA, **overwrite)
    assert "hunter2" not in str(caught.value)


def test_a_misspelled_required_option_is_pointed_at() -> None:
    text = r"'stream': is required \(unknown options given: streem; did you mean stream\?\)"
    with pytest.raises(ValueError, match=text):
        read_options({"servers": "a:1", "streem": "ORDERS"})


@pytest.mark.parametrize("option", ["stratingOffsets", "stratingOffset", "startingoffset"])
def test_misspelt_starting_offsets_is_an_error_with_the_name(option: str) -> None:
    source = JetStreamSource({**GOOD, option: "latest"})
    with pytest.raises(ValueError, match=f"unknown options: {option.lower()}; did you mean startingOffsets"):
        source.reader(SCHEMA)
    # The reader of a streaming query raises the error itself, because Spark 4.3 replaces errors of `streamReader`.
    with pytest.raises(ValueError, match="did you mean startingOffsets"):
        source.streamReader(SCHEMA).initialOffset()
