"""File by which the sink of a streaming query passes its number of duplicates to `jetarrow.spark.progress`.

A query's progress has no field for it. Sink and caller run on the driver's machine as the same user, in different
processes, so each query has a small file in a directory of this user.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

_IDS = frozenset("0123456789abcdef-")


def write_duplicates(query: str, batch: int, duplicates: int) -> None:
    """Write the number of duplicate rows of a batch; errors are ignored.

    Args:
        query: Spark's id of the query.
        batch: Number of the batch.
        duplicates: Number of rows that the stream already had.
    """
    with contextlib.suppress(OSError):
        folder = _folder()
        folder.mkdir(mode=0o700, exist_ok=True)
        new = _file(query).with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"batch": batch, "duplicates": duplicates}), "utf-8")
        new.replace(_file(query))


def read_duplicates(query: str, batch: int) -> int | None:
    """Return the number of duplicate rows of a batch; None if it is unknown on this machine.

    Args:
        query: Spark's id of the query.
        batch: Number of the batch.
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
