"""Option onRecreated: a streaming query continues after its stream was deleted and created again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jetarrow.js.errors import StreamRecreatedError, StreamRolledBackError
from jetarrow.spark.source import history
from jetarrow.spark.source.offsets import Offset
from jetarrow.spark.source.stream_reader import ReadAllAvailable

if TYPE_CHECKING:
    from .tools import Here, Streams

ALL = ReadAllAvailable()


@pytest.fixture
def again(here: Here, streams: Streams) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A stream of ten messages, created again with four, and the offsets of a query that had read seven."""
    name = streams.new()
    streams.publish(name, [b"old"] * 7)
    reader = here.stream(name, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    streams.publish(name, [b"old"] * 3)
    streams.delete(name)
    streams.create(name)
    streams.publish(name, [b"new"] * 4)
    return name, start, end


def test_recreated_stream_fails_and_error_names_the_option(here: Here, again: tuple[str, Any, Any]) -> None:
    name, start, end = again
    reader = here.stream(name)
    for call in (lambda: reader.latestOffset(end, ALL), lambda: reader.partitions(start, end)):
        with pytest.raises(StreamRecreatedError, match=r"or set onRecreated to earliest .* or continue"):
            call()
    with pytest.raises(ValueError, match=r"'onRecreated': a batch read has no position to continue at; valid: fail"):
        here.read(name, onRecreated="earliest")


@pytest.mark.filterwarnings("ignore:jetstream. stream .* was deleted and created again")
def test_earliest_begins_with_the_new_one(here: Here, streams: Streams, again: tuple[str, Any, Any]) -> None:
    name, start, end = again
    reader = here.stream(name, onRecreated="earliest")
    # The batch that may have to be replayed is of the old stream.
    assert reader.partitions(start, end) == []
    with pytest.warns(UserWarning, match=f"stream '{name}' of 20.* was deleted and created again at 20.* are lost"):
        after = reader.latestOffset(end, ALL)
    read = here.batch(reader, end, after)
    assert (read["seq"].to_pylist(), set(read["data"].to_pylist())) == ([1, 2, 3, 4], {b"new"})
    assert reader.latestOffset(after, ALL) == after
    streams.publish(name, [b"new"])
    last = reader.latestOffset(after, ALL)
    assert here.batch(reader, after, last)["seq"].to_pylist() == [5]
    # After a restart Spark before 4.2 does not pass the start of a batch: its end identifies the stream.
    assert here.batch(reader, end, Offset(Offset.of(after).streams, start=None).json())["seq"].to_pylist() == [
        1,
        2,
        3,
        4,
    ]
    # The new stream is longer than the old one: none of its messages counts as read.
    streams.publish(name, [b"new"] * 20)
    longer = reader.latestOffset(end, ALL)
    assert here.batch(reader, end, longer)["seq"].to_pylist() == list(range(1, 26))


def test_continue_takes_the_same_sequences(
    here: Here, streams: Streams, again: tuple[str, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restore from a backup, or after a mirror took over."""
    monkeypatch.setattr(history, "_NEW_LEADER_TIMEOUT", 0.3)
    name, start, end = again
    reader = here.stream(name, onRecreated="continue")
    with (
        pytest.warns(UserWarning, match="considered the same .onRecreated=continue"),
        pytest.raises(
            StreamRolledBackError,
            match=f"stream '{name}' was rolled back: message 7 was seen, and the stream ends at 4 now; .* onRollback",
        ),
    ):
        reader.latestOffset(end, ALL)
    streams.publish(name, [b"new"] * 6)
    assert here.batch(reader, start, end)["seq"].to_pylist() == list(range(1, 8))
    with pytest.warns(UserWarning, match="considered the same"):
        after = reader.latestOffset(end, ALL)
    assert here.batch(reader, end, after)["seq"].to_pylist() == [8, 9, 10]


@pytest.mark.parametrize(("chosen", "left"), [("earliest", [1, 2, 3, 4]), ("continue", [4])])
def test_commit_after_recreation_keeps_unread_messages(
    here: Here, streams: Streams, chosen: str, left: list[int]
) -> None:
    """A commit removes no unread message of the new stream; with "continue" its sequences count as read."""
    queue = {"retention": "workqueue", "allow_direct": True}
    name = streams.new(**queue)
    streams.publish(name, [b"old"] * 3)
    reader = here.stream(name, commitMode="purge", onRecreated=chosen)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    streams.delete(name)
    streams.create(name, **queue)
    streams.publish(name, [b"new"] * 4)
    reader.commit(end)
    assert streams.left(name) == left
