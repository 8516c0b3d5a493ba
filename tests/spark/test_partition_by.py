"""`partitionBy`: whole keys in a partition, planned and read without Spark's JVM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import jetarrow.sync
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jetarrow.jetstream.groups.partitions import partition_of
from jetarrow.js.api import StreamConfig, StreamInfo, StreamState
from jetarrow.spark.connection import shared_jetstream
from jetarrow.spark.options.read import read_options
from jetarrow.spark.source import key_shares, partitioning
from jetarrow.spark.source.filters import matcher
from jetarrow.spark.source.key_shares import KeyShare, key_of, most_filters, share_filters
from jetarrow.spark.source.metadata import Lookup
from pyspark.sql.types import LongType, StructField, StructType

from ..strategies import bounded

if TYPE_CHECKING:
    from .tools import Here, Streams

VALUES = json.dumps({"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]})
TOKEN = st.text(st.sampled_from("ab0é\u2028\n-"), min_size=1, max_size=3)
SUBJECTS = st.lists(st.lists(TOKEN, min_size=1, max_size=5).map(".".join), min_size=1, max_size=30)
TOKENS = st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True).map(tuple)


@bounded(300)
@given(SUBJECTS, TOKENS, st.integers(1, 5))
@example(["a.b", "a", "a.b.c"], (2,), 3)
def test_every_subject_is_in_one_share_with_its_key(subjects: list[str], tokens: tuple[int, ...], count: int) -> None:
    """The hash in Arrow is that of the server's transform over the tokens in their order."""
    column = pa.array(subjects, pa.string())
    masks = [KeyShare(tokens, index, count).matcher()(column).to_pylist() for index in range(count)]
    expected = [partition_of("".join(key_of(subject, tokens)), (), count) for subject in subjects]
    for row, subject in enumerate(subjects):
        assert [mask[row] for mask in masks] == [index == expected[row] for index in range(count)], subject
        if len(subject.split(".")) >= max(tokens):
            assert expected[row] == partition_of(subject, tokens, count)


@bounded(300)
@given(SUBJECTS, TOKENS, st.integers(2, 5))
@example(["a.b", "a", "a.b.c"], (2,), 3)
@example(["a.*", "a.b"], (2,), 2)
@example([f"a.{number}" for number in range(9)], (2,), 2)
def test_filters_of_a_share_match_its_subjects_only(subjects: list[str], tokens: tuple[int, ...], count: int) -> None:
    found = share_filters(subjects, tokens, count)
    wild = any(token in ("*", ">") for subject in subjects for token in subject.split("."))
    if found is None:
        assert wild or len(set(subjects)) > most_filters(count)
        return
    assert not wild
    column = pa.array(subjects, pa.string())
    for index, filters in enumerate(found):
        assert len(filters) <= most_filters(count)
        matched = [False] * len(subjects)
        for one in filters:
            # No subject matches two filters, which the server refuses.
            mask = matcher([one])(column).to_pylist()
            assert not any(a and b for a, b in zip(matched, mask, strict=True))
            matched = [a or b for a, b in zip(matched, mask, strict=True)]
        assert matched == KeyShare(tokens, index, count).matcher()(column).to_pylist()


def test_hashes_are_recomputed_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_shares, "_MOST_HASHES", 3)
    subjects = pa.array([f"a.{number % 20}" for number in range(100)], pa.string())
    matches = [KeyShare((2,), index, 2).matcher() for index in range(2)]
    for _ in range(2):
        assert [sum(both) for both in zip(*(one(subjects).to_pylist() for one in matches), strict=True)] == [1] * 100


def test_an_empty_batch_has_no_row() -> None:
    assert KeyShare((2,), 0, 2).matcher()(pa.array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"partitionBy": "0"}, "'partitionBy': '0' is not a token number"),
        ({"partitionBy": "33"}, "'partitionBy': '33' is not a token number"),
        ({"partitionBy": "subject"}, "'partitionBy': 'subject' is not a token number"),
        ({"partitionBy": "2,x"}, "'partitionBy': 'x' is not a token number"),
        ({"partitionBy": "2,2"}, "'partitionBy': '2,2' names no token, one twice, or too many"),
        ({"partitionBy": ","}, "'partitionBy': ',' names no token, one twice, or too many"),
        ({"partitionBy": "1,2,3,4,5,6,7,8,9,10"}, "names no token, one twice, or too many"),
        (
            {"partitionBy": "2", "maxRecordsPerPartition": "5"},
            "'maxRecordsPerPartition': does not go with 'partitionBy'",
        ),
        ({"partitionBy": "2", "maxPartitionBytes": "1m"}, "'maxPartitionBytes': does not go with 'partitionBy'"),
        ({"partitionBy": "2", "maxBytesPerPartition": "1m"}, "'maxBytesPerPartition': does not go with 'partitionBy'"),
        (
            {"partitionBy": "2", "maxOffsetsPerPartition": "5"},
            "'maxOffsetsPerPartition': does not go with 'partitionBy'",
        ),
        ({"partitionBy": "2", "readMode": "latest"}, "'partitionBy': does not go with readMode=latest"),
    ],
)
def test_values_and_options_that_are_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # its text is compared
        read_options({"servers": "a:1", "stream": "S", **given})
    assert problem in str(error.value)


