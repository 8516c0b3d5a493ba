"""Links each error of the reference to its section in docs/troubleshooting.md, like `help(error)` does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

PAGE = Path(__file__).resolve().parents[1] / "docs" / "troubleshooting.md"


class ErrorPages(griffe.Extension):
    """Adds the link to the docstrings that griffe has read from the sources."""

    def __init__(self) -> None:
        self._headings = set(re.findall(r"^### (\w+)$", PAGE.read_text("utf-8"), re.MULTILINE))

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Called by griffe for each class that it has parsed."""
        if cls.docstring and cls.name in self._headings:
            cls.docstring.value += f"\n\n[What to do](../troubleshooting.md#{cls.name.lower()})"
