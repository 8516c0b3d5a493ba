"""`python -m jetarrow.demo` (extra `demo`): a year of flights into a stream, out as Arrow, answered by Spark."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the demo.

    Returns:
        The exit code.
    """
    try:
        from jetarrow.demo.flights import main as run
    except ModuleNotFoundError as error:
        print(f'the demo needs {error.name}: run pip install "jetarrow[demo]"', file=sys.stderr)
        return 1
    return run()
