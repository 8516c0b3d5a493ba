"""Links from error docstrings to docs/troubleshooting.md, as the last line of `help(error)`."""

from __future__ import annotations

import sys

# Before Python 3.13 docstrings keep their indentation, so added lines need it too.
_MARGIN = "" if sys.version_info >= (3, 13) else "    "


def add_link(error: type[BaseException]) -> None:
    """Adds the link of an error's section in docs/troubleshooting.md to its docstring, if it has one (not with -OO)."""
    if error.__doc__:
        place = f"docs/troubleshooting.md#{error.__name__.lower()}"
        error.__doc__ = f"{error.__doc__.rstrip()}\n\n{_MARGIN}What to do: {place}"
