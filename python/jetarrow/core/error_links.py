"""What `help(error)` says last: where the documentation tells what to do about it."""

from __future__ import annotations

import sys

# Where Python keeps a docstring's margin, what is added needs it too.
_MARGIN = "" if sys.version_info >= (3, 13) else "    "


def add_link(error: type[BaseException]) -> None:
    """Adds to an error's docstring its place in docs/troubleshooting.md; python -OO leaves no docstrings."""
    if error.__doc__:
        place = f"docs/troubleshooting.md#{error.__name__.lower()}"
        error.__doc__ = f"{error.__doc__.rstrip()}\n\n{_MARGIN}What to do: {place}"
