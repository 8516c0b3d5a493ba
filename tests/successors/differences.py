"""Intended differences from the successors of nats-py, by scenario and key of its record.

The reasons are in MIGRATION.md's section "Successors of nats-py" as well, word for word.
"""

from __future__ import annotations

DIFFERENCES: dict[tuple[str, str], str] = {}

# Public names of the reference that ours does not have, or has otherwise, by path below `nats`.
LEFT_OUT: dict[str, str] = {
    "client.connection": "The transport of the reference; ours is native.",
    "client.protocol": "The parser of the reference; ours is native.",
    "client.Client.__init__": "Clients are made by `connect`.",
    "client.ParseError": "The parser of the reference; ours is native.",
}
