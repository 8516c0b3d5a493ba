"""The zone of times without an offset: that of the session, found without the session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jetarrow.spark.options.session_zone import driver_zone, native_zone, session_zone
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from .tools import Here, Streams

TIMES = ["2024-03-10T02:30:00", "2024-11-03T01:30:00", "2024-07-01", "2024-07-01T12:00:00Z"]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, "Asia/Tokyo"),
        ({"spark.driver.extraJavaOptions": "-Xmx1g -Duser.timezone=Europe/Berlin -ea"}, "Europe/Berlin"),
        ({"spark.driver.defaultJavaOptions": "-Duser.timezone=GMT+2"}, "+02:00"),
        (
            {
                "spark.driver.defaultJavaOptions": "-Duser.timezone=UTC",
                "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
                "spark.sql.session.timeZone": "America/New_York",
            },
            "America/New_York",
        ),
    ],
)
def test_the_zone_of_the_session_precedes_that_of_the_jvm(properties: dict[str, str], expected: str) -> None:
    assert session_zone(properties.get, "Asia/Tokyo") == expected


def test_the_zone_of_the_driver_is_that_of_java(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TZ", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    assert driver_zone()
    monkeypatch.setenv("TZ", ":Europe/Paris")
    assert driver_zone() == "Europe/Paris"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.timezone=Asia/Tokyo")
    assert driver_zone() == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("Z", "UTC"),
        ("GMT", "UTC"),
        ("Etc/UTC", "UTC"),
        ("GMT+2", "+02:00"),
        ("PST", "America/Los_Angeles"),
        ("EST", "-05:00"),
        ("UTC-03:30", "-03:30"),
        ("+0530", "+05:30"),
    ],
)
def test_names_of_offsets_are_those_of_the_decoder(given: str, expected: str) -> None:
    assert native_zone(given) == expected
    assert native_zone("Europe/Berlin") == "Europe/Berlin"


@pytest.mark.xdist_group("spark")
@pytest.mark.slow
def test_times_agree_with_from_json(spark: SparkSession, nats_url: str, streams: Streams, tmp_path: Path) -> None:
    name = streams.new()
    streams.publish(name, [json.dumps({"t": time, "n": time}).encode() for time in TIMES])
    before = spark.conf.get("spark.sql.session.timeZone")
    options = {"servers": nats_url, "stream": name}
    ddl = "t timestamp, n timestamp_ntz"
    json_options = {"payload": "json", "valueSchema": ddl}
    try:
        for zone in ("America/New_York", "Asia/Kolkata", "GMT+2"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            raw = spark.read.format("jetstream").options(**options).load()
            theirs = raw.select("seq", F.from_json(F.col("data").cast("string"), ddl).alias("value"))
            texts = [F.col("seq"), F.col("value.t").cast("string"), F.col("value.n").cast("string")]
            expected = sorted(theirs.select(*texts).collect())
            assert expected[3][2] is None
            batch = spark.read.format("jetstream").options(**options, **json_options).load()
            assert sorted(batch.select(*texts).collect()) == expected, zone
            folder = tmp_path / zone.replace("/", "_")
            query = (
                spark.readStream.format("jetstream")
                .options(**options, **json_options, startingOffsets="earliest")
                .load()
                .select("seq", "value")
                .writeStream.format("parquet")
                .option("path", str(folder / "out"))
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(120)
            assert sorted(spark.read.parquet(str(folder / "out")).select(*texts).collect()) == expected, zone
            # The option precedes the session.
            utc = spark.read.format("jetstream").options(**options, **json_options, timeZone="UTC").load()
            spark.conf.set("spark.sql.session.timeZone", "UTC")
            assert min(utc.select(*texts).collect())[1] == "2024-03-10 02:30:00"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_units_of_numbers(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b'{"t": 1710037800, "n": 1710037800}'])
    options = {"payload": "json", "valueSchema": STRUCT}
    [value] = here.read(name, **options)["value"].to_pylist()
    assert (value["t"].isoformat(), value["n"]) == ("2024-03-10T02:30:00+00:00", None)
    [value] = here.read(name, timestampNumbers="millis", **options)["value"].to_pylist()
    assert (value["t"].isoformat(), value["n"].isoformat()) == (
        "1970-01-20T19:00:37.800000+00:00",
        "1970-01-20T19:00:37.800000",
    )
    table = here.read(name, timestampNumbers="error", **options)
    assert table["value"].to_pylist() == [{"t": None, "n": None}]
    assert table["_corrupt_record"][0].as_py() is not None
    with pytest.raises(ValueError, match=r"'timestampNumbers'.*valid: seconds"):
        here.read(name, timestampNumbers="hours", **options)


STRUCT = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("t", "timestamp"), ("n", "timestamp_ntz"))
        ],
    }
)
