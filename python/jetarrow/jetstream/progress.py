"""Progress of long calls."""

from __future__ import annotations

import sys
from collections.abc import Callable

from jetarrow.core.arguments import function

Progress = Callable[[int, int | None], object]


def reporter(progress: Progress | bool | None, label: str, unit: str = "rows") -> Progress | None:
    """What an argument `progress` asks for.

    Raises:
        TypeError: It is neither True nor a function.
    """
    if progress is True:
        return progress_bar(label, unit)
    return function("progress", progress or None)


def progress_bar(label: str, unit: str = "rows") -> Progress | None:
    """A bar on stderr; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        return None
    width = 30

    def show(done: int, total: int | None) -> None:
        if total is None:
            sys.stderr.write(f"\r{label}  {done:,} {unit}")
            return
        filled = width * done // max(total, 1)
        sys.stderr.write(f"\r{label}  {'█' * filled}{'░' * (width - filled)}  {done:,} of {total:,}")
        if done >= total:
            sys.stderr.write("\n")
        sys.stderr.flush()

    return show
