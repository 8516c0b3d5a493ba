"""Partitions of a group: how subjects are split, and which partitions a member has. Without I/O.

The rules are those of orbit.go's pcgroups 0.2: a member that computed others would share a partition with another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# FNV-1a, 32 bits, as the server's subject transform `Partition`.
_OFFSET, _PRIME = 2166136261, 16777619


def partition_of(subject: str, indexes: Sequence[int], partitions: int) -> int:
    """Returns the partition of a subject.

    Args:
        subject: The subject as it was published.
        indexes: Positions of the tokens that are hashed, from 1, in the order of hashing. Empty: the whole subject.
        partitions: Number of partitions.
    """
    tokens = subject.split(".")
    data = "".join(tokens[index - 1] for index in indexes) if indexes else subject
    digest = _OFFSET
    for byte in data.encode():
        digest = ((digest ^ byte) * _PRIME) & 0xFFFFFFFF
    return digest % partitions


def transform(filter: str, wildcards: Sequence[int], partitions: int) -> tuple[str, str]:
    """Returns source and destination of the subject transform that puts the partition in front of a subject.

    Args:
        filter: The subjects; empty for all.
        wildcards: Numbers of the filter's `*` that are hashed, from 1. Empty: the whole subject.
        partitions: Number of partitions.
    """
    source = filter or ">"
    number, tokens = 0, []
    for token in source.split("."):
        number += token == "*"
        tokens.append(f"{{{{Wildcard({number})}}}}" if token == "*" else token)
    arguments = ",".join(map(str, (partitions, *wildcards)))
    return source, f"{{{{Partition({arguments})}}}}." + ".".join(tokens)


def shared(members: Sequence[str], partitions: int) -> dict[str, list[int]]:
    """Returns the partitions of each member of a list, in ascending order; members without a partition are left out.

    The first `partitions` members by name have some, the others wait.
    """
    names = sorted(set(members), key=str.encode)[:partitions]
    if not names:
        return {}
    each = partitions // len(names)
    found: dict[str, list[int]] = {name: [] for name in names}
    for partition in range(partitions):
        member = partition // each if partition < each * len(names) else partition - each * len(names)
        found[names[member]].append(partition)
    return found


def subjects_of(
    member: str, partitions: int, filters: Sequence[str], members: Sequence[str], mappings: Mapping[str, Sequence[int]]
) -> list[str]:
    """Returns the filter subjects of a member's consumer; empty if it has no partition.

    Args:
        member: Name of the member.
        partitions: Number of partitions.
        filters: The filters of the group, without the partition; empty for all subjects.
        members: Names of the members, or empty.
        mappings: Partitions by member, or empty.
    """
    if mappings:
        # pcgroups takes all subjects of a mapped partition, whatever the filters.
        return [f"{partition}.>" for partition in mappings.get(member, ())]
    own = shared(members, partitions).get(member, [])
    return [f"{partition}.{filter}" for filter in filters or (">",) for partition in own]
