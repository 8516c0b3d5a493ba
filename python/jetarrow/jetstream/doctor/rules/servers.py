"""Rules: clocks, versions, slow consumers, storage and certificates of servers."""

from __future__ import annotations

from collections.abc import Iterator

from jetarrow.jetstream.doctor.finding import Finding, error, warning
from jetarrow.jetstream.doctor.snapshot import Clock, ServerFacts, Snapshot, Usage
from jetarrow.jetstream.doctor.texts import counted, listed, size, span
from jetarrow.jetstream.doctor.thresholds import Thresholds

_CLOCK_REMEDY = "synchronise the clocks, for example with chrony; max_age, start_time and token expiry depend on them"


def difference(clock: Clock) -> float:
    """Return the proven difference of a clock from the client's, in seconds; 0 if the bounds allow none."""
    return clock.low if clock.low > 0 else clock.high if clock.high < 0 else 0.0


def clocks(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Clocks that differ from the client's, or from each other."""
    clocks = {server.name: server.clock for server in snapshot.servers or ()} or {snapshot.server: snapshot.clock}
    differences = {name: difference(clock) for name, clock in clocks.items()}
    nearest = min(differences.values(), key=abs)
    # The client's clock is wrong if all servers differ from it in one direction.
    if abs(nearest) >= limits.clock and all(value * nearest > 0 for value in differences.values()):
        direction = "behind" if nearest > 0 else "ahead of"
        name = f"server {next(iter(clocks))}" if len(clocks) == 1 else f"all {len(clocks)} servers"
        yield warning(
            "client",
            f"the clock of this client is {span(abs(nearest))} {direction} that of {name}",
            evidence=f"at least {span(abs(nearest))}, measured with a request",
            remedy=_CLOCK_REMEDY,
        )
    yield from _between(clocks, limits)


def _between(clocks: dict[str, Clock], limits: Thresholds) -> Iterator[Finding]:
    """The two servers whose clocks differ most."""
    if len(clocks) < 2:
        return
    first = min(clocks, key=lambda name: clocks[name].high)
    last = max(clocks, key=lambda name: clocks[name].low)
    apart = clocks[last].low - clocks[first].high
    if first != last and apart >= limits.clock:
        yield warning(
            f"servers {first}, {last}",
            f"their clocks differ by {span(apart)}: times of messages change by that at an election",
            evidence=f"{last} is at least {span(apart)} ahead of {first}",
            remedy=_CLOCK_REMEDY,
        )


def versions(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Servers of different versions."""
    by_version: dict[str, list[str]] = {}
    for server in snapshot.servers or ():
        by_version.setdefault(server.version, []).append(server.name)
    if len(by_version) > 1:
        yield warning(
            "servers",
            "servers of different versions: features of the newer ones fail when an older one leads",
            evidence="; ".join(f"{version}: {listed(names)}" for version, names in sorted(by_version.items())),
            remedy="complete the upgrade of the servers",
        )


def slow_consumers(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Servers that disconnected slow consumers."""
    for server in snapshot.servers or ():
        kinds = {kind: count for kind, count in server.slow.items() if count}
        if kinds:
            counts = ", ".join(counted(count, kind.removesuffix("s")) for kind, count in kinds.items())
            yield warning(
                f"server {server.name}",
                "slow consumers were disconnected: they did not read as fast as the server wrote",
                evidence=f"{counts} since the start {server.uptime} ago",
                remedy="see the server's log for their addresses; process messages outside of callbacks, or raise"
                " max_pending and write_deadline of the server",
            )


def storage(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Servers whose JetStream storage is nearly full or reserved."""
    for server in snapshot.servers or ():
        for kind, option, usage in (
            ("file", "max_file_store", server.file),
            ("memory", "max_memory_store", server.memory),
        ):
            if usage.limit > 0 and max(usage.used, usage.reserved) / usage.limit >= limits.full:
                yield _full(server, kind, option=option, usage=usage)


def _full(server: ServerFacts, kind: str, *, option: str, usage: Usage) -> Finding:
    used = usage.used / usage.limit
    evidence = f"{size(usage.used)} used, {size(usage.reserved)} reserved of {option} {size(usage.limit)}"
    remedy = f"raise {option} or add disk, delete streams or messages, or lower max_bytes of streams"
    if usage.used >= usage.reserved:
        problem = f"{kind} storage of JetStream is {used:.0%} full: at the limit publishes are rejected"
        severity = error if used >= 1 else warning
        return severity(f"server {server.name}", problem, evidence=evidence, remedy=remedy)
    problem = (
        f"{kind} storage of JetStream is {usage.reserved / usage.limit:.0%} reserved: at the limit new streams with"
        " max_bytes are rejected"
    )
    return warning(f"server {server.name}", problem, evidence=evidence, remedy=remedy)


def certificates(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """TLS certificates that expire soon."""
    for server in snapshot.servers or ():
        for listener, expiry in server.certificates.items():
            left = (expiry - snapshot.now).total_seconds()
            if left >= limits.certificate:
                continue
            problem = f"its TLS certificate for {listener} " + (
                f"expires in {span(left)}" if left > 0 else "is expired: new connections fail"
            )
            yield (warning if left > 0 else error)(
                f"server {server.name}",
                problem,
                evidence=f"not after {expiry:%Y-%m-%d %H:%M} UTC",
                remedy="replace the certificate and reload the server: nats-server --signal reload",
            )


def peers(snapshot: Snapshot, limits: Thresholds) -> Iterator[Finding]:
    """Members of the JetStream cluster that do not answer, and a cluster without a leader."""
    servers = snapshot.servers or ()
    for name in sorted({peer for server in servers for peer in server.late_peers} - {one.name for one in servers}):
        witnesses = sorted(one.name for one in servers if name in one.late_peers)
        yield warning(
            f"server {name}",
            "the server is offline, but the JetStream cluster counts it as a member",
            evidence=f"it does not answer, and is not current according to {listed(witnesses)}",
            remedy="start it, or remove it for good: nats server cluster peer-remove",
        )
    without = [server.name for server in servers if not server.has_meta_leader]
    if servers and len(without) == len(servers) and not snapshot.unavailable:
        yield error(
            "servers",
            "the JetStream cluster has no leader: streams and consumers can be neither created nor changed",
            evidence=f"no leader according to {listed(without)}",
            remedy="start servers until more than half of the cluster is online",
        )


RULES = (clocks, versions, slow_consumers, storage, certificates, peers)
