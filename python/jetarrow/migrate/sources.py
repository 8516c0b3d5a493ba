"""Files of a program: the Python files below a path, and their syntax trees."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

# Folders that hold other programs, or no programs.
SKIPPED = frozenset({".venv", ".git", "node_modules", "__pycache__"})
SUFFIXES = (".py", ".pyw")


def python_files(path: str) -> Iterator[str]:
    """Yield a file itself, or the Python files of a folder and its subfolders, sorted by name.

    Args:
        path: A file of any name, or a folder. Links to folders are not followed; `SKIPPED` names the folders that are
            left out.

    Raises:
        FileNotFoundError: There is no such path.
    """
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise FileNotFoundError(f"no file or folder {path!r}")
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(SUFFIXES))


def parse(data: bytes, path: str) -> ast.Module:
    """Return the syntax tree of a file, decoded as its encoding declaration requests.

    Args:
        data: Contents of the file.
        path: Its path, for the error.

    Raises:
        SyntaxError: It cannot be decoded or parsed.
    """
    try:
        with warnings.catch_warnings():
            # Warnings about the program itself, for example of invalid escape sequences.
            warnings.simplefilter("ignore")
            return ast.parse(data, filename=path)
    except SyntaxError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        # Null bytes; expressions that are nested too deeply for the parser.
        raise SyntaxError(str(error) or type(error).__name__) from error


def text_lines(data: bytes) -> list[str]:
    """Return the lines of a file that `parse` accepts, as Python counts them."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    # Unlike str.splitlines, Python ends a line only here.
    return re.split("\r\n|\r|\n", data.decode(encoding))


def shadows_nats(path: str) -> bool:
    """Return whether `import nats` in a file means a module of the program itself, a sibling of its package."""
    folder = Path(path).resolve().parent
    while (folder / "__init__.py").exists() and folder != folder.parent:
        folder = folder.parent
    return (folder / "nats.py").exists() or (folder / "nats" / "__init__.py").exists()
