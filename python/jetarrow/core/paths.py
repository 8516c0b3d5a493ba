"""Paths of files with secrets: where a caller gave the secret itself instead, no error may show it."""

from __future__ import annotations

import errno
import os
import re

# What a key, a seed or a JWT has, and the path of a file hardly: a seed's letters, a JWT's beginning, a line break or
# another control character, a part as long as nobody names a file.
_SECRET = re.compile(r"\bS[A-Z2-7]{15,}|\beyJ|-----|[\x00-\x1f\x7f]|[^/\\]{65,}")


def secret_path(name: str, given: object) -> str:
    """The path that an option was given.

    Args:
        name: The option, for messages.
        given: What it was given.

    Raises:
        TypeError: It is no path.
        FileNotFoundError: There is no such file, and the text looks like what would be in it: it is not shown.
    """
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"{name} must be a path, not {type(given).__name__}")
    path = os.fspath(given)
    if not isinstance(path, str):
        path = os.fsdecode(path)
    if _SECRET.search(path) and not _exists(path):
        raise FileNotFoundError(
            errno.ENOENT, f"{name} takes the path of a file, and got none (not shown: it looks like a secret)"
        )
    return path


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:
        return False
