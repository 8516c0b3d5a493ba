"""docs/scaling.md, run: the permissions that it names are enough, and its shards keep keys together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.server import NatsServer
from jetarrow.spark import connection
from jetarrow.spark.options.write import write_options
from jetarrow.spark.sink.batch_records import BatchName
from jetarrow.spark.sink.group_writer import GroupWriter
from jetarrow.spark.sink.partition_writer import PartitionWriter
from jetarrow.spark.sink.positions import Position
from jetarrow.spark.sink.target import prepare
from jetarrow.spark.source.stream_reader import ReadAllAvailable
from pyspark.sql.types import StringType, StructField, StructType

from .tools import Here

PAGE = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text("utf-8")
PASSWORDS = {"user": "spark", "password": "x", "inboxPrefix": "_INBOX_spark"}


def allowed(purpose: str) -> list[str]:
    """The subjects that the page's table allows for a purpose, with the stream and bucket of these tests."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {purpose} |"))
    found = re.findall(r"`([^`]+)`", row.split("|")[2])
    assert found
    return [subject.replace("STREAM_NAME", "S").replace("BUCKET", "B") for subject in found]


@pytest.fixture
def with_permissions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """`with_permissions(purpose, ..., **config)` starts a server with stream S, and returns its URL."""
    servers: list[NatsServer] = []
    clients: dict[Any, Any] = {}
    monkeypatch.setattr(connection, "_clients", clients)

    def start(*purposes: str, **config: Any) -> str:
        publish = json.dumps([subject for purpose in purposes for subject in allowed(purpose)])
        permissions = f'{{ publish: {publish}, subscribe: ["_INBOX_spark.>"] }}'
        users = f"{{user: admin, password: x}}, {{user: spark, password: x, permissions: {permissions}}}"
        server = NatsServer(config=f"authorization {{ users: [{users}] }}\n")
        servers.append(server)
        server.start()
        with jetarrow.sync.connect(server.url, user="admin", password="x") as nc:
            js = nc.jetstream()
            js.add_stream(name="S", subjects=["s.>"], **config)
            js.publish_batch("s.a", [b"%d" % i for i in range(20)]).raise_for_errors()
        return server.url

    yield start
    for client in clients.values():
        client.close()
    for server in servers:
        server.close()


def test_reading(with_permissions: Callable[..., str]) -> None:
    here = Here(with_permissions("read"))
    for more in ({}, {"subjects": "s.a"}, {"startingTimestamp": "2020-01-01Z"}, {"maxRecordsPerPartition": 5}):
        assert here.read("S", **PASSWORDS, **more).num_rows == 20
    state = here.read("S", **PASSWORDS, readMode="latest")
    assert 0 < state.num_rows == len(set(state.column("subject").to_pylist()))
    reader = here.stream("S", **PASSWORDS, startingOffsets="earliest", subjects="s.*")
    start = reader.initialOffset()
    assert here.batch(reader, start, reader.latestOffset(start, ReadAllAvailable())).num_rows == 20


def test_reading_by_direct_gets(with_permissions: Callable[..., str]) -> None:
    here = Here(with_permissions("read by direct gets", retention="workqueue", allow_direct=True))
    assert here.read("S", **PASSWORDS).num_rows == 20


def test_reading_by_a_pattern(with_permissions: Callable[..., str]) -> None:
    here = Here(with_permissions("read", "find streams by `streamPattern`"))
    assert here.read(streamPattern="S.*", **PASSWORDS).num_rows == 20


def test_purging(with_permissions: Callable[..., str]) -> None:
    queue = {"retention": "workqueue", "allow_direct": True}
    here = Here(with_permissions("read by direct gets", "`commitMode=purge`", **queue))
    reader = here.stream("S", **PASSWORDS, commitMode="purge")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader.commit(end)
    with jetarrow.sync.connect(here.url, user="admin", password="x") as nc:
        assert nc.jetstream().stream_info("S").state.messages == 0


