"""Times in JSON payloads: zones of texts without an offset, and units of numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import jetarrow.sync
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jetarrow.polars import scan

ZONES = (
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Africa/Casablanca",
)
GAP = "2024-03-10T02:30:00"
GAP_IN_NEW_YORK = datetime(2024, 3, 10, 7, 30, tzinfo=UTC)
EPOCH = 1_710_037_800
UNIX = datetime.fromtimestamp(EPOCH, UTC)


def store(js: jetarrow.sync.JetStream, stream: str, payloads: Sequence[bytes]) -> None:
    js.publish_batch(f"{stream}.a", payloads).raise_for_errors()


def decoded(js: jetarrow.sync.JetStream, stream: str, schema: Any, **options: Any) -> list[Any]:
    rows = js.read(stream, columns=["value"], schema=schema, **options).read_all()
    return [None if value is None else value["t"] for value in rows.column("value").to_pylist()]


def test_local_times_agree_with_zoneinfo(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    rng = random.Random(7)
    times = [datetime(1975, 1, 1) + timedelta(minutes=rng.randrange(60 * 24 * 365 * 60)) for _ in range(2000)]
    # The hours around changes of the clocks.
    times += [datetime(2024, 3, 10) + timedelta(minutes=15 * number) for number in range(96)]
    times += [datetime(2024, 11, 3) + timedelta(minutes=15 * number) for number in range(96)]
    times += [datetime(2024, 10, 27) + timedelta(minutes=15 * number) for number in range(96)]
    store(sync_js, stream, [json.dumps({"t": time.isoformat()}).encode() for time in times])
    for zone in ZONES:
        found = decoded(sync_js, stream, {"t": "TIMESTAMP"}, time_zone=zone)
        expected = [time.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for time in times]
        assert found == expected, zone


def test_a_zone_applies_to_texts_without_an_offset_only(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    store(sync_js, stream, [json.dumps({"t": text}).encode() for text in (GAP, GAP + "Z", GAP + "+02:00")])
    found = decoded(sync_js, stream, "t TIMESTAMP", time_zone="America/New_York")
    assert found[0] == GAP_IN_NEW_YORK
    assert found[1:] == [datetime.fromisoformat(GAP + "+00:00"), datetime.fromisoformat(GAP + "+02:00")]
    assert decoded(sync_js, stream, "t TIMESTAMP")[0] == datetime.fromisoformat(GAP + "+00:00")
    # A type without a zone keeps the local time.
    naive = decoded(sync_js, stream, "t TIMESTAMP_NTZ", time_zone="America/New_York")
    assert naive == [datetime.fromisoformat(GAP), None, None]


def test_numbers_need_a_unit(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    store(sync_js, stream, [b'{"t": %d}' % EPOCH])
    for schema in ("t TIMESTAMP", {"t": "timestamp"}, {"t": datetime}):
        rows = sync_js.read(stream, schema=schema).read_all()
        assert rows.column("value").to_pylist() == [None]
        assert "a number whose unit is given" in rows.column("_error")[0].as_py()
        assert decoded(sync_js, stream, schema, timestamp_numbers="seconds") == [UNIX]
    typed = pa.schema([("t", pa.timestamp("s", "UTC"))])
    assert decoded(sync_js, stream, typed) == [UNIX]
    assert decoded(sync_js, stream, {"t": pa.timestamp("s", "UTC")}) == [UNIX]
    assert decoded(sync_js, stream, typed, timestamp_numbers="error") == [None]


@pytest.mark.parametrize(("unit", "factor"), [("seconds", 1), ("millis", 10**3), ("micros", 10**6), ("nanos", 10**9)])
def test_numbers_have_the_given_unit(sync_js: jetarrow.sync.JetStream, stream: str, unit: Any, factor: int) -> None:
    store(sync_js, stream, [b'{"t": %d}' % (EPOCH * factor), b'{"t": %d.5}' % (EPOCH * factor)])
    fraction = timedelta(microseconds=500_000 // factor)
    assert decoded(sync_js, stream, "t TIMESTAMP", timestamp_numbers=unit) == [UNIX, UNIX + fraction]


def test_all_readers_have_the_rules(
    sync_js: jetarrow.sync.JetStream, stream: str, nats_url: str, tmp_path: Path
) -> None:
    payloads = [json.dumps({"t": GAP}).encode(), b'{"t": %d}' % EPOCH]
    store(sync_js, stream, payloads)
    rules: dict[str, Any] = {"time_zone": "America/New_York", "timestamp_numbers": "seconds"}
    expected = [GAP_IN_NEW_YORK, UNIX]
    batch = next(iter(sync_js.read(stream)))
    assert [
        row["t"] for row in batch.decode("t TIMESTAMP", **rules).to_pyarrow().column("value").to_pylist()
    ] == expected
    latest = sync_js.latest(stream, schema="t TIMESTAMP", **rules).read_all()
    assert latest.column("value").to_pylist()[-1]["t"] == UNIX
    frame = scan(nats_url, stream, schema="t TIMESTAMP", **rules).select("t").collect()
    assert frame["t"].to_list() == expected
    for durable in (None, "archive"):
        folder = tmp_path / str(durable)
        sync_js.to_parquet(stream, folder, schema="t TIMESTAMP", durable=durable, **rules).run()
        assert pq.read_table(folder).column("t").to_pylist() == expected


def test_wrong_rules_are_refused_before_reading(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    store(sync_js, stream, [b"{}"])
    with pytest.raises(ValueError, match="timestamp_numbers must be one of error, seconds"):
        sync_js.read(stream, schema="t TIMESTAMP", timestamp_numbers="hours")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Mars/Base"):
        sync_js.read(stream, schema="t TIMESTAMP", time_zone="Mars/Base").read_all()
    with pytest.raises(TypeError, match="time_zone"):
        sync_js.read(stream, schema="t TIMESTAMP", time_zone=1)  # type: ignore[arg-type]
