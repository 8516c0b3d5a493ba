"""Files of the sink: the number of duplicates and the writes of a batch on the driver's machine, failures on any.

A query's progress has no field for duplicates, and Spark calls the parts of a sink in different processes of the same
user. So each query has two small files in a directory of this user.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .failures import TaskFailure

_IDS = frozenset("0123456789abcdef-")


def write_duplicates(query: str, batch: int, duplicates: int) -> None:
    """Write the number of duplicate rows of a batch; errors are ignored.

    Args:
        query: Spark's id of the query.
        batch: Number of the batch.
        duplicates: Number of rows that the stream already had.
    """
    with contextlib.suppress(OSError):
        _write(_file(query), {"batch": batch, "duplicates": duplicates})


def read_duplicates(query: str, batch: int) -> int | None:
    """Return the number of duplicate rows of a batch; None if it is unknown on this machine.

    Args:
        query: Spark's id of the query.
        batch: Number of the batch.
    """
    try:
        found = _read(query, _file(query))
        return int(found["duplicates"]) if found["batch"] == batch else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def note_write(run: str, batch: str, *, scope: str, execution: str) -> bool:
    """Record a write in `foreachBatch`; errors are ignored.

    Args:
        run: Spark's id of the run of the query, another one after a restart.
        batch: Number of the batch.
        scope: Target and `dedupScope` of the write.
        execution: Spark's id of the write.

    Returns:
        Whether another write of the batch in this run had the same scope. False if it is unknown.
    """
    file, digest = _folder() / f"{run}.writes.json", hashlib.blake2b(scope.encode(), digest_size=8).hexdigest()
    try:
        found = _read(run, file)
        writes = found["writes"] if found["batch"] == batch else {}
        other = bool(writes.get(digest, execution) != execution)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        writes, other = {}, False
    with contextlib.suppress(OSError):
        _write(file, {"batch": batch, "writes": {**writes, digest: execution}})
    return other


def note_failure(failure: TaskFailure) -> None:
    """Record that a write has failed, for its other tasks on this machine; errors are ignored.

    Args:
        failure: The failure of one task.
    """
    with contextlib.suppress(OSError):
        _write(_failure_file(failure.run), asdict(failure))


def read_failure(run: str) -> TaskFailure | None:
    """Return the failure of a write that a task on this machine has recorded; None if there is none.

    Args:
        run: Unique name of the execution of the write.
    """
    try:
        return TaskFailure(**_read(run, _failure_file(run)))
    except (OSError, ValueError, TypeError):
        return None


def remove_failure(run: str) -> None:
    """Remove the failure of a write; errors are ignored.

    Args:
        run: Unique name of the execution of the write.
    """
    with contextlib.suppress(OSError):
        _failure_file(run).unlink(missing_ok=True)


def _write(file: Path, content: dict[str, Any]) -> None:
    _folder().mkdir(mode=0o700, exist_ok=True)
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(content), "utf-8")
    new.replace(file)


def _read(name: str, file: Path) -> Any:
    if not set(name) <= _IDS or _folder().stat().st_uid != _user():
        raise OSError
    return json.loads(file.read_text("utf-8"))


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"jetarrow-spark-{_user()}"


def _failure_file(run: str) -> Path:
    return _folder() / f"{run}.failure.json"


def _file(query: str) -> Path:
    return _folder() / f"{query}.json"