@pytest.mark.parametrize(("mode", "state"), [("async", False), ("fast", False), ("atomic", False), ("async", True)])
def test_writing(with_permissions: Callable[..., str], mode: str, state: bool) -> None:
    purposes = ["write", "`exactlyOnce=state`"] if state else ["write"]
    url = with_permissions(*purposes, allow_batched=True, allow_atomic=True)
    given = {"servers": url, "stream": "S", "subject": "s.b", "publishMode": mode, **PASSWORDS}
    given |= {"exactlyOnce": "state", "sinkState": "B"} if state else {}
    options = write_options(given)
    prepare(StructType([StructField("data", StringType())]), options, overwrite=False, streaming=True)
    for _ in range(2):
        name = BatchName("q", 1, 0) if state else None
        task = PartitionWriter(options, window=120, scope="q:1:0", partition=0, name=name)
        assert task.write(iter([pa.RecordBatch.from_pydict({"data": [b"1", b"2"]})])) == 2
    with jetarrow.sync.connect(url, user="admin", password="x") as nc:
        assert nc.jetstream().stream_info("S").state.messages == 22


def test_writing_to_many_streams(with_permissions: Callable[..., str]) -> None:
    url = with_permissions("write", "find streams by `streamPattern`")
    options = write_options({"servers": url, "streamPattern": "S.*", **PASSWORDS})
    found = prepare(
        StructType([StructField(name, StringType()) for name in ("subject", "data")]),
        options,
        overwrite=False,
        streaming=False,
    )
    task = PartitionWriter(options, window=120, scope="q", partition=0, routes=found.routes)
    assert task.write(iter([pa.RecordBatch.from_pydict({"subject": ["s.a", "s.b"], "data": [b"1", b"2"]})])) == 2


def test_groups(with_permissions: Callable[..., str]) -> None:
    """Also if rows have ids, which are looked up in the stream when they are written again."""
    url = with_permissions("write", "`atomicBy` with `msg_id`", allow_atomic=True)
    options = write_options({"servers": url, "stream": "S", "subject": "s.b", "atomicBy": "order", **PASSWORDS})
    rows = pa.RecordBatch.from_pydict({"order": [1, 1], "msg_id": ["a", "b"], "data": [b"1", b"2"]})
    tasks = [GroupWriter(options, window=120, scope="q", partition=0) for _ in range(2)]
    assert [task.write(iter([rows])) for task in tasks] == [2, 2]
    assert [task.duplicates for task in tasks] == [0, 2]


def test_retry_of_a_task_after_the_window(with_permissions: Callable[..., str]) -> None:
    purposes = ["write", "write: a retry of a task after a quarter of the duplicate window"]
    for some in (purposes, purposes[:1]):
        url = with_permissions(*some)
        options = write_options({"servers": url, "stream": "S", "subject": "s.b", **PASSWORDS})
        rows = pa.RecordBatch.from_pydict({"data": [b"1", b"2"]})
        # Planned long ago: no time by the server's clock.
        created = jetarrow.sync.connect(url, user="admin", password="x").jetstream().stream_info("S").created_raw or ""
        planned = {"S": Position(20, created, 0.0, 120.0)}
        tasks = [
            PartitionWriter(options, window=120, scope="q", partition=0, planned=found) for found in (None, planned)
        ]
        assert tasks[0].write(iter([rows])) == 2
        if some == purposes:
            assert (tasks[1].write(iter([rows])), tasks[1].duplicates) == (2, 2)
            continue
        with pytest.raises(ValueError, match=r"this user may not read it .*CONSUMER\.CREATE\.S"):
            tasks[1].write(iter([rows]))


def test_shards() -> None:
    """The server's part of docs/scaling.md: every key is in one shard, in the order in which it was published."""
    mapping = re.search(r"^    (mappings .*)$", PAGE, re.MULTILINE)
    assert mapping is not None
    with NatsServer(config=mapping[1] + "\n") as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        for shard in range(4):
            js.add_stream(name=f"ORDERS_{shard}", subjects=[f"shard.{shard}.orders.*"])
        numbers = list(range(1_000))
        js.publish_batch([f"orders.k{i % 50}" for i in numbers], [b"%d" % i for i in numbers]).raise_for_errors()
        table = Here(server.url).read(streamPattern="ORDERS_.", payload="string")
    found: dict[str, list[tuple[str, int]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["subject"].rpartition(".")[2], []).append((row["stream"], int(row["data"])))
    assert len(found) == 50
    for key, rows in found.items():
        assert len({stream for stream, _ in rows}) == 1
        assert [number for _, number in rows] == list(range(int(key[1:]), 1_000, 50))
    assert len({rows[0][0] for rows in found.values()}) == 4
