"""The options of the source, without Spark's JVM and without a server."""

from __future__ import annotations

import pytest
from jetarrow.spark.options import EARLIEST, LATEST, read_options
from jetarrow.spark.rows import SCHEMA
from jetarrow.spark.source import JetStreamSource

GOOD = {"servers": "127.0.0.1:4222", "stream": "ORDERS"}


def test_defaults() -> None:
    options = read_options(GOOD)
    assert options.connection.servers == ("nats://127.0.0.1:4222",)
    assert options.streams == ("ORDERS",)
    assert options.starting == {"ORDERS": EARLIEST}
    assert options.ending == {"ORDERS": LATEST}
    assert (options.min_partitions, options.max_offsets_per_partition) == (1, 1_000_000)


def test_everything_given() -> None:
    options = read_options(
        {
            "SERVERS": " nats://a:1 , tls://b ,[::1]:3",
            "Stream": "A, B,C",
            "startingoffsets": '{"A": 7, "B": -2}',
            "endingOffsets": '{"A": 9, "C": -1}',
            "minPartitions": " 12 ",
            "maxoffsetsperpartition": "10",
        }
    )
    assert options.connection.servers == ("nats://a:1", "tls://b", "nats://[::1]:3")
    assert options.starting == {"A": 7, "B": EARLIEST, "C": EARLIEST}
    assert options.ending == {"A": 9, "B": LATEST, "C": LATEST}
    assert (options.min_partitions, options.max_offsets_per_partition) == (12, 10)


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
        ("startingOffsets", "latest", "earliest (default)"),
        ("startingOffsets", "first", "'first' cannot be used; valid: earliest"),
        ("startingOffsets", "7", "earliest (default)"),
        ("startingOffsets", '{"ORDERS": -1}', "-1 of 'ORDERS' cannot be used"),
        ("startingOffsets", '{"ORDERS": 0}', "sequences begin with 1"),
        ("startingOffsets", '{"ORDERS": 1.5}', "1.5 of 'ORDERS' is not a sequence"),
        ("startingOffsets", '{"ORDERS": true}', "True of 'ORDERS' is not a sequence"),
        ("startingOffsets", '{"ORDERS": 9223372036854775808}', "cannot be used"),
        ("startingOffsets", '{"OTHER": 1}', "'OTHER' is not in option 'stream'; valid: one of ORDERS"),
        ("startingOffsets", '{"ORDERS": 1', '{"ORDERS": 100}'),
        ("endingOffsets", "earliest", "latest (default)"),
        ("endingOffsets", '{"ORDERS": -2}', "-2 of 'ORDERS' cannot be used"),
        ("minPartitions", "0", "a whole number from 1"),
        ("minPartitions", "two", "'two' is not a count"),
        ("maxOffsetsPerPartition", "-5", "'-5' is not a count"),
        ("maxOffsetsPerPartition", "", "'' is not a count"),
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


@pytest.mark.parametrize("servers", ["nats://joe:hunter2@a:1", "a:1,hunter2@b:2"])
def test_secrets_in_servers_are_refused_and_not_shown(servers: str) -> None:
    with pytest.raises(ValueError, match="'servers': user and password") as caught:
        read_options({**GOOD, "servers": servers})
    assert "hunter2" not in str(caught.value)


def test_unknown_options_warn_by_name_only() -> None:
    source = JetStreamSource({**GOOD, "startingOffset": "hunter2", "path": "x", "option.serialization": "1"})
    with pytest.warns(UserWarning, match="unknown options ignored: startingoffset; known: servers") as caught:
        source.reader(SCHEMA)
    assert len(caught) == 1
    assert "hunter2" not in str(caught[0].message)


def test_a_misspelled_required_option_is_pointed_at() -> None:
    with pytest.raises(ValueError, match=r"'stream': is required \(unknown options given: streem\)"):
        read_options({"servers": "a:1", "streem": "ORDERS"})
