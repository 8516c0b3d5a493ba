"""How much of the backlog one micro-batch takes."""

from __future__ import annotations

from collections.abc import Mapping


def share(sizes: Mapping[str, int], limit: int) -> dict[str, int]:
    """Share a limit over the backlogs of streams, in proportion; what remains goes to the largest remainders.

    No stream with a backlog is left out while the limit has one offset for each.

    Args:
        sizes: Offsets that wait, by stream.
        limit: Most offsets in all, at least 1.
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
    """Return how many offsets of each stream go into the next micro-batch: at least one in all.

    Args:
        sizes: Offsets that wait, by stream; at least one.
        weights: Bytes of one offset, by stream; estimated.
        most_offsets: Most offsets in all; None for no limit. The limit that is reached first rules.
        most_bytes: Most bytes in all, estimated; None for no limit.
    """
    taken = dict(sizes) if most_offsets is None else share(sizes, most_offsets)
    if most_bytes is not None:
        estimate = sum(count * weights[name] for name, count in taken.items())
        if estimate > most_bytes:
            taken = share(taken, max(1, int(sum(taken.values()) * most_bytes / estimate)))
    return taken
