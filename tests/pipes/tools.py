"""Streams and functions of the tests of pipes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SCHEMA = {"id": "int64", "key": "string"}


def payloads(ids: Iterable[int], keys: int = 5) -> tuple[list[str], list[str]]:
    """Subjects and payloads of messages."""
    ids = list(ids)
    subjects = [f"{{stream}}.k{number % keys}" for number in ids]
    return subjects, [json.dumps({"id": number, "key": f"k{number % keys}"}) for number in ids]


async def publish(js: Any, stream: str, ids: Iterable[int], keys: int = 5) -> None:
    subjects, texts = payloads(ids, keys)
    result = await js.publish_batch([one.format(stream=stream) for one in subjects], texts, timeout=60)
    result.raise_for_errors()


def double(rows: pa.Table) -> pa.Table:
    """A function of a pipe."""
    return rows.append_column("double", pc.multiply(rows["id"], 2))


async def outputs(js: Any, target: str) -> list[dict[str, Any]]:
    """The decoded messages of a target, without positions."""
    rows = await js.read(target, subjects=f"{target}.out.>").read_all()
    return [json.loads(data) for data in rows["data"].to_pylist()]
