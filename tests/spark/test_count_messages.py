"""`count_messages` is exact, and the messages stay at the server."""

from __future__ import annotations

import json
import random
from datetime import datetime
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import pytest
from jetarrow.js.errors import DataLossError, NotFoundError
from jetarrow.server import NatsServer
from jetarrow.spark import count_messages
from jetarrow.spark.source import metadata

from ..tools import free_port
from .tools import Here, Streams, bytes_out

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def counted(nats_url: str) -> Callable[..., int]:
    return lambda stream, **options: count_messages(servers=nats_url, stream=stream, **options)


def ranges(name: str, chance: random.Random) -> dict[str, Any]:
    """Options of a part of a stream with 90 sequences."""
    given: dict[str, Any] = {}
    start, end = sorted(chance.sample(range(1, 92), 2))
    if chance.random() < 0.7:
        given["startingOffsets"] = json.dumps({name: start})
    if chance.random() < 0.7:
        given["endingOffsets"] = json.dumps({name: end})
    if chance.random() < 0.6:
        given["subjects"] = chance.choice([f"{name}.1", f"{name}.0,{name}.2", f"{name}.*", f"{name}.9"])
    return given


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
def test_counts_are_those_of_the_rows(
    here: Here, streams: Streams, counted: Callable[..., int], retention: str
) -> None:
    chance = random.Random(27)
    name = streams.new(retention=retention, allow_direct=True)
    streams.publish(name, [b"x"] * 90)
    # Without gaps, then with some.
    for deleted in ([], chance.sample(range(2, 90), 30)):
        streams.delete_messages(name, deleted)
        assert counted(name) == here.read(name).num_rows == 90 - len(deleted)
        seen = set()
        for _ in range(25):
            given = ranges(name, chance)
            seen.add(here.read(name, **given).num_rows)
            assert counted(name, **given) == here.read(name, **given).num_rows, given
        assert len(seen) > 5


def test_several_streams_and_times(here: Here, streams: Streams, counted: Callable[..., int]) -> None:
    names = [streams.new() for _ in range(3)]
    for name, count in zip(names, (0, 10, 20), strict=True):
        streams.publish(name, [b"x"] * count)
    streams.delete_messages(names[2], [5, 6])
    assert counted(",".join(names)) == 28
    tenth = here.read(names[2]).column("timestamp").to_pylist()[9]
    assert isinstance(tenth, datetime)
    for side in ("starting", "ending"):
        given = {f"{side}Timestamp": tenth.isoformat(), "includeHeaders": False, "maxOffsetsPerPartition": None}
        rows = here.read(names[2], **{f"{side}Timestamp": tenth.isoformat()}).num_rows
        assert 0 < counted(names[2], **given) == rows < 18


def test_messages_stored_during_a_count_are_not_counted(
    streams: Streams, counted: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 90)
    streams.delete_messages(name, [5])
    count, found = metadata.Lookup._count, []

    def with_more(lookup: metadata.Lookup, *key: Any) -> int | None:
        found.append(count(lookup, *key))
        streams.publish(name, [b"y"] * 3)
        return found[-1]

    monkeypatch.setattr(metadata.Lookup, "_count", with_more)
    # The difference of the server's counts would be 3 too small.
    assert counted(name, endingOffsets=json.dumps({name: 61})) == 59
    assert len(found) == 2
    assert found[0] - found[1] == 56


def test_refused(streams: Streams, counted: Callable[..., int]) -> None:
    name = streams.new(max_msgs=10)
    streams.publish(name, [b"x"] * 20)
    assert counted(name) == 10
    with pytest.raises(ValueError, match="'readMode': the server counts messages, not subjects"):
        counted(name, readMode="latest")
    with pytest.raises(ValueError, match="subject"):
        counted(name, subject="x")
    with pytest.raises(DataLossError, match="sequence 2 of stream"):
        counted(name, startingOffsets=json.dumps({name: 2}))
    with pytest.raises(NotFoundError, match="there is no stream 'NOWHERE'"):
        counted("NOWHERE")


def test_the_messages_stay_at_the_server() -> None:
    monitor = free_port()
    with NatsServer(config=f"http: 127.0.0.1:{monitor}\n") as server:
        streams = Streams(server.url)
        name = streams.new()
        streams.publish(name, [b"x" * 10_000] * 300)
        streams.delete_messages(name, [7])
        part = json.dumps({name: 200})
        for options, count in (({}, 299), ({"subjects": f"{name}.1"}, 100), ({"endingOffsets": part}, 198)):
            before = bytes_out(monitor)
            assert count_messages(servers=server.url, stream=name, **options) == count
            assert 100 < bytes_out(monitor) - before < 20_000
        with jetarrow.sync.connect(server.url) as client:
            before = bytes_out(monitor)
            assert client.jetstream().read(name).read_all().num_rows == 299
        assert bytes_out(monitor) - before > 2_990_000
