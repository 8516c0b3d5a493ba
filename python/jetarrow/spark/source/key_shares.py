"""Option `partitionBy`: the messages of a partition by the hash of tokens of their subjects. Without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetarrow.spark._core import partition_of

# Maximum number of subject filters of a partition, and their maximum for each partition. The server's cost of a message
# rises with the number of filters, the cost of hashes with the number of partitions: measured in docs/spark.md.
MOST_FILTERS = 16
_FILTERS_PER_SHARE = 2
# Maximum number of subjects that are listed to find filters; a listing of more delays each micro-batch.
MOST_SUBJECTS = 1_000
# Maximum number of hashes that a task keeps.
_MOST_HASHES = 100_000


@dataclass(frozen=True)
class KeyShare:
    """The messages of one partition: those whose key has the hash `index`, modulo `count`.

    The hash is the one of the server's subject transform `Partition(count, tokens...)`.

    Attributes:
        tokens: Positions in the subject of the tokens that are the key, from 1, in the order of hashing. A missing
            token counts as empty.
        index: Number of the partition, from 0.
        count: Number of partitions.
        empty: Whether the stream has no message of this share. Default: False.
        exact: Whether the subject filters of the read plan match this share only. Default: False.
    """

    tokens: tuple[int, ...]
    index: int
    count: int
    empty: bool = False
    exact: bool = False

    def matcher(self) -> Any:
        """Return a function that maps an Arrow array of subjects to an array of whether they are in this share."""
        pattern, key = _key_pattern(self.tokens)
        known: dict[str, bool] = {}

        def contains(key: str) -> bool:
            if (found := known.get(key)) is None:
                if len(known) >= _MOST_HASHES:
                    known.clear()
                found = known[key] = partition_of(key, (), self.count) == self.index
            return found

        def matches(subjects: Any) -> Any:
            encoded = subjects.dictionary_encode()
            keys = pc.replace_substring_regex(encoded.dictionary, pattern, key).dictionary_encode()
            found = pa.array([contains(one) for one in keys.dictionary.to_pylist()], pa.bool_())
            return found.take(keys.indices).take(encoded.indices)

        return matches


def most_filters(count: int) -> int:
    """Return the number of filters of a share up to which the server's filters are faster than hashes.

    Args:
        count: Number of shares.
    """
    return min(MOST_FILTERS, _FILTERS_PER_SHARE * count)


def key_of(subject: str, tokens: Sequence[int]) -> tuple[str, ...]:
    """Return the key of a subject; missing tokens are empty.

    Args:
        subject: The subject.
        tokens: As `KeyShare.tokens`.
    """
    parts = subject.split(".")
    return tuple(parts[token - 1] if token <= len(parts) else "" for token in tokens)


def share_filters(subjects: Iterable[str], tokens: Sequence[int], count: int) -> list[set[str]] | None:
    """Return the subject filters of each share, which match its subjects and no subject of another share.

    Args:
        subjects: All subjects of the stream.
        tokens: As `KeyShare.tokens`.
        count: Number of shares.

    Returns:
        Filters by share, empty for a share without subjects. None if there are no such filters: a subject contains a
        wildcard, or a share has more than `most_filters`.
    """
    found: list[set[str]] = [set() for _ in range(count)]
    most = most_filters(count)
    last = max(tokens)
    for subject in subjects:
        parts = subject.split(".")
        if "*" in parts or ">" in parts:
            return None
        one = subject
        if len(parts) >= last:
            named = [part if at in tokens else "*" for at, part in enumerate(parts[:last], 1)]
            one = ".".join([*named, ">"] if len(parts) > last else named)
        filters = found[partition_of("".join(key_of(subject, tokens)), (), count)]
        filters.add(one)
        if len(filters) > most:
            return None
    return found


def _key_pattern(tokens: Sequence[int]) -> tuple[str, str]:
    """Return a regular expression for a subject and the replacement that leaves the hashed text of its key."""
    groups = {token: group for group, token in enumerate(sorted(tokens), 1)}
    pattern = ""
    for token in range(max(tokens), 0, -1):
        text = "([^.]*)" if token in groups else "[^.]*"
        pattern = f"{text}{pattern}" if token == 1 else f"(?:\\.{text}{pattern})?"
    return f"(?s)^{pattern}.*$", "".join(f"\\{groups[token]}" for token in tokens)
