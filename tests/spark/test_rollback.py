"""Rolled-back streams are detected between batches of a query, by a task since its plan, and before a commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.js.errors import StreamRolledBackError
from jetarrow.server import NatsServer
from jetarrow.spark import connection
from jetarrow.spark.source import history, idle_backoff
from jetarrow.spark.source.stream_reader import ReadAllAvailable, ReadMaxRows
from pyspark.sql import SparkSession

from ..rollback.tools import Copy
from .tools import Here, Streams, wait_until

ALL = ReadAllAvailable()
# A multiple of 3: `publish` uses three subjects in turn.
HALF = 51


@pytest.fixture
def streams(own_server: NatsServer) -> Streams:
    return Streams(own_server.url)


@pytest.fixture
def here(own_server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    clients: dict[Any, Any] = {}
    monkeypatch.setattr(connection, "_clients", clients)
    monkeypatch.setattr(history, "_NEW_LEADER_TIMEOUT", 0.3)
    # On a busy machine a query with a filter would pause for longer than the test takes to publish.
    monkeypatch.setattr(idle_backoff, "_MAX_BACKOFF", 0.0)
    yield Here(own_server.url)
    for client in clients.values():
        client.close()


def _behind(streams: Streams, name: str) -> None:
    streams.publish(name, [b"new"] * 5)


def _equal(streams: Streams, name: str) -> None:
    streams.publish(name, [b"new"] * HALF)


def _past(streams: Streams, name: str) -> None:
    streams.publish(name, [b"new"] * 3 * HALF)


def _deleted(streams: Streams, name: str) -> None:
    _past(streams, name)
    streams.delete_messages(name, [2 * HALF - 1, 2 * HALF + 1])


def _nothing(streams: Streams, name: str) -> None:
    pass


SINCE = {"behind": _behind, "equal": _equal, "past": _past, "deleted": _deleted, "nothing": _nothing}


class Query:
    """A query that reads its whole stream, which is rolled back to half of its messages."""

    def __init__(self, here: Here, streams: Streams, copy: Copy, **options: object) -> None:
        self.here, self.streams, self.copy, self.options = here, streams, copy, options
        self.name = streams.new()
        self.reader = here.stream(self.name, startingOffsets="earliest", **options)
        self.limit = ReadMaxRows(20) if "maxOffsetsPerTrigger" in options else ALL
        streams.publish(self.name, [b"old"] * HALF)
        self.offsets = [self.reader.initialOffset()]
        self.read_on()
        copy.take()
        streams.publish(self.name, [b"old"] * HALF)
        self.read_on()

    def read_on(self) -> list[bytes]:
        """Reads all available messages; offsets pass through JSON text, as in Spark's log."""
        rows: list[bytes] = []
        while True:
            end = json.loads(json.dumps(self.reader.latestOffset(self.offsets[-1], self.limit)))
            if end == self.offsets[-1]:
                return rows
            rows += self.here.batch(self.reader, self.offsets[-1], end)["data"].to_pylist()
            self.offsets.append(end)

    def go_back(self, since: str) -> None:
        self.copy.put_back()
        SINCE[since](self.streams, self.name)

    def restart(self, **options: object) -> None:
        self.reader = self.here.stream(self.name, **{**self.options, **options})


@pytest.fixture
def query(here: Here, streams: Streams, own_server: NatsServer, tmp_path: Path) -> Callable[..., Query]:
    return lambda **options: Query(here, streams, Copy(own_server, tmp_path / "copy"), **options)


FORMS = {"whole": {}, "limited": {"maxOffsetsPerTrigger": 20}, "filtered": {"subjects": "*.0,*.2"}}


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("since", SINCE)
def test_a_query_fails(query: Callable[..., Query], since: str, form: str, *, restart: bool) -> None:
    asked = query(**FORMS[form])
    asked.go_back(since)
    if restart:
        asked.restart()
    with pytest.raises(StreamRolledBackError, match="set onRollback to continue") as raised:
        asked.read_on()
    error = raised.value
    assert (error.stream, error.expected is not None) == (asked.name, True)
    # With a filter the last message that was read is not the stream's last.
    assert error.last_good is not None
    assert HALF - 3 < error.last_good[0] <= HALF
    # The next attempt fails too.
    with pytest.raises(StreamRolledBackError):
        asked.read_on()


