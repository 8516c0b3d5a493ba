"""Admission control: the share of the backlog that one micro-batch reads."""

from __future__ import annotations

from collections.abc import Mapping


def share(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """Distribute a limit over the backlogs of streams in proportion, by the largest remainder method.

    Every stream with a backlog gets at least one offset if the limit permits it.

    Args:
        sizes: Pending offsets by stream.
        limit: Maximum number of offsets in total, at least 1.
    """
    total = sum(sizes.values())
    if total <= limit:
        return dict(sizes)
    waiting = {name: size for name, size in sizes.items() if size > 0}
    least = 1 if limit >= len(waiting) else 0
    spare = limit - least * len(waiting)
    shares = {name: least + (size - least) * spare // (total - least * len(waiting)) for name, size in waiting.items()}
    remainders = {name: (size - least) * spare % (total - least * len(waiting)) for name, size in waiting.items()}
    order = sorted(waiting, key=lambda name: (-remainders[name], -sizes[name], name))
    for name in order[: limit - sum(shares.values())]:
        shares[name] += 1
    return {name: shares.get(name, 0) for name in sizes}


def admit(
    sizes: Mapping[str, int], weights: Mapping[str, float], *, most_offsets: int | None, most_bytes: int | None
) -> dict[str, int]:
    """Return the number of offsets of each stream in the next micro-batch: at least one in total.

    Args:
        sizes: Pending offsets by stream; at least one.
        weights: Estimated bytes per offset, by stream.
        most_offsets: Maximum number of offsets in total; None for no limit. The smaller of the two limits applies.
        most_bytes: Maximum size in bytes in total, estimated; None for no limit.
    """
    taken = dict(sizes) if most_offsets is None else share(sizes, most_offsets)
    if most_bytes is not None:
        estimate = sum(count * weights[name] for name, count in taken.items())
        if estimate > most_bytes:
            taken = share(taken, max(1, int(sum(taken.values()) * most_bytes / estimate)))
    return taken
