"""The command `jetarrow`, for people and for scripts. It uses the public API only.

    pip install "jetarrow[cli]"
    jetarrow --help

No other package imports it. Only this package needs typer and rich.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

__all__ = ["main"]

_NEEDS = ("typer", "rich", "pyarrow")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: The arguments after `jetarrow`. Default: those of this process.

    Returns:
        The exit code: 0 on success, 1 on failure, 2 on wrong usage; after a signal 130 (Ctrl-C), 143 (SIGTERM) or 129
        (SIGHUP).
    """
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        print(f'jetarrow: {", ".join(missing)} not installed: run pip install "jetarrow[cli]"', file=sys.stderr)
        return 1
    from jetarrow.cli import signals

    # Imports take most of the time of a short command, and Ctrl-C may interrupt them.
    with signals.handled():
        try:
            from jetarrow.cli.run import run

            return run(sys.argv[1:] if arguments is None else arguments)
        except KeyboardInterrupt:
            return signals.exit_code()
