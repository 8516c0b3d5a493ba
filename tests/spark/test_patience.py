"""reconnectTimeout: the time for which a read waits for unavailable servers."""

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
    """The batches of a read in small pieces after the first one: most rows are still on the server."""
    reader = own.source(name, batchRows=1, fetchBytes="1k", **options).reader(SCHEMA)
    found = reader.read(reader.partitions()[0])
    assert next(found)["seq"].to_pylist() == [1]
    return found


def sequences(batches: Iterator[Any]) -> list[int]:
    return [seq for batch in batches for seq in batch["seq"].to_pylist()]


def test_read_continues_after_server_restart(own: Here, own_server: NatsServer, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [bytes(100_000)] * COUNT)
    found = reading(own, name, reconnectTimeout="30s")
    own_server.kill()
    own_server.restart()
    assert sequences(found) == list(range(2, COUNT + 1))


def test_read_raises_if_server_stays_unavailable(own: Here, own_server: NatsServer, streams: Streams) -> None:
    """The task itself raises: the native reader would wait for a minute, and its error has another text."""
    name = streams.new()
    streams.publish(name, [bytes(100_000)] * COUNT)
    found = reading(own, name, reconnectTimeout="3s")
    own_server.kill()
    with pytest.raises(jetarrow.errors.TimeoutError, match="for 3 s; increase reconnect"):
        sequences(found)


def test_read_raises_if_server_is_paused(own: Here, own_server: NatsServer, streams: Streams) -> None:
    """The connection stays open, but the server does not respond."""
    name = streams.new()
    streams.publish(name, [bytes(100_000)] * COUNT)
    found = reading(own, name, reconnectTimeout="3s")
    own_server.pause()
    try:
        with pytest.raises(jetarrow.errors.TimeoutError, match="increase reconnectTimeout"):
            sequences(found)
    finally:
        own_server.resume()


@pytest.mark.parametrize("given", [{}, {"readMode": "latest"}])
def test_native_reader_gets_the_reconnect_timeout(
    own: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    """Checks the timeout that is passed to the native reader, because a test should not wait for a minute."""
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
def test_invalid_reconnect_timeout_is_rejected(here: Here, text: str) -> None:
    with pytest.raises(ValueError, match=r"option 'reconnectTimeout': .* default 60s"):
        here.plan("S", reconnectTimeout=text)
