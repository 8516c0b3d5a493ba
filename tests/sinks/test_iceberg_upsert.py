"""`js.to_iceberg(merge="upsert")`: one row for each key, in the snapshot with the position."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from jetarrow.jetstream.sinks.iceberg_commit import IcebergCommit
from jetarrow.jetstream.sinks.iceberg_merge import IcebergMerge
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkError, SinkLockedError

from .iceberg_tools import NAME, append, sql_catalog
from .kill_upsert import KEYS, MARKERS, SCHEMA, expected, messages


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    return sql_catalog(tmp_path)


def upsert(js: Any, stream: str, catalog: Any, **options: Any) -> Any:
    return js.to_iceberg(
        stream, NAME, catalog=catalog, **{"schema": SCHEMA, "merge": "upsert", "key": ["id"], **options}
    )


def rows(table: Any, *columns: str, snapshot: int | None = None) -> list[dict[str, Any]]:
    found = table.scan(snapshot_id=snapshot).to_arrow().sort_by("seq").select(columns or ["subject", "seq", *SCHEMA])
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed


async def put(js: JetStreamContext, stream: str, *values: tuple[Any, str], subject: str = "a") -> None:
    payloads = [json.dumps({"id": id, "region": region, "value": 1}).encode() for id, region in values]
    (await js.publish_batch(f"{stream}.{subject}", payloads)).raise_for_errors()


@pytest.mark.parametrize("kind", KEYS)
async def test_each_snapshot_equals_the_messages_up_to_its_position(
    js: JetStreamContext, stream: str, catalog: Any, kind: str
) -> None:
    sent = messages(stream, 7, 120)
    for subject, headers, payload in sent:
        await js.publish(subject, payload, headers=headers)
    for size in (9, 17):
        async with upsert(js, stream, catalog, **KEYS[kind], rows=size) as sink:
            for _ in range(3):
                await sink.step()
    await upsert(js, stream, catalog, **KEYS[kind], rows=13).run()
    table = catalog.load_table(NAME)
    options = {name: value for name, value in KEYS[kind].items() if name != "partition_by"}
    positions = []
    for snapshot in table.metadata.snapshots:
        positions.append(json.loads(snapshot.summary["jetarrow"])["last_seq"])
        found = rows(table, snapshot=snapshot.snapshot_id)
        assert found == expected(sent[: positions[-1]], **options), positions[-1]
    assert positions == sorted(positions)
    assert len(positions) >= 8
    assert positions[-1] == len(sent)
    assert any(headers in MARKERS for _, headers, _ in sent)


async def test_merge_is_repeated_after_a_snapshot_of_another_program(
    js: JetStreamContext, stream: str, catalog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(js, stream, (1, "eu"), (2, "eu"))
    await upsert(js, stream, catalog).run()
    await put(js, stream, (1, "us"))
    send, sends = IcebergCommit._send, []

    def crossed(self: IcebergCommit, table: Any, *args: Any) -> None:
        sends.append(table)
        if len(sends) == 1:
            append(catalog.load_table(NAME), seq=99)
        send(self, table, *args)

    monkeypatch.setattr(IcebergMerge, "_send", crossed)
    await upsert(js, stream, catalog).run()
    assert len(sends) == 2
    assert [(row["stream"], row["region"]) for row in rows(catalog.load_table(NAME), "stream", "region")] == [
        (stream, "eu"),
        (stream, "us"),
        ("other", None),
    ]


async def test_second_sink_of_an_app_id_is_locked_out(js: JetStreamContext, stream: str, catalog: Any) -> None:
    await put(js, stream, (1, "eu"))
    await upsert(js, stream, catalog).run()
    await put(js, stream, (1, "us"), (1, "ap"))
    async with upsert(js, stream, catalog, rows=1) as slow:
        await slow.step()
        await upsert(js, stream, catalog).run()
        with pytest.raises(SinkLockedError):
            await put(js, stream, (2, "us"))
            await slow.step()
    assert rows(catalog.load_table(NAME), "id", "region") == [{"id": 1, "region": "ap"}]


async def test_restart_with_other_options_and_a_second_sink_are_errors(
    js: JetStreamContext, stream: str, catalog: Any
) -> None:
    await put(js, stream, (1, "eu"))
    await upsert(js, stream, catalog).run()
    with pytest.raises(SinkError, match="give the former options"):
        await upsert(js, stream, catalog, key="subject").run()
    with pytest.raises(SinkError, match="this sink has merge='append'"):
        await js.to_iceberg(stream, NAME, catalog=catalog, schema=SCHEMA).run()
    with pytest.raises(SinkError, match="writes it to this table"):
        await upsert(js, stream, catalog, app_id="second").run()


async def test_streams_of_one_iceberg_table_have_their_own_rows(
    js: JetStreamContext, stream: str, catalog: Any
) -> None:
    other = f"{stream}X"
    await js.add_stream(name=other, subjects=[f"{other}.>"])
    for turn in ("eu", "us"):
        for name in (stream, other):
            await put(js, name, (1, turn), (2, turn))
            await upsert(js, name, catalog).run()
    await js.publish(f"{other}.a", b"", headers={"KV-Operation": "PURGE"})
    await upsert(js, other, catalog).run()
    assert rows(catalog.load_table(NAME), "stream", "id", "region") == [
        {"stream": stream, "id": id, "region": "us"} for id in (1, 2)
    ]


async def test_new_columns_are_added_in_the_snapshot_of_a_merge(
    js: JetStreamContext, stream: str, catalog: Any
) -> None:
    await put(js, stream, (1, "eu"), (2, "eu"))
    await upsert(js, stream, catalog).run()
    await js.publish(f"{stream}.a", b'{"id": 2, "more": 7}')
    await upsert(js, stream, catalog, schema={"id": int, "more": int}, evolve="add").run()
    table = catalog.load_table(NAME)
    assert rows(table, "id", "region", "more") == [
        {"id": 1, "region": "eu", "more": None},
        {"id": 2, "region": None, "more": 7},
    ]
    assert len(table.metadata.snapshots) == 2
    assert pa.types.is_int64(table.schema().as_arrow().field("more").type)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["", "a", "A", "a'b", "é", "x" * 300, "x" * 300 + "y", chr(0x10FFFF) * 20]),
        (pa.int8(), [-128, 0, 127]),
        (pa.int64(), [-(2**63), 0, 2**63 - 1]),
        (pa.bool_(), [True, False]),
        (pa.binary(), ["AA==", "/w==", "YWJj"]),
        (pa.decimal128(38, 2), ["-1.50", "1.50", "0.00"]),
        (pa.date32(), ["1969-12-31", "2026-11-26"]),
        (pa.timestamp("us", "UTC"), ["1969-12-31T23:59:59.999999Z", "2026-11-26T10:00:00.000001Z"]),
        (pa.timestamp("ms"), ["2026-11-26T10:00:00.001", "2026-11-26T10:00:00.002"]),
    ],
)
async def test_key_of_each_type_is_found_again_in_iceberg(
    js: JetStreamContext, stream: str, catalog: Any, kind: pa.DataType, values: list[Any]
) -> None:
    schema = pa.schema([("id", kind), ("region", pa.string())])
    for turn in ("one", "two"):
        await put(js, stream, *((value, turn) for value in values))
        await js.publish(f"{stream}.none", b"", headers={"KV-Operation": "DEL"})
        await upsert(js, stream, catalog, schema=schema, rows=2).run()
        found = rows(catalog.load_table(NAME), "id", "region")
        assert len({row["id"] for row in found}) == len(found) == len(values)
        assert {row["region"] for row in found} == {turn}
