"""Texts of evidence: names of objects, durations and sizes."""

from __future__ import annotations

import shlex

from jetarrow.jetstream import models

_SPANS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"))


def stream_name(info: models.StreamInfo) -> str:
    """Return `stream ORDERS`."""
    return f"stream {info.config.name}"


def consumer_name(info: models.ConsumerInfo) -> str:
    """Return `consumer ORDERS > billing`."""
    return f"consumer {info.stream_name} > {info.name}"


def command(verb: str, info: models.ConsumerInfo) -> str:
    """Return a subcommand of `jetarrow consumer`, with the names quoted for a shell."""
    return shlex.join(["jetarrow", "consumer", verb, info.stream_name, info.name])


def server_name(name: str, server_id: str) -> str:
    """Return a server's name; for a server without one, which uses its id of 56 characters, the first twelve."""
    return name if name != server_id else name[:12]


def span(seconds: float) -> str:
    """Return a duration with its largest unit: `1.5h`, `30s`, `250ms`."""
    for size, unit in _SPANS:
        # 3,599.9 s is 1h, not 60m.
        if abs(seconds) >= 0.995 * size:
            return f"{seconds / size:.1f}".removesuffix(".0") + unit
    return f"{seconds * 1000:.0f}ms"


def size(count: float) -> str:
    """Return a size: `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def counted(count: int, noun: str) -> str:
    """Return `1 message` or `4,000 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(names: list[str], most: int = 3) -> str:
    """Return the first names and the number of the others: `a, b, c and 7 more`."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
