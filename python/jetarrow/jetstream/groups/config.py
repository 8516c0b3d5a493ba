"""The stored entry of a group: its JSON, byte for byte as pcgroups writes it, and its rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from jetarrow.jetstream.group_errors import GroupConfigError as GroupConfigError
from jetarrow.jetstream.literals import GroupKind

BUCKETS: dict[GroupKind, str] = {"static": "static-consumer-groups", "elastic": "elastic-consumer-groups"}
# Priority group of every member's consumer.
PRIORITY_GROUP = "PCG"


@dataclass(frozen=True)
class PartitioningFilter:
    """Subjects of a group, and the wildcards that decide the partition."""

    filter: str
    # Numbers of its `*`, from 1, in the order of hashing; empty for the whole subject.
    wildcards: tuple[int, ...] = ()


def filters_of(
    filter: str | Sequence[str] | None, partition_by: Sequence[int] | Sequence[Sequence[int]] | None
) -> tuple[PartitioningFilter, ...]:
    """The filters of a group, with the numbers of the wildcards of each."""
    filters = [filter] if isinstance(filter, str) else list(filter or ())
    given = list(partition_by or ())
    if given and not filters:
        raise GroupConfigError("partition_by numbers the wildcards of a filter: give filter=")
    if not given or all(isinstance(one, int) for one in given):
        numbers = tuple(cast("list[int]", given))
        return tuple(PartitioningFilter(one, numbers) for one in filters)
    lists = cast("list[Sequence[int]]", given)
    if len(lists) != len(filters):
        raise GroupConfigError(f"partition_by has {len(lists)} lists for {len(filters)} filters: give one for each")
    return tuple(PartitioningFilter(one, tuple(own)) for one, own in zip(filters, lists, strict=True))


@dataclass(frozen=True)
class GroupConfig:
    """A group: its partitions, filters and members."""

    kind: GroupKind
    partitions: int
    filters: tuple[PartitioningFilter, ...] = ()
    members: tuple[str, ...] = ()
    mappings: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # Limits of the work queue of an elastic group, in messages and bytes; 0 is none.
    max_buffered_msgs: int = 0
    max_buffered_bytes: int = 0
    # The stored entry that it was read from, whose members may be changed.
    entry: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def check(self) -> None:
        """Checks the rules of pcgroups.

        Raises:
            GroupConfigError: One of them is broken.
        """
        if self.partitions < 1:
            raise GroupConfigError(f"a group has 1 partition or more, not {self.partitions}")
        for one in self.filters:
            _check_filter(one)
        if self.members and self.mappings:
            raise GroupConfigError("a group has members or mappings, not both")
        for member in (*self.members, *self.mappings):
            check_name("member", member)
        if self.mappings:
            self._check_mappings()

    def _check_mappings(self) -> None:
        found = sorted(partition for own in self.mappings.values() for partition in own)
        if found != list(range(self.partitions)):
            raise GroupConfigError(
                f"mappings name each partition from 0 to {self.partitions - 1} once, not {found}: give the partitions"
                " that are missing or twice to one member each"
            )

    def to_json(self) -> bytes:
        """Returns the entry as pcgroups writes it."""
        found: dict[str, Any] = {"max_members": self.partitions}
        if self.entry is not None:
            # The rest as its author wrote it: a member in Go ends if it sees `[]` in place of `null`.
            changed = ("members", "member_mappings")
            found = {name: value for name, value in self.entry.items() if name not in changed}
        elif self.kind == "static":
            found |= _unless_empty(filters=[one.filter for one in self.filters])
        else:
            found["partitioning_filters"] = [
                {"filter": one.filter, "partitioning_wildcards": list(one.wildcards)} for one in self.filters
            ]
            found |= _unless_empty(max_buffered_msg=self.max_buffered_msgs, max_buffered_bytes=self.max_buffered_bytes)
        mappings = [{"member": name, "partitions": list(own)} for name, own in self.mappings.items()]
        found |= _unless_empty(members=list(self.members), member_mappings=mappings)
        return json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, kind: GroupKind, data: bytes) -> GroupConfig:
        """Reads an entry, also of orbit.java, which has one `filter` in static entries.

        Raises:
            GroupConfigError: It is no JSON, or breaks a rule.
        """
        try:
            entry = json.loads(data)
            filters = entry.get("partitioning_filters") or []
            if kind == "static":
                filters = [{"filter": one} for one in entry.get("filters") or [entry.get("filter")] if one]
            mappings = {one["member"]: tuple(map(int, one["partitions"])) for one in entry.get("member_mappings") or []}
            if len(mappings) < len(entry.get("member_mappings") or []):
                raise GroupConfigError("the entry of the group maps a member twice")
            config = cls(
                kind=kind,
                partitions=int(entry["max_members"]),
                filters=tuple(
                    PartitioningFilter(str(one["filter"]), tuple(map(int, one.get("partitioning_wildcards") or [])))
                    for one in filters
                ),
                members=tuple(map(str, entry.get("members") or [])),
                mappings=mappings,
                max_buffered_msgs=int(entry.get("max_buffered_msg") or 0),
                max_buffered_bytes=int(entry.get("max_buffered_bytes") or 0),
                entry=entry,
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise GroupConfigError(f"the entry of the group is not of a group ({kind}): {error!r}") from None
        config.check()
        return config

    def difference(self, other: GroupConfig) -> str | None:
        """Returns the first field that may not differ between two creations of a group, and does."""
        fields = ("partitions", "filters", "max_buffered_msgs", "max_buffered_bytes")
        if self.kind == "static":
            fields = ("partitions", "filters", "members", "mappings")
        return next((name for name in fields if getattr(self, name) != getattr(other, name)), None)


def _unless_empty(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _check_filter(one: PartitioningFilter) -> None:
    tokens = one.filter.split(".")
    count = tokens.count("*")
    if not all(tokens) or (count == 0 and tokens[-1] != ">"):
        raise GroupConfigError(f"the filter {one.filter!r} has no `*`, does not end in `>`, or has an empty token")
    wildcards: Sequence[int] = one.wildcards
    if len(set(wildcards)) != len(wildcards) or any(not 1 <= number <= count for number in wildcards):
        raise GroupConfigError(
            f"the filter {one.filter!r} has {count} wildcards: partition by different numbers from 1 to {count}, not"
            f" {list(wildcards)}"
        )


def check_name(what: str, name: str) -> None:
    """Checks a name of a group or of a member, which is a token of keys and a part of consumers' names.

    Raises:
        GroupConfigError: It has characters that these cannot have.
    """
    if not name or not all(char.isalnum() or char in "-_=" for char in name) or not name.isascii():
        raise GroupConfigError(f"the name {name!r} of a {what} must have letters, digits, `-`, `_` and `=` only")
