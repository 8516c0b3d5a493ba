"""`python -m jetarrow.demo` (extra `demo`): publishes a year of flights, reads them as Arrow, queries them."""

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
        print(f'the demo requires {error.name}; run: pip install "jetarrow[demo]"', file=sys.stderr)
        return 1
    return run()
