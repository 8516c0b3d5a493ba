"""The limit that a row of `jetarrow bench` met, decided from measured parts of its time.

A row keeps many messages in flight, or each message waits for the one before (a serial row).

- With many messages in flight, client, link and server work at the same time. One of them is the limit if it is busy
  for nearly all of the time (`BUSY`). It is not the limit if it is busy for less than half of the time (`IDLE`).
  Between the two, threads may wait for each other, so the row proves nothing.
- In a serial row the parts add up to the time of the row, so the limit is the part that takes most of it.
"""

from __future__ import annotations

from dataclasses import dataclass

CLIENT, SERVER, LINK = "client CPU", "server", "link"
NEITHER, UNKNOWN = "not client or link", "unknown"

# Part of the time from which a processor or a link is the limit. Not 1.0, because a row also starts and ends.
BUSY = 0.85
# Part of the time below which it is not.
IDLE = 0.5
# Bytes per second of a row, relative to those measured on the link, above which the measurement was too low to prove
# anything: such as a link that others used at the time.
TOO_FAST = 1.15
# Time in seconds that a row takes at least for a decision. A shorter one mostly measures its start.
SHORTEST = 0.1
# Part of the client's time that threads waited for a processor, from which other programs are the cause.
CROWDED = 0.3
# Part of the row's time that this is at least.
CROWDED_LEAST = 0.05


@dataclass(frozen=True)
class Evidence:
    """Measured parts of the time of a row; None for a part that could not be measured.

    Attributes:
        seconds: Time of the row.
        is_serial: Whether each message waits for the one before.
        thread: Part of the time that the busiest thread of the client ran or waited for a processor.
        process: The same of all threads together, so above 1 if several run at once.
        waiting: Part of the time that the threads waited for a processor.
        round_trips: Part of the time that the row's consecutive round trips take on the link.
        bandwidth: Bytes per second of the row, relative to those that the connection carries without a stream.
        server: Processors that the server used, 1.0 for one.
        server_cores: Processors that the server has.
    """

    seconds: float
    is_serial: bool
    thread: float | None
    process: float
    waiting: float = 0.0
    round_trips: float | None = None
    bandwidth: float | None = None
    server: float | None = None
    server_cores: int | None = None

    @property
    def link(self) -> float | None:
        """The larger of the two parts of the link."""
        return max((part for part in (self.round_trips, self.bandwidth) if part is not None), default=None)


@dataclass(frozen=True)
class Limit:
    """The limit of a row.

    Attributes:
        name: `client CPU`, `server` or `link`, two of them with `and`; `not client or link`; `unknown`.
        reason: The measured parts that show it.
        parts: The parts that are the limit, for the advice; empty if it is not known.
        is_slow_link: Whether the link is the limit by its bytes per second, not by its round trips.
    """

    name: str
    reason: str
    parts: tuple[str, ...] = ()
    is_slow_link: bool = False


def decide(evidence: Evidence) -> Limit:
    """Return the limit that a row met.

    Args:
        evidence: The measured parts.
    """
    reason = "; ".join(_measured(evidence))
    if evidence.seconds < SHORTEST:
        return Limit(UNKNOWN, f"{evidence.seconds * 1000:.0f} ms is too short for a decision")
    if evidence.is_serial:
        return _decide_serial(evidence, reason)
    return _decide_overlapping(evidence, reason)


def is_crowded(evidence: Evidence) -> bool:
    """Return whether the threads of the client waited for processors for a large part of their time.

    Args:
        evidence: The measured parts.
    """
    return evidence.waiting >= max(CROWDED * evidence.process, CROWDED_LEAST)


def _measured(evidence: Evidence) -> list[str]:
    found = []
    if evidence.thread is not None and not evidence.is_serial:
        found.append(f"busiest client thread {_percent(evidence.thread)}")
    found.append(f"client CPU {_percent(evidence.process)}")
    if is_crowded(evidence):
        found.append(f"of it {_percent(evidence.waiting)} waiting for a processor")
    if evidence.bandwidth is not None:
        found.append(f"{_percent(evidence.bandwidth)} of the link's bytes/s")
    if evidence.round_trips is not None:
        found.append(f"round trips {_percent(evidence.round_trips)}")
    if evidence.server is not None:
        found.append(f"server CPU {_percent(evidence.server)} of {evidence.server_cores or 1} x 100 %")
    return found


def _percent(part: float) -> str:
    return f"{part * 100:.0f} %"


def _decide_overlapping(evidence: Evidence, reason: str) -> Limit:
    thread, bandwidth, round_trips = evidence.thread, evidence.bandwidth, evidence.round_trips
    is_slow_link = bandwidth is not None and BUSY <= bandwidth <= TOO_FAST
    met = []
    if thread is not None and thread >= BUSY:
        met.append(CLIENT)
    # Round trips of a row are consecutive, so they add up with the rest of its time.
    if is_slow_link or (round_trips is not None and round_trips >= IDLE):
        met.append(LINK)
    if evidence.server is not None and evidence.server >= BUSY * (evidence.server_cores or 1):
        met.append(SERVER)
    if met:
        return Limit(" and ".join(met), reason, tuple(met), is_slow_link)
    # All threads together: those that wait for each other take at most this part of the time.
    if evidence.process >= IDLE:
        return Limit(UNKNOWN, f"{reason}; client threads may wait for each other")
    if bandwidth is None:
        return Limit(UNKNOWN, f"{reason}; the link's bytes/s could not be measured")
    if bandwidth >= IDLE:
        return Limit(UNKNOWN, f"{reason}; near the link's bytes/s, so repeat the run")
    return _by_elimination(evidence, reason)


def _by_elimination(evidence: Evidence, reason: str) -> Limit:
    # A connection, and a stream, are each handled by one thread of the server at a time.
    if evidence.server is not None and evidence.server >= BUSY:
        return Limit(SERVER, reason, (SERVER,))
    return Limit(NEITHER, reason, (NEITHER,))


def _decide_serial(evidence: Evidence, reason: str) -> Limit:
    if evidence.round_trips is None:
        return Limit(UNKNOWN, f"{reason}; the round trip could not be measured")
    parts = {CLIENT: evidence.process, LINK: evidence.round_trips}
    rest = 1 - sum(parts.values())
    reason = f"{reason}; the rest {_percent(max(0.0, rest))}"
    # The server works for the remaining time, or waits for its storage and replicas.
    is_server = evidence.server is not None and evidence.server >= rest * BUSY
    parts[SERVER if is_server else NEITHER] = rest
    first, second, _ = sorted(parts, key=lambda name: -parts[name])
    if parts[first] >= IDLE:
        return Limit(first, reason, (first,))
    if NEITHER in (first, second):
        return Limit(UNKNOWN, reason)
    return Limit(f"{first} and {second}", reason, (first, second))