def test_misspelt_option_names_the_nearest(here: Here) -> None:
    with pytest.raises(ValueError, match="unknown options: partitionby2; did you mean partitionBy"):
        here.plan("S", partitionBy2="2")


def publish(streams: Streams, subjects: Sequence[str]) -> None:
    with jetarrow.sync.connect(streams.url) as nc:
        nc.jetstream().publish_batch(subjects, [b"%d" % i for i in range(len(subjects))]).raise_for_errors()


def parts_of(here: Here, name: str, **options: object) -> list[list[tuple[str, int]]]:
    """Subject and sequence of the rows of each partition."""
    source = here.source(name, **options)
    schema = source.schema()
    reader = source.reader(schema)  # type: ignore[arg-type]
    found = []
    for part in reader.partitions():
        table = here.table(schema, reader, [part])  # type: ignore[arg-type]
        found.append(list(zip(table.column("subject").to_pylist(), table.column("seq").to_pylist(), strict=True)))
    return found


def check_keys(parts: list[list[tuple[str, int]]], plain: list[tuple[str, int]], tokens: tuple[int, ...]) -> None:
    """Each row is in one partition, with all rows of its key, in order."""
    assert sorted((row for part in parts for row in part), key=lambda row: row[1]) == plain
    keys = [{key_of(subject, tokens) for subject, _ in part} for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys))
    for part in parts:
        assert [seq for _, seq in part] == sorted(seq for _, seq in part)


