"""reconnectTimeout: for how long a read waits for servers that are away."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import jetarrow
import pytest
from jetarrow.server import NatsServer
from jetarrow.spark import _core
from jetarrow.spark.schema import SCHEMA
from jetarrow.sync import internals

from .tools import Here, Streams

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 40


@pytest.fixture
def streams(own_server: NatsServer) -> Streams:
    return Streams(own_server.url)


@pytest.fixture
def own(here: Here, own_server: NatsServer) -> Here:
    """On a server of the test's own, which may be killed."""
    here.url = own_server.url
    return here


def reading(own: Here, name: str, **options: object) -> Iterator[Any]:
    """The batches of a read of small pieces, of which the first was taken: most is still at the server."""
    reader = own.source(name, batchRows=1, fetchBytes="1k", **options).reader(SCHEMA)
    found = reader.read(reader.partitions()[0])
    assert next(found)["seq"].to_pylist() == [1]
    return found


def sequences(batches: Iterator[Any]) -> list[int]:
    return [seq for batch in batches for seq in batch["seq"].to_pylist()]


def test_a_server_that_comes_back(own: Here, own_server: NatsServer, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [bytes(100_000)] * COUNT)
    found = reading(own, name, reconnectTimeout="30s")
    own_server.kill()
    own_server.restart()
    assert sequences(found) == list(range(2, COUNT + 1))


def test_a_server_that_does_not(own: Here, own_server: NatsServer, streams: Streams) -> None:
    """The task says so by itself: the native reader waits for a minute, and its words are others."""
    name = streams.new()
    streams.publish(name, [bytes(100_000)] * COUNT)
    found = reading(own, name, reconnectTimeout="1s")
    own_server.kill()
    with pytest.raises(jetarrow.errors.TimeoutError, match="for 1 s; increase reconnect"):
        sequences(found)


def test_a_server_that_stands_still(own: Here, own_server: NatsServer, streams: Streams) -> None:
    """The connection is there, and nobody answers."""
    name = streams.new()
    streams.publish(name, [bytes(100_000)] * COUNT)
    found = reading(own, name, reconnectTimeout="1s")
    own_server.pause()
    try:
        with pytest.raises(jetarrow.errors.TimeoutError, match="increase reconnectTimeout"):
            sequences(found)
    finally:
        own_server.resume()


@pytest.mark.parametrize("given", [{}, {"readMode": "latest"}])
def test_longer_than_a_reader_waits_by_itself(
    own: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    """Nobody waits for a minute here: what the native reader is told is what counts."""
    name = streams.new()
    streams.publish(name, [b"x"])
    told: list[object] = []

    def opened(*args: Any, **arguments: Any) -> Any:
        told.append(arguments["outage"])
        return internals.open_reader(*args, **arguments)

    monkeypatch.setattr(_core, "open_reader", opened)
    assert own.read(name, **given, reconnectTimeout="5m").num_rows == 1
    assert own.read(name, **given).num_rows == 1
    assert told == [300, 60]


def test_planning_of_a_streaming_query(own: Here, own_server: NatsServer, streams: Streams) -> None:
    name = streams.new()
    reader = own.stream(name, startingOffsets="earliest", reconnectTimeout="1s")
    start = reader.initialOffset()
    own_server.kill()
    begun = time.monotonic()
    with pytest.raises((jetarrow.errors.NoServersError, jetarrow.errors.TimeoutError)):
        reader.latestOffset(start, None)
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("text", ["0s", "500ms", "soon", "5"])
def test_what_is_no_such_time(here: Here, text: str) -> None:
    with pytest.raises(ValueError, match=r"option 'reconnectTimeout': .* default 60s"):
        here.plan("S", reconnectTimeout=text)
