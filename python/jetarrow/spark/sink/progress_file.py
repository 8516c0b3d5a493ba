"""What the sink of a streaming query tells `jetarrow.spark.progress` about duplicates.

Spark has no place for it in a query's progress. Both run on the driver's machine as one user, in different processes: a
small file for each query, in a directory of this user's, says it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

_IDS = frozenset("0123456789abcdef-")


def write_duplicates(query: str, batch: int, duplicates: int) -> None:
    """Keep how many rows of a batch the stream had before; where that cannot be kept, nothing is said.

    Args:
        query: Spark's id of the query.
        batch: Its number.
        duplicates: The rows.
    """
    with contextlib.suppress(OSError):
        folder = _folder()
        folder.mkdir(mode=0o700, exist_ok=True)
        new = _file(query).with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"batch": batch, "duplicates": duplicates}), "utf-8")
        new.replace(_file(query))


def read_duplicates(query: str, batch: int) -> int | None:
    """Return how many rows of a batch the stream had before; None where nobody here knows.

    Args:
        query: Spark's id of the query.
        batch: Its number.
    """
    try:
        if not set(query) <= _IDS or _folder().stat().st_uid != _user():
            return None
        found = json.loads(_file(query).read_text("utf-8"))
        return int(found["duplicates"]) if found["batch"] == batch else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"jetarrow-spark-{_user()}"


def _file(query: str) -> Path:
    return _folder() / f"{query}.json"