@pytest.mark.filterwarnings("ignore:jetstream. stream .* was rolled back")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("since", SINCE)
@pytest.mark.parametrize("chosen", ["continue", "earliest"])
def test_a_query_goes_on(query: Callable[..., Query], since: str, form: str, chosen: str) -> None:
    asked = query(**FORMS[form])
    asked.go_back(since)
    asked.restart(onRollback=chosen)
    taken = [seq for seq in asked.streams.left(asked.name) if form != "filtered" or seq % 3 != 2]
    rows = asked.read_on()
    new = sum(seq > HALF for seq in taken)
    assert rows.count(b"new") == new
    # Messages of both histories were read already.
    assert len(rows) - new == (len(taken) - new if chosen == "earliest" else 0)
    asked.streams.publish(asked.name, [b"later"] * 3)
    wait_until(lambda: b"later" in (rows.extend(asked.read_on()) or rows))
    assert rows.count(b"later") == (2 if form == "filtered" else 3)


def test_a_checkpoint_of_an_earlier_version(query: Callable[..., Query]) -> None:
    """It has no times of messages, so only the end of the stream is checked."""
    asked = query()
    for entry in asked.offsets[-1]["streams"].values():
        del entry["marks"]
    asked.copy.put_back()
    asked.restart()
    with pytest.raises(StreamRolledBackError, match=f"message {2 * HALF} was seen, and the stream ends at {HALF} now"):
        asked.read_on()
    _past(asked.streams, asked.name)
    assert len(asked.read_on()) == 2 * HALF


@pytest.mark.parametrize("since", ["equal", "past"])
def test_a_batch_that_was_planned_before(query: Callable[..., Query], since: str) -> None:
    """A task that runs, or runs again, after the rollback raises or warns; it never silently reads the new history."""
    asked = query()
    asked.go_back(since)
    with pytest.raises(StreamRolledBackError, match="set onRollback"):
        asked.here.batch(asked.reader, *asked.offsets[-2:])
    asked.restart(onRollback="continue")
    with pytest.warns(UserWarning, match="was rolled back"):
        assert len(asked.here.batch(asked.reader, *asked.offsets[-2:])) == HALF


def test_first_task_checks_messages_before_its_batch(query: Callable[..., Query]) -> None:
    """If the rollback was not detected earlier: the messages before the batch have been replaced."""
    asked = query()
    asked.go_back("past")
    end = asked.here.stream(asked.name, startingOffsets="latest").initialOffset()
    end["from"] = asked.offsets[-1]["streams"]
    first, *others = asked.reader.partitions(asked.offsets[-1], end)
    assert not others
    with pytest.raises(StreamRolledBackError):
        list(asked.reader.read(first))


@pytest.mark.parametrize("mode", ["all", "latest"])
def test_a_batch_read(here: Here, streams: Streams, own_server: NatsServer, tmp_path: Path, mode: str) -> None:
    name, copy = streams.new(), Copy(own_server, tmp_path / "copy")
    streams.publish(name, [b"old"] * HALF)
    copy.take()
    streams.publish(name, [b"old"] * HALF)
    source = here.source(name, readMode=mode)
    schema = source.schema()
    reader = source.reader(schema)
    partitions = reader.partitions()
    assert len(here.table(schema, reader, partitions)) == (2 * HALF if mode == "all" else 3)
    copy.put_back()
    _past(streams, name)
    with pytest.raises(StreamRolledBackError, match="load it again"):
        here.table(schema, reader, partitions)
    again = reader.partitions()
    assert len(here.table(schema, reader, again)) == (4 * HALF if mode == "all" else 3)
    with pytest.raises(ValueError, match="'onRollback': a batch read has no position to continue at; valid: fail"):
        here.read(name, onRollback="continue")


@pytest.mark.filterwarnings("ignore:jetstream. stream .* was rolled back")
@pytest.mark.parametrize("chosen", ["fail", "continue"])
@pytest.mark.parametrize(
    ("mode", "retention"), [("purge", "workqueue"), ("consumer", "interest")], ids=["purge", "consumer"]
)
def test_nothing_is_committed_that_was_not_read(
    here: Here, streams: Streams, own_server: NatsServer, tmp_path: Path, mode: str, retention: str, chosen: str
) -> None:
    name, copy = streams.new(retention=retention, allow_direct=True), Copy(own_server, tmp_path / "copy")
    options = {"commitMode": mode} | ({"commitConsumer": "spark"} if mode == "consumer" else {})
    reader = here.stream(name, startingOffsets="earliest", onRollback=chosen, **options)
    start = reader.initialOffset()
    # An interest stream keeps only messages published after the consumer was created.
    streams.publish(name, [b"old"] * 5)
    start = reader.latestOffset(start, ALL)
    copy.take()
    streams.publish(name, [b"old"] * 5)
    end = reader.latestOffset(start, ALL)
    assert len(here.batch(reader, start, end)) == 5
    copy.put_back()
    streams.publish(name, [b"new"] * 10)
    if chosen == "fail":
        with pytest.raises(StreamRolledBackError):
            reader.commit(end)
    else:
        reader.commit(end)
    assert streams.left(name) == list(range(1, 16))


