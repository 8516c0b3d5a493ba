"""The command `jetarrow`: thin calls of the public API, for people and for scripts.

    pip install "jetarrow[cli]"
    jetarrow --help

Nothing else imports this package, and it needs typer and rich, which nothing else does.
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
        arguments: What stands behind `jetarrow`; None is what this process was started with.

    Returns:
        The exit code: 0, 1 if it failed, 2 if it was called wrongly; after a signal 130 (Ctrl-C), 143 (SIGTERM) or 129
        (SIGHUP).
    """
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        print(f'jetarrow: {", ".join(missing)} not installed: run pip install "jetarrow[cli]"', file=sys.stderr)
        return 1
    from jetarrow.cli.run import run

    return run(sys.argv[1:] if arguments is None else arguments)
