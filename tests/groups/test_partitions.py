"""Consumer groups: partitions, transforms and stored entries, as pcgroups has them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetarrow.jetstream.groups.config import GroupConfig, GroupConfigError, PartitioningFilter, check_name
from jetarrow.jetstream.groups.partitions import partition_of, shared, subjects_of, transform
from jetarrow.js.client import JetStreamContext

from ..strategies import bounded
from ..tools import until

NAMES = st.text("abmz019-_", min_size=1, max_size=3)


def test_hash_of_known_keys() -> None:
    # Seen on the wire of nats-server 2.15.1.
    assert [partition_of(f"orders.k{number}", [2], 6) for number in range(7)] == [4, 3, 0, 5, 0, 5, 2]


async def test_server_has_the_same_partitions(js: JetStreamContext, stream: str) -> None:
    """The transforms of a stream, asked of the server, against our own hash."""
    cases = [
        (f"{stream}.*.*", (1,), [2]),
        (f"{stream}.*.*", (2, 1), [3, 2]),
        (f"{stream}.*.*", (), []),
    ]
    for number, (filter, wildcards, indexes) in enumerate(cases):
        source, destination = transform(filter, wildcards, 7)
        name = f"{stream}-{number}"
        await js.add_stream(
            name=name, sources=[{"name": stream, "subject_transforms": [{"src": source, "dest": destination}]}]
        )
        subjects = [f"{stream}.{first}.{second}" for first in ("a", "béta", "k1") for second in ("x", "yy")]
        for subject in subjects:
            await js.publish(subject, subject.encode())

        async def sourced(name: str = name, count: int = len(subjects)) -> bool:
            return (await js.stream_info(name)).state.messages == count

        await until(sourced)
        table = await js.read(name, columns=["subject"]).read_all()
        expected = [f"{partition_of(subject, indexes, 7)}.{subject}" for subject in subjects]
        assert table["subject"].to_pylist() == expected
        await js.delete_stream(name)
        await js.purge_stream(stream)


def test_transforms() -> None:
    assert transform("orders.*.*", [1], 6) == (
        "orders.*.*",
        "{{Partition(6,1)}}.orders.{{Wildcard(1)}}.{{Wildcard(2)}}",
    )
    assert transform("orders.*.>", [1], 6) == ("orders.*.>", "{{Partition(6,1)}}.orders.{{Wildcard(1)}}.>")
    assert transform("orders.*", [], 6) == ("orders.*", "{{Partition(6)}}.orders.{{Wildcard(1)}}")
    assert transform("", [], 6) == (">", "{{Partition(6)}}.>")


def test_partitions_of_two_members() -> None:
    assert shared(["m2", "m1"], 7) == {"m1": [0, 1, 2, 6], "m2": [3, 4, 5]}


@bounded(200)
@given(st.lists(NAMES, max_size=12), st.integers(1, 10))
def test_each_partition_has_one_member(members: list[str], partitions: int) -> None:
    found = shared(members, partitions)
    assert sorted(one for own in found.values() for one in own) == (list(range(partitions)) if members else [])
    sizes = {len(own) for own in found.values()}
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert found == shared(sorted(set(members), reverse=True), partitions)


def test_subjects_of_a_member() -> None:
    assert subjects_of("b", 4, ["x.*", "y.>"], ["b", "a"], {}) == ["2.x.*", "3.x.*", "2.y.>", "3.y.>"]
    assert subjects_of("a", 3, [], ["a"], {}) == ["0.>", "1.>", "2.>"]
    assert subjects_of("c", 1, [], ["a", "b", "c"], {}) == []
    assert subjects_of("a", 3, ["x.*", "y.*"], [], {"a": [2, 0], "b": [1]}) == ["2.>", "0.>"]


ELASTIC = (
    b'{"max_members":6,"partitioning_filters":[{"filter":"orders.*.*","partitioning_wildcards":[1]}],'
    b'"members":["m1","m2"]}'
)
MAPPED = (
    b'{"max_members":3,"partitioning_filters":[],"member_mappings":[{"member":"a","partitions":[0,2]},'
    b'{"member":"b","partitions":[1]}]}'
)
STATIC = b'{"max_members":4,"filters":["meter.*"],"members":["m1","m2"]}'


def test_entries_are_written_as_they_were_read() -> None:
    for kind, entry in (("elastic", ELASTIC), ("elastic", MAPPED), ("static", STATIC)):
        assert GroupConfig.from_json(kind, entry).to_json() == entry  # type: ignore[arg-type]


def test_an_entry_of_java() -> None:
    entry = json.dumps({"max_members": 4, "filter": "meter.*", "members": ["m1"]}).encode()
    assert GroupConfig.from_json("static", entry).filters == (PartitioningFilter("meter.*"),)
    entry = json.dumps({"max_members": 4, "partitioning_filters": [{"filter": "a.*"}]}).encode()
    # Kept as it is: members in Go end if the rest of an entry changes.
    assert json.loads(GroupConfig.from_json("elastic", entry).to_json()) == json.loads(entry)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (GroupConfig("elastic", 0), "1 partition or more"),
        (GroupConfig("elastic", 2, (PartitioningFilter("a.b"),)), "has no `\\*`"),
        (GroupConfig("elastic", 2, (PartitioningFilter("a..*"),)), "empty token"),
        (GroupConfig("elastic", 2, (PartitioningFilter("a.*", (2,)),)), "from 1 to 1"),
        (GroupConfig("elastic", 2, (PartitioningFilter("a.*.*", (1, 1)),)), "different numbers"),
        (GroupConfig("elastic", 2, members=("a",), mappings={"b": (0, 1)}), "not both"),
        (GroupConfig("elastic", 2, mappings={"b": (0,)}), "each partition from 0 to 1 once"),
        (GroupConfig("elastic", 2, mappings={"b": (0, 1), "c": (1,)}), "each partition from 0 to 1 once"),
        (GroupConfig("static", 2, members=("a.b",)), "letters, digits"),
    ],
)
def test_rules(config: GroupConfig, words: str) -> None:
    with pytest.raises(GroupConfigError, match=words):
        config.check()


@pytest.mark.parametrize("entry", [b"", b"[]", b"{}", b'{"max_members":"x"}', b'{"max_members":1,"members":5}'])
def test_what_is_no_entry(entry: bytes) -> None:
    with pytest.raises(GroupConfigError, match="entry of the group"):
        GroupConfig.from_json("elastic", entry)


def test_names() -> None:
    for name in ("", "a b", "a.b", "a*", "é"):
        with pytest.raises(GroupConfigError, match="the name"):
            check_name("group", name)
    check_name("group", "a-b_c=1")