def test_no_false_alarm(here: Here, streams: Streams, own_server: NatsServer) -> None:
    """Restarts, deleted, purged and expired messages, compaction, and a stream that was emptied."""
    name = streams.new(max_msgs_per_subject=40)
    reader = here.stream(name, startingOffsets="earliest", failOnDataLoss="false")
    offsets = [reader.initialOffset()]

    def go_on(count: int = 30) -> None:
        streams.publish(name, [b"x"] * count)
        offsets.append(json.loads(json.dumps(reader.latestOffset(offsets[-1], ALL))))
        here.batch(reader, *offsets[-2:])

    def last() -> int:
        return int(offsets[-1]["streams"][name]["next"]) - 1

    go_on()
    for disturbance in (
        own_server.restart,
        lambda: streams.delete_messages(name, [last()]),
        lambda: streams.purge(name, before=last() + 1),
        lambda: streams.purge(name, before=last() - 3),
        lambda: streams.publish(name, [b"x"] * 200),
        lambda: streams.update(name, max_age=1_000_000_000, duplicate_window=1_000_000_000),
    ):
        disturbance()
        own_server.restart()
        reader = here.stream(name, startingOffsets="earliest", failOnDataLoss="false")
        assert reader.latestOffset(offsets[-1], ALL)
        own_server.restart()
        go_on()
    wait_until(lambda: streams.messages(name) == 0)
    own_server.restart()
    reader = here.stream(name, startingOffsets="earliest", failOnDataLoss="false")
    assert reader.latestOffset(offsets[-1], ALL) == offsets[-1]
    go_on()


def test_rollback_checks_request_at_most_one_message(here: Here, streams: Streams, own_server: NatsServer) -> None:
    """A query that keeps up requests no message, one that starts or reconnects one; a task requests none or one."""
    name = streams.new()
    with jetarrow.sync.connect(own_server.url) as nc:
        seen = nc.subscribe("$JS.API.STREAM.MSG.GET.>")

        def asked() -> int:
            nc.flush()
            return sum(1 for _ in iter(lambda: _next(seen), None))

        reader = here.stream(name, startingOffsets="earliest")
        at = reader.initialOffset()
        for _ in range(5):
            streams.publish(name, [b"x"] * 10)
            start, at = at, reader.latestOffset(at, ALL)
            here.batch(reader, start, at)
        # The first task of a batch requests one message that was read before.
        assert asked() == 4
        streams.publish(name, [b"x"] * 10)
        here.stream(name).latestOffset(at, ALL)
        assert asked() == 1


def _next(subscription: Any) -> Any:
    try:
        return subscription.next_msg(timeout=0.2)
    except jetarrow.errors.TimeoutError:
        return None


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("chosen", ["fail", "continue"])
def test_through_spark(
    spark: SparkSession, streams: Streams, own_server: NatsServer, tmp_path: Path, chosen: str
) -> None:
    name, copy = streams.new(), Copy(own_server, tmp_path / "copy")
    rows: list[bytes] = []
    streams.publish(name, [b"old"] * HALF)
    copy.take()
    query = (
        spark.readStream.format("jetstream")
        .options(servers=own_server.url, stream=name, startingOffsets="earliest", onRollback=chosen)
        .load()
        .writeStream.foreachBatch(lambda frame, _: rows.extend(row.data for row in frame.select("data").collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        wait_until(lambda: len(rows) == HALF)
        streams.publish(name, [b"old"] * HALF)
        wait_until(lambda: len(rows) == 2 * HALF)
        copy.put_back()
        _past(streams, name)
        if chosen == "fail":
            wait_until(lambda: not query.isActive)
            assert "was rolled back" in str(query.exception())
            assert rows.count(b"new") == 0
        else:
            wait_until(lambda: rows.count(b"new") >= 3 * HALF)
    finally:
        query.stop()
