"""Queries of many streams: requests are sent concurrently, and an idle query sends fewer."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from jetarrow.js.errors import NotFoundError
from jetarrow.spark.source import idle_backoff, metadata, positions, stream_reader
from jetarrow.spark.source.idle_backoff import IdleBackoff
from jetarrow.spark.source.offsets import Entry, Offset
from jetarrow.spark.source.stream_reader import ReadAllAvailable

if TYPE_CHECKING:
    from .tools import Here, Streams

ALL = ReadAllAvailable()


@pytest.fixture
def eight(streams: Streams) -> list[str]:
    mark = uuid.uuid4().hex[:8]
    names = [f"M{mark}{i}" for i in range(8)]
    for name in names:
        streams.create(name)
        streams.publish(name, [b"x"] * 2)
    return names


@pytest.mark.parametrize("by_pattern", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
def test_requests_are_side_by_side(
    here: Here, eight: list[str], monkeypatch: pytest.MonkeyPatch, by_pattern: bool, filtered: bool
) -> None:
    """All requests of a kind are sent before the first reply; those without a reply are sent again."""
    given: dict[str, Any] = {"streamPattern": f"{eight[0][:-1]}."} if by_pattern else {"stream": ",".join(eight)}
    if filtered:
        given["subjects"] = "*.1"
    asked: list[list[str]] = []
    lost: set[int] = set()
    each = metadata.request_each

    def counted(js: Any, requests: list[tuple[str, Any]]) -> list[Any]:
        asked.append([verb.rpartition(".")[0] for verb, _ in requests])
        return [None if at in lost else answer for at, answer in enumerate(each(js, requests))]

    monkeypatch.setattr(metadata, "request_each", counted)
    for missing in (set(), {2, 7}, set(range(8))):
        lost.clear()
        lost.update(missing)
        reader = here.stream(**given, startingOffsets="earliest")
        start = reader.initialOffset()
        asked.clear()
        end = reader.latestOffset(start, ALL)
        wanted = [["STREAM.INFO"] * 8]
        assert asked == (wanted if not filtered else [*wanted, ["STREAM.MSG.GET"] * 8])
        found = reader.partitions(start, end)
        assert [(one.stream, one.start, one.end) for one in found] == [(name, 1, 3) for name in eight]
        assert [one.stream for one in here.plan(**given)] == eight


def test_a_stream_that_is_not_there(here: Here, streams: Streams, eight: list[str]) -> None:
    """A missing stream is an error if named, and left out if found by a pattern: it was deleted after the listing."""
    absent = f"{eight[0][:-1]}X"
    with pytest.raises(NotFoundError, match=f"there is no stream '{absent}'"):
        here.plan(",".join([*eight, absent]))
    lookup = here.stream(",".join(eight))._lookup()
    assert list(lookup.many([*eight[:4], absent, *eight[4:]], gone=True)) == eight
    # A stream changed since the first lookup: its old configuration is not returned.
    streams.update(eight[3], subjects=["other.>"])
    assert lookup.many(eight)[eight[3]].config.subjects == ["other.>"]


def test_planning_reuses_the_recent_lookup_of_the_end_offset(
    here: Here, eight: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "MANY_STREAMS", 8)
    now = 0.0
    monkeypatch.setattr("jetarrow.spark.source.stream_reader.time.monotonic", lambda: now)
    reader = here.stream(",".join(eight), startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    looks = 0
    many = metadata.Lookup.many

    def counted(self: metadata.Lookup, *args: Any) -> Any:
        nonlocal looks
        looks += 1
        return many(self, *args)

    monkeypatch.setattr(metadata.Lookup, "many", counted)
    found = reader.partitions(start, end)
    assert looks == 0
    now = 1.1
    assert reader.partitions(start, end) == found
    assert looks == 1


def test_an_idle_query_asks_less_often(
    here: Here, streams: Streams, eight: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_backoff, "MANY_STREAMS", 8)
    looks = 0
    infos = metadata.Lookup.infos
    now = 0.0

    def counted(self: metadata.Lookup) -> Any:
        nonlocal looks, now
        looks, now = looks + 1, now + 0.02
        return infos(self)

    monkeypatch.setattr(metadata.Lookup, "infos", counted)
    monkeypatch.setattr("jetarrow.spark.source.idle_backoff.time.monotonic", lambda: now)
    reader = here.stream(",".join(eight), startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert looks == 2
    assert reader.latestOffset(end, ALL) == end
    assert looks == 3
    # The check took 20 ms, so no stream is queried for another 200 ms.
    streams.publish(eight[3], [b"x"])
    for _ in range(10):
        assert reader.latestOffset(end, ALL) == end
        now += 0.0199
    assert looks == 3
    now += 0.01
    after = reader.latestOffset(end, ALL)
    assert (looks, after["streams"][eight[3]]["next"]) == (4, 4)
    # Busy: no backoff.
    streams.publish(eight[3], [b"x"])
    assert reader.latestOffset(after, ALL)["streams"][eight[3]]["next"] == 5


@pytest.mark.parametrize(("subjects", "rests"), [("*.9", True), (None, False)])
def test_foreign_traffic_is_looked_at_less_often(
    here: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch, subjects: str | None, rests: bool
) -> None:
    """For the last match of a wildcard the server searches all subjects after each new message."""
    name, looks, now = streams.new(), 0, 0.0
    ends = positions.Positions.ends

    def slow(*args: Any) -> Any:
        nonlocal looks, now
        looks, now = looks + 1, now + 0.007
        return ends(*args)

    monkeypatch.setattr(positions.Positions, "ends", slow)
    monkeypatch.setattr("jetarrow.spark.source.idle_backoff.time.monotonic", lambda: now)
    reader = here.stream(name, startingOffsets="earliest", **({"subjects": subjects} if subjects else {}))
    end = reader.initialOffset()
    for _ in range(10):
        streams.publish(name, [b"foreign"] if rests else [])
        assert reader.latestOffset(end, ALL) == end
        now += 0.01
    assert looks == (2 if rests else 10)
    now += 0.1
    streams.run(lambda js: js.publish(f"{name}.9", b"ours"))
    assert reader.latestOffset(end, ALL)["streams"][name]["next"] == (12 if rests else 2)


def test_a_pause_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("jetarrow.spark.source.idle_backoff.time.monotonic", lambda: now)
    at, other = Offset({}), Offset({"A": Entry("c", 1)})
    idle = {str(i): 0 for i in range(16)}

    def paused(sizes: dict[str, int]) -> list[bool]:
        nonlocal now
        now, query = 0.0, IdleBackoff()
        assert not query.is_active(at)
        now = 30.0
        query.start(at, sizes)
        now = 30.9
        found = [query.is_active(at), query.is_active(other)]
        now = 31.1
        return [*found, query.is_active(at)]

    assert paused(idle) == [True, False, False]
    assert paused({**idle, "3": 1}) == [False] * 3
    # A check of few streams is fast.
    assert paused(dict(list(idle.items())[1:])) == [False] * 3
