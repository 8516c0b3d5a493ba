"""Reads report lost messages, from a stream or a mirror and at every start position."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from jetarrow.js.errors import DataLossError
from jetarrow.spark.schema import SCHEMA

from .tools import wait_until

if TYPE_CHECKING:
    from .tools import Here, Streams


def seqs(table: Any) -> list[int]:
    found: list[int] = table["seq"].to_pylist()
    return found


@pytest.mark.parametrize("retention", ["limits", "interest"])
def test_a_mirror_that_keeps_less_hides_nothing(here: Here, streams: Streams, retention: str) -> None:
    """A mirror may answer direct gets for its stream: 5 of 12 reads had 10 rows of 100, and no warning."""
    name = streams.new(retention=retention, allow_direct=True)
    streams.run(lambda js: js.add_consumer(name, durable_name="keeps", ack_policy="explicit"))
    mirror = streams.new(subjects=[], mirror={"name": name}, mirror_direct=True, max_msgs=10)
    streams.publish(name, [b"x"] * 100)
    wait_until(lambda: streams.request(f"STREAM.INFO.{mirror}")["state"]["first_seq"] == 91)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(12):
            read = here.read(name, reader="direct", failOnDataLoss="strict", minPartitions=2)
            assert seqs(read) == list(range(1, 101))


@pytest.mark.parametrize("start", [{}, {"startingOffsets": "earliest"}])
@pytest.mark.parametrize("fail", ["true", "strict"])
def test_earliest_does_not_override_fail_on_data_loss(
    here: Here, streams: Streams, start: dict[str, str], fail: str
) -> None:
    """The same plan returns the same rows or raises; it used to return fewer rows, with a warning."""
    name = streams.new()
    streams.publish(name, [b"x"] * 20)
    reader = here.source(name, minPartitions=4, failOnDataLoss=fail, **start).reader(SCHEMA)
    planned = reader.partitions()
    assert seqs(here.table(SCHEMA, reader, planned)) == list(range(1, 21))
    streams.purge(name, before=3)
    with pytest.raises(DataLossError, match=r"messages 1 to 2 of stream .* are gone"):
        here.table(SCHEMA, reader, planned)


def test_by_default_the_head_may_move_in_the_first_partition_only(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 20)
    reader = here.source(name, minPartitions=4).reader(SCHEMA)
    planned = reader.partitions()
    streams.purge(name, before=4)
    with pytest.warns(UserWarning, match=r"messages 1 to 3 of"):
        assert seqs(here.table(SCHEMA, reader, planned)) == list(range(4, 21))
    streams.purge(name, before=8)
    with pytest.warns(UserWarning, match=r"messages 1 to 5 of"):
        assert seqs(here.table(SCHEMA, reader, planned[:1])) == []
    with pytest.raises(DataLossError, match=r"messages 6 to 7 of"):
        here.table(SCHEMA, reader, planned[1:])


def test_messages_purged_while_the_first_partition_is_read_are_data_loss(here: Here, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x" * 4_000] * 3_000)
    reader = here.source(name, minPartitions=1, batchRows=10, fetchBytes="64k").reader(SCHEMA)
    rows = reader.read(reader.partitions()[0])
    assert next(rows).num_rows == 10
    streams.purge(name, before=2_990)
    with pytest.raises(DataLossError, match=r"to 2989 of stream"):
        for _ in rows:
            pass


@pytest.mark.parametrize(("fail", "fails"), [({}, False), ({"failOnDataLoss": "true"}, True)])
def test_a_first_micro_batch_from_earliest(here: Here, streams: Streams, fail: dict[str, str], fails: bool) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 20)
    reader = here.stream(name, startingOffsets="earliest", minPartitions=4, **fail)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    planned = reader.partitions(start, end)
    streams.purge(name, before=3)
    if fails:
        with pytest.raises(DataLossError, match=r"messages 1 to 2 of"):
            here.table(SCHEMA, reader, planned)
        with pytest.raises(DataLossError, match=r"messages 1 to 2 of"):
            reader.partitions(start, end)
        return
    for plan in (planned, reader.partitions(start, end)):
        with pytest.warns(UserWarning, match=r"messages 1 to 2 of"):
            assert seqs(here.table(SCHEMA, reader, plan)) == list(range(3, 21))
