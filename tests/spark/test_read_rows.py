"""Rows made from messages, read in this process: payloads, optional columns, projections."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.js.errors import DecodeError
from jetarrow.spark.schema import SCHEMA
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

if TYPE_CHECKING:
    from .tools import Here, Streams

ITEM = StructType([StructField("id", LongType()), StructField("name", StringType())])
CORRUPT = b'{"id": "no number"}'
ODD = b"\xff\xfe"


def compressed(codec: str, payload: bytes) -> bytes:
    whole: bytes = pa.compress(payload, codec="zstd", asbytes=True) if codec == "zstd" else zlib.compress(payload)
    return whole


def test_nanoseconds_and_reply(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 5)
    table = here.read(name, includeTimeNs=True, includeReply=True, minPartitions=2)
    assert table.column_names == [*SCHEMA.names, "time_ns", "reply"]
    for when, nanoseconds in zip(table["timestamp"].to_pylist(), table["time_ns"].to_pylist(), strict=True):
        seconds, fraction = divmod(nanoseconds, 10**9)
        assert when == when.fromtimestamp(seconds, when.tzinfo) + timedelta(microseconds=fraction // 1000)
    assert any(nanoseconds % 1000 for nanoseconds in table["time_ns"].to_pylist())
    assert all(reply.startswith(f"$JS.ACK.{name}.") for reply in table["reply"].to_pylist())
    alone = here.read(name, StructType([StructField("time_ns", LongType())]))
    assert alone["time_ns"].to_pylist() == table["time_ns"].to_pylist()


def test_headers_can_be_left_out(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"])
    assert here.read(name, includeHeaders=False).column_names == [n for n in SCHEMA.names if n != "headers"]
    with pytest.raises(ValueError, match="there is no column 'headers'; a schema selects from these columns: stream"):
        here.read(name, StructType([SCHEMA["headers"]]), includeHeaders=False)


def test_text(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, ["grün".encode(), b"", b"plain"])
    assert here.read(name, payload="string")["data"].to_pylist() == ["grün", "", "plain"]
    streams.publish(name, [ODD, b"after"])
    with pytest.raises(DecodeError, match=r"is not UTF-8 \(invalid start byte at byte 0\)") as error:
        here.read(name, payload="string")
    assert (error.value.seq, error.value.column) == (4, "data")
    kept = here.read(name, payload="string", mode="PERMISSIVE")
    assert kept["data"].to_pylist() == ["grün", "", "plain", "\ufffd\ufffd", "after"]
    dropped = here.read(name, payload="string", mode="DROPMALFORMED")
    assert list(zip(*dropped.select(["seq", "data"]).to_pydict().values(), strict=True)) == [
        (1, "grün"),
        (2, ""),
        (3, "plain"),
        (5, "after"),
    ]


def values(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("codec", ["none", "zlib", "zstd"])
def test_json(here: Here, streams: Streams, codec: str) -> None:
    name = streams.new()
    payloads = [b'{"id": 1, "name": "a", "more": [1]}', CORRUPT, b'{"name": null}', ODD]
    if codec != "none":
        payloads = [compressed(codec, payload) for payload in payloads]
    streams.publish(name, payloads)
    options = {"payload": "json", "valueSchema": ITEM.json(), "compression": codec}
    first, third = {"id": 1, "name": "a"}, {"id": None, "name": None}

    table = here.read(name, **options, columnNameOfCorruptRecord="bad")
    assert table.column_names == ["stream", "seq", "subject", "timestamp", "headers", "value", "bad"]
    base64_of_odd = base64.b64encode(ODD).decode()
    assert values(table, "seq", "value", "bad") == [
        (1, first, None),
        # The fields that fit are kept: none.
        (2, third, CORRUPT.decode()),
        (3, third, None),
        (4, None, base64_of_odd),
    ]
    dropped = here.read(name, **options, mode="DROPMALFORMED")
    assert "_corrupt_record" not in dropped.column_names
    assert values(dropped, "seq", "value") == [(1, first), (3, third)]
    with pytest.raises(DecodeError, match="in id: expected an integer") as error:
        here.read(name, **options, mode="FAILFAST")
    assert error.value.seq == 2
    # Filters apply before decoding: a message that does not match cannot fail.
    matching = here.read(name, **options, mode="FAILFAST", subjects=f"{name}.2,{name}.9")
    assert values(matching, "seq", "value") == [(3, third)]


def test_json_types_are_those_that_spark_demands(here: Here, streams: Streams) -> None:
    name = streams.new()
    kind = StructType(
        [
            StructField("t", TimestampType()),
            StructField("l", ArrayType(StructType([StructField("d", DoubleType(), nullable=False)]))),
            StructField("m", MapType(StringType(), LongType())),
            StructField("s", StringType(), nullable=False),
        ]
    )
    document = {"t": "2025-01-02T03:04:05.678Z", "l": [{"d": 1.5}], "m": {"k": 1}, "s": "x"}
    streams.publish(name, [json.dumps(document).encode(), b'{"s": null}'])
    table = here.read(name, StructType([StructField("value", kind), SCHEMA["seq"]]), payload="json")
    first, second = table["value"].to_pylist()
    assert first | {"t": None} == {"t": None, "l": [{"d": 1.5}], "m": [("k", 1)], "s": "x"}
    assert first["t"].isoformat() == "2025-01-02T03:04:05.678000+00:00"
    assert second is None
    for wrong, path in (
        (VariantType(), "v"),
        (ArrayType(VariantType()), r"v\[\]"),
        (MapType(LongType(), LongType()), "v"),
    ):
        with pytest.raises(ValueError, match=rf"value\.{path} is .*, which is not decoded from JSON; valid: boolean"):
            here.plan(name, payload="json", valueSchema=StructType([StructField("v", wrong)]).json())


def test_json_needs_a_schema(here: Here, streams: Streams) -> None:
    name = streams.new()
    with pytest.raises(ValueError, match="'valueSchema': is required with payload=json; valid: the fields"):
        here.read(name, payload="json")
    with pytest.raises(ValueError, match="'valueSchema': cannot be read"):
        here.read(name, payload="json", valueSchema='{"type": "struct"')
    lonely = StructType([StructField("_corrupt_record", StringType())])
    with pytest.raises(ValueError, match="column '_corrupt_record' needs column 'value'"):
        here.read(name, lonely, payload="json")
    assert here.source(name, payload="json", valueSchema="id bigint").schema() == (
        "`stream` string NOT NULL, `seq` bigint NOT NULL, `subject` string NOT NULL, `timestamp` timestamp NOT NULL,"
        " `headers` map<string,array<string>>, value struct<id bigint>, `_corrupt_record` string"
    )


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
def test_compressed_payloads(here: Here, streams: Streams, codec: str) -> None:
    name = streams.new()
    streams.publish(name, [compressed(codec, b"one" * 1000), compressed(codec, b"")])
    assert here.read(name, compression=codec)["data"].to_pylist() == [b"one" * 1000, b""]
    assert here.read(name, compression=codec, payload="string")["data"].to_pylist() == ["one" * 1000, ""]
    streams.publish(name, [b"not compressed"])
    with pytest.raises(DecodeError, match=f"a payload of stream '{name}' is not {codec}") as error:
        here.read(name, compression=codec)
    assert error.value.seq == 3
    assert here.read(name, compression=codec, mode="PERMISSIVE")["data"].to_pylist()[2] == b"not compressed"
    assert here.read(name, compression=codec, mode="DROPMALFORMED").num_rows == 2
    # The schema has no payloads, so they are not decompressed.
    assert here.read(name, StructType([SCHEMA["seq"]]), compression=codec).num_rows == 3


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
def test_payload_above_max_payload_bytes_is_malformed(here: Here, streams: Streams, codec: str) -> None:
    """Without the limit a worker would hold in memory a thousand times the bytes that were sent."""
    name = streams.new()
    bomb = compressed(codec, bytes(3_000_000))
    assert len(bomb) < 10_000
    streams.publish(name, [compressed(codec, b'{"id": 1}'), bomb, compressed(codec, b'{"id": 2}')])
    options = {"compression": codec, "maxPayloadBytes": "1m"}
    said = f"a payload of stream '{name}' has more than 1048576 bytes when it is decompressed .option maxPayloadBytes"
    for mode in ({}, {"mode": "FAILFAST"}):
        with pytest.raises(DecodeError, match=said) as error:
            here.read(name, **options, **mode)
        assert error.value.seq == 2
    assert here.read(name, **options, mode="PERMISSIVE")["data"].to_pylist()[1] == bomb
    assert here.read(name, **options, mode="DROPMALFORMED")["seq"].to_pylist() == [1, 3]
    json = {**options, "payload": "json", "valueSchema": ITEM.json()}
    found = values(here.read(name, **json), "seq", "value", "_corrupt_record")
    assert [row[1] and row[1]["id"] for row in found] == [1, None, 2]
    assert found[1][2] is not None
    assert here.read(name, compression=codec)["data"].to_pylist()[1] == bytes(3_000_000)
    with pytest.raises(ValueError, match=r"'maxPayloadBytes': 1073741824 is more than a batch can hold; valid: up to"):
        here.read(name, compression=codec, maxPayloadBytes="1g")


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
def test_batches_are_cut_by_decompressed_size(here: Here, streams: Streams, codec: str) -> None:
    name = streams.new()
    payloads = [bytes([i]) * 10_000 for i in range(50)]
    streams.publish(name, [compressed(codec, payload) for payload in payloads])
    reader = here.source(name, compression=codec, batchBytes="100k").reader(SCHEMA)
    batches = list(reader.read(reader.partitions()[0]))
    assert [len(batch) for batch in batches] == [11, 11, 11, 11, 6]
    assert [payload for batch in batches for payload in batch["data"].to_pylist()] == payloads
    assert [seq for batch in batches for seq in batch["seq"].to_pylist()] == list(range(1, 51))


def test_gzip_is_zlib_too(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [gzip.compress(b"text"), gzip.compress(b"one") + gzip.compress(b"two")])
    assert here.read(name, compression="zlib")["data"].to_pylist() == [b"text", b"onetwo"]


def test_batches_are_cut_by_batch_rows_and_batch_bytes(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [bytes(1000)] * 100)
    source = here.source(name, batchRows=30)
    reader = source.reader(SCHEMA)
    assert [len(batch) for batch in reader.read(reader.partitions()[0])] == [30, 30, 30, 10]
    reader = here.source(name, batchBytes="20k", fetchBytes="1k").reader(SCHEMA)
    sizes = [len(batch) for batch in reader.read(reader.partitions()[0])]
    assert sum(sizes) == 100
    assert max(sizes) <= 21


def test_headers_of_direct_gets_are_those_of_the_message(here: Here, streams: Streams) -> None:
    name = streams.new(retention="workqueue", allow_direct=True)
    with jetarrow.sync.connect(streams.url) as client:
        client.jetstream().publish(f"{name}.a", b"1")
        client.jetstream().publish(f"{name}.a", b"2", headers={"k": ["v", "w"]})
    table = here.read(name, includeReply=True)
    assert table["headers"].to_pylist() == [None, [("k", ["v", "w"])]]
    assert table["reply"].to_pylist() == [None, None]
    assert streams.left(name) == [1, 2]
