"""Writes the medians of several runs as one run: python benches/median_run.py OUT.json RUN.json RUN.json RUN.json

Rates, ratios and CPU times are medians of the runs that have the row; minimum and maximum are those of all runs.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
# Figures that are no medians.
EXTREMES = {"rate_min": min, "rate_max": max}
SAME = ("cpus", "cpu", "system", "python", "versions", "rounds", "scale")


def median_row(rows: Sequence[Row]) -> Row:
    """One row of several runs."""
    merged = dict(rows[0])
    for key, value in rows[0].items():
        if isinstance(value, float):
            found = [row[key] for row in rows if isinstance(row.get(key), int | float)]
            merged[key] = EXTREMES.get(key, statistics.median)(found)
    merged["runs"] = len(rows)
    merged["seconds"] = [second for row in rows for second in row.get("seconds", [])]
    return merged


def median_run(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One run of several, which are of the same machine and versions."""
    different = [key for key in SAME if any(run.get(key) != runs[0].get(key) for run in runs)]
    if different:
        raise ValueError(f"the runs differ in {', '.join(different)}")
    rows: dict[tuple[str, str], list[Row]] = {}
    for run in runs:
        for row in run["rows"]:
            if row.get("rate"):
                rows.setdefault((row["group"], row["name"]), []).append(row)
    merged = dict(runs[-1])
    merged["load_average"] = statistics.median(run["load_average"] or 0.0 for run in runs)
    merged["slow_consumer_lines"] = sum(run["slow_consumer_lines"] for run in runs)
    merged["runs"] = len(runs)
    merged["rows"] = [median_row(found) for found in rows.values()]
    return merged


def main() -> None:
    """Reads the runs and writes their medians."""
    if len(sys.argv) < 3:
        sys.exit("usage: python benches/median_run.py OUT.json RUN.json...")
    runs = [json.loads(Path(path).read_text("utf-8")) for path in sys.argv[2:]]
    Path(sys.argv[1]).write_text(json.dumps(median_run(runs), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
