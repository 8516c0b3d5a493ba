"""One measurement of `jetarrow bench`: prepares the state of each row, runs it, and decides its limit."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from jetarrow.cli import bench_limits as limits
from jetarrow.cli.bench_limits import Evidence, Limit
from jetarrow.cli.bench_meters import SAMPLE_AGE, Link, ServerCpu, measure_link
from jetarrow.cli.bench_responder import responding
from jetarrow.cli.bench_rows import Row, Run, fitting

# Payload bytes of a row, so that large payloads do not fill the server's disk.
MOST_BYTES = 1 << 30

_FREE = "free processors of this machine, which other programs or the server use"

Report = Callable[[int], None]


@dataclass(frozen=True)
class Plan:
    """Options of a measurement.

    Attributes:
        name: Name of the stream and of the bucket, and first token of all subjects.
        payload: Payload of each message.
        most: Maximum number of messages of a row.
        seconds: Maximum time in seconds of the measured part of a row.
        storage: Storage of stream and bucket.
        replicas: Their replicas.
        rows: The rows, in their order.
    """

    name: str
    payload: bytes
    most: int
    seconds: float
    storage: str
    replicas: int
    rows: tuple[Row, ...]

    def most_of(self, row: Row) -> int:
        """Return the maximum number of messages of a row."""
        by_bytes = max(1, MOST_BYTES // max(1, len(self.payload)))
        return min(self.most, by_bytes, row.most or self.most)


async def measure(
    plan: Plan,
    connect: Mapping[str, Any],
    *,
    jetstream: Mapping[str, Any],
    server_cpu: ServerCpu | None,
    reports: Callable[[Row], Report],
    results: list[dict[str, Any]],
) -> Link:
    """Measure all rows of a plan on one connection. The stream exists, and the caller deletes stream and bucket.

    Args:
        plan: The options.
        connect: Options of `connect`.
        jetstream: Options of `nc.jetstream`.
        server_cpu: Reads the CPU of servers; None if the user may not.
        reports: Returns the function that receives the progress of a row.
        results: Receives each row that was measured, by the keys of `--json`.

    Returns:
        The measurement of the link.
    """
    import jetarrow

    async with await jetarrow.connect(**connect) as nc:
        # Below the name, and not a subject of the stream.
        link = await measure_link(nc, f"{plan.name}.raw")
        for row in plan.rows:
            run = Run(
                nc, nc.jetstream(**jetstream), plan.name, plan.payload, plan.most_of(row), plan.seconds, reports(row)
            )
            with contextlib.ExitStack() as stack:
                if row.needs == "responder":
                    stack.enter_context(responding(connect, f"{plan.name}.request"))
                else:
                    await _prepare(plan, row, run)
                if server_cpu is not None:
                    server_cpu.server = await _server_of(row, run)
                count = await row.function(run)
            run.report(count)
            results.append(_result(row, run, count, link=link, server_cpu=server_cpu))
        return link


async def _prepare(plan: Plan, row: Row, run: Run) -> None:
    """Make the state that a row needs."""
    js = run.js
    if row.needs in ("empty", "filled"):
        # So that the messages of earlier rows do not add up on the disk.
        await js.purge_stream(plan.name)
    else:
        await js.create_key_value(bucket=plan.name, storage=plan.storage, replicas=plan.replicas)
    if row.needs == "filled":
        run.most = await fitting(run)
        await js.purge_stream(plan.name)
        (await js.publish_batch(plan.name, [run.payload] * run.most)).raise_for_errors()
    if row.needs == "keys":
        run.most = await fitting(run)
        bucket = await js.key_value(plan.name)
        (await bucket.put_batch(run.keys, [run.payload] * run.most)).raise_for_errors()


async def _server_of(row: Row, run: Run) -> str:
    """Return the server that leads the stream of a row; without a stream that of the connection."""
    if row.needs != "responder":
        stream = run.name if row.needs in ("empty", "filled") else f"KV_{run.name}"
        cluster = (await run.js.stream_info(stream)).cluster
        if cluster is not None and cluster.leader:
            return cluster.leader
    return str(run.nc._server_info.get("server_id") or "")


def _result(row: Row, run: Run, count: int, *, link: Link, server_cpu: ServerCpu | None) -> dict[str, Any]:
    evidence = evidence_of(row, run, link, None if server_cpu is None else server_cpu.between(run.start, run.end))
    limit = limits.decide(evidence)
    rate = count / evidence.seconds
    return {
        "name": row.name,
        "messages": count,
        "seconds": evidence.seconds,
        "per_second": rate,
        "bytes_per_second": rate * len(run.payload),
        "median_ms": median(run.waits) * 1000 if run.waits else None,
        "client_cpu": evidence.process,
        "client_thread": evidence.thread,
        "bandwidth": evidence.bandwidth,
        "round_trips": evidence.round_trips,
        "server_cpu": evidence.server,
        "limit": limit.name,
        "reason": limit.reason,
        "advice": advice_of(row, limit, evidence, can_ask=server_cpu is not None),
    }


def evidence_of(row: Row, run: Run, link: Link, server: tuple[float, int] | None) -> Evidence:
    """Return the measured parts of a run's time.

    Args:
        row: The row.
        run: The run, which is over.
        link: The connection without a stream.
        server: Used processors of the server, and the number that it has; None if they are not known.
    """
    seconds = max(run.end - run.start, 1e-9)
    cpu = run.cpu
    process = (cpu.process + cpu.waiting + run.other_cpu) / seconds
    thread = max(cpu.thread or 0.0, run.other_cpu) / seconds
    rates = []
    # In a serial row most of the time nothing is sent.
    if not row.is_serial:
        for way, raw, frame in (("out", link.up, row.frames[0]), ("in", link.down, row.frames[1])):
            if raw:
                moved = run.moved[f"{way}_bytes"] + frame * run.moved[f"{way}_msgs"]
                rates.append(moved / seconds / raw)
    return Evidence(
        seconds=seconds,
        is_serial=row.is_serial,
        # All processors busy is a limit too, however many threads share them.
        thread=max(thread, process / _processors()),
        process=process,
        waiting=cpu.waiting / seconds,
        round_trips=run.round_trips * link.way / seconds,
        # A way that could not be measured proves nothing about the other one.
        bandwidth=max(rates) if len(rates) == 2 else None,
        server=None if server is None else server[0],
        server_cores=None if server is None else server[1],
    )


def _processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def advice_of(row: Row, limit: Limit, evidence: Evidence, *, can_ask: bool) -> str:
    """Return the change that raises a limit.

    Args:
        row: The row.
        limit: Its limit.
        evidence: The measured parts.
        can_ask: Whether the user may ask the server for its CPU.
    """
    return "; ".join(dict.fromkeys(_advice(row, limit, evidence, can_ask=can_ask)))


def _advice(row: Row, limit: Limit, evidence: Evidence, *, can_ask: bool) -> Iterable[str]:
    for part in limit.parts:
        if part == limits.CLIENT:
            if limits.is_crowded(evidence):
                yield _FREE
            yield f"use {row.faster}"
        elif part == limits.LINK:
            if limit.is_slow_link:
                yield "send fewer bytes, for example compressed payloads"
            else:
                yield f"use {row.faster}, so that fewer messages wait for a round trip"
            yield "run nearer to the server"
        elif part == limits.SERVER:
            yield "use a faster server, or streams on several servers"
        elif evidence.server is not None:
            yield "the server waits for its storage or replicas: compare with --storage memory and --replicas 1"
        elif can_ask:
            yield f"the CPU of the server is known for rows above {SAMPLE_AGE:g} s: raise --msgs and --seconds"
        else:
            yield "give --system-context for the CPU of the server, and compare with --storage memory"
    if not limit.parts:
        yield f"{_FREE}, and repeat" if limits.is_crowded(evidence) else "raise --msgs and --seconds, and repeat"