@pytest.fixture(params=["filters", "hash"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With filters of the server, as for large ranges, and with the hash in the worker."""
    if request.param == "filters":
        monkeypatch.setattr(partitioning, "SMALL_RANGE", 0)
    return str(request.param)


@pytest.mark.parametrize(
    ("tokens", "few"), [((2,), True), ((3,), False), ((2, 3), False), ((3, 2), False), ((7,), False)]
)
def test_batch_read_has_whole_keys_and_all_rows(
    here: Here, streams: Streams, way: str, *, tokens: tuple[int, ...], few: bool
) -> None:
    name = streams.new()
    publish(streams, [f"{name}.k{i % 7}" + f".c{i % 5}" * (i % 3 > 0) + ".x" * (i % 4 > 2) for i in range(400)])
    streams.delete_messages(name, [1, 50, 399])
    plain = parts_of(here, name, minPartitions=1)[0]
    assert len(plain) == 397
    given = {"partitionBy": ",".join(map(str, tokens)), "minPartitions": 3}
    plan = here.plan(name, **given)
    pushed = [part.plan.pushed for part in plan if not (part.share and part.share.empty)]
    # The 7 subjects without the token are one key, but a filter each: more than 6 for one of 3 shares.
    assert all(pushed) if way == "filters" and few else not any(pushed)
    assert len(plan) == 3
    check_keys(parts_of(here, name, **given), plain, tokens)


def test_large_range_has_no_small_partition_first() -> None:
    """A range of 10 MB, of which `show()` would have a partition of its own, which would divide a key."""
    state = StreamState(messages=10_000, bytes=10 << 20, first_seq=1, last_seq=10_000, consumer_count=0)
    infos = {"S": StreamInfo(config=StreamConfig(name="S"), state=state)}
    given = {"servers": "a:1", "stream": "S"}
    assert len(partitioning.plan_partitions(read_options(given), infos)) > 2
    found = partitioning.plan_partitions(read_options({**given, "partitionBy": "2"}), infos)
    assert [(part.start, part.end, part.share) for part in found] == [
        (1, 10_001, KeyShare((2,), index, 2)) for index in range(2)
    ]


def test_more_keys_than_filters_are_divided_by_the_hash(
    here: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioning, "SMALL_RANGE", 0)
    name = streams.new()
    publish(streams, [f"{name}.{i % 90}" for i in range(300)])
    given = {"partitionBy": "2", "minPartitions": 2}
    assert [part.plan.pushed for part in here.plan(name, **given)] == [(), ()]
    check_keys(parts_of(here, name, **given), parts_of(here, name, minPartitions=1)[0], (2,))
    monkeypatch.setattr(partitioning, "MOST_SUBJECTS", 89)
    assert [part.plan.pushed for part in here.plan(name, **given)] == [(), ()]


def test_the_partition_of_a_group_is_one_filter(here: Here, streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stream has the partition as first token, made by the server; the key of a partition is that token."""
    monkeypatch.setattr(partitioning, "SMALL_RANGE", 0)
    name = streams.new(subject_transform={"src": "*.*", "dest": "{{Partition(4,2)}}.{{Wildcard(1)}}.{{Wildcard(2)}}"})
    publish(streams, [f"{name}.customer{i % 40}" for i in range(200)])
    plan = here.plan(name, partitionBy=1, minPartitions=4)
    assert sorted(part.plan.pushed for part in plan) == [("0.>",), ("1.>",), ("2.>",), ("3.>",)]
    plain = parts_of(here, name, minPartitions=1)[0]
    check_keys(parts_of(here, name, partitionBy=1, minPartitions=4), plain, (1,))
    # The hash of a key is the one of the server, so the customers are where the server put them.
    for index, part in enumerate(parts_of(here, name, partitionBy=3, minPartitions=4)):
        assert {subject.split(".")[0] for subject, _ in part} == {str(index)}


def test_other_filters_and_payloads(here: Here, streams: Streams, way: str) -> None:
    """The options that filter too: of the user, of direct gets, and of payloads that are decoded late."""
    name = streams.new(retention="limits", allow_direct=True)
    publish(streams, [f"{name}.{'ab'[i % 2]}.{i % 11}" for i in range(220)])
    for options in (
        {"subjects": f"{name}.a.>"},
        {"subjects": f"{name}.a.1,{name}.b.>"},
        {"reader": "direct"},
        {"reader": "direct", "subjects": f"{name}.a.>"},
        {"reader": "direct", "subjects": f"{name}.a.1,{name}.b.>"},
        {"payload": "string", "startingOffsets": json.dumps({name: 17})},
        {"payload": "json", "valueSchema": VALUES, "batchRows": 7},
    ):
        plain = parts_of(here, name, minPartitions=1, **options)[0]
        assert plain
        check_keys(parts_of(here, name, partitionBy=3, minPartitions=4, **options), plain, (3,))
    assert way in ("filters", "hash")


def test_schema_without_the_subject(here: Here, streams: Streams, way: str) -> None:
    name = streams.new()
    publish(streams, [f"{name}.{i % 11}" for i in range(100)])
    schema = StructType([StructField("seq", LongType())])
    found = here.read(name, schema, partitionBy=2, minPartitions=4)
    assert sorted(found.column("seq").to_pylist()) == list(range(1, 101))
    assert found.column_names == ["seq"]
    assert way in ("filters", "hash")


def test_a_listing_that_lacks_messages_is_not_used(here: Here, streams: Streams) -> None:
    """A new leader may lag behind the planned messages: their subjects are in no filter then."""
    name = streams.new()
    publish(streams, [f"{name}.{i % 4}" for i in range(20)])
    options = read_options({"servers": here.url, "stream": name})
    lookup = Lookup(shared_jetstream(options.connection), options)
    assert sorted(lookup.subjects(name, 10, end=21) or ()) == [f"{name}.{i}" for i in range(4)]
    assert lookup.subjects(name, 10, end=22) is None
    assert lookup.subjects(name, 3, end=21) is None


def test_micro_batches_are_planned_again_with_their_own_keys(here: Here, streams: Streams, way: str) -> None:
    """A batch of the checkpoint keeps its partitions, whatever the options of the restarted query are."""
    name = streams.new()
    publish(streams, [f"{name}.{i % 9}.{i % 4}" for i in range(100)])
    first = here.stream(name, startingOffsets="earliest", partitionBy=2, minPartitions=3)
    start = first.initialOffset()
    end = first.latestOffset(start)
    assert end["by"] == [2]
    planned = first.partitions(start, end)
    assert [part.share.index for part in planned] == [0, 1, 2]  # type: ignore[attr-defined]
    rows = here.batch(first, start, end)
    publish(streams, [f"{name}.{i % 9}.{i % 4}" for i in range(50)])
    for other in ({"partitionBy": "3", "minPartitions": 5}, {"minPartitions": 2}, {}):
        again = here.stream(name, startingOffsets="earliest", **other)
        assert again.partitions(start, end) == planned
        assert here.batch(again, start, end).equals(rows)
        after = again.latestOffset(end)
        more = here.batch(again, end, after)
        assert sorted(more.column("seq").to_pylist()) == list(range(101, 151))
    assert way in ("filters", "hash")


def test_a_loss_fails_as_without_the_option(here: Here, streams: Streams, way: str) -> None:
    name = streams.new()
    publish(streams, [f"{name}.{i % 3}" for i in range(60)])
    reader = here.stream(name, startingOffsets=json.dumps({name: 1}), partitionBy=2, minPartitions=2)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    parts = reader.partitions(start, end)
    streams.purge(name, before=20)
    full = [part for part in parts if not part.share.empty]  # type: ignore[attr-defined]
    assert full
    for part in full:
        with pytest.raises(Exception, match="are gone"):
            here.table(reader._schema, reader, [part])
    assert way in ("filters", "hash")
