"""Rules of the diagnosis: each is a function of the facts and the thresholds that yields findings, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jetarrow.jetstream.doctor.finding import Finding
from jetarrow.jetstream.doctor.rules import acks, consumers, durability, features, limits, replication, servers
from jetarrow.jetstream.doctor.snapshot import Snapshot
from jetarrow.jetstream.doctor.thresholds import Thresholds

Rule = Callable[[Snapshot, Thresholds], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *durability.RULES,
    *limits.RULES,
    *consumers.RULES,
    *acks.RULES,
    *replication.RULES,
    *servers.RULES,
    *features.RULES,
)


def diagnose(snapshot: Snapshot, thresholds: Thresholds) -> list[Finding]:
    """Return the findings of all rules.

    Args:
        snapshot: The facts.
        thresholds: The thresholds.
    """
    return [finding for rule in RULES for finding in rule(snapshot, thresholds)]
