"""What the tests of object stores share. No test is in here."""

from __future__ import annotations

import os

from jetarrow.js.client import JetStreamContext

CHUNK = 128 * 1024
# Chunks that are full and one that is not, in more than one piece of a put.
LARGE = os.urandom(1024 * 1024) * 9 + b"the end"


async def stored(js: JetStreamContext, bucket: str) -> dict[str, int]:
    """How many messages the bucket's stream has: chunks by version, and `meta`."""
    info = await js.stream_info(f"OBJ_{bucket}", subjects_filter=">")
    found = {"meta": 0}
    for subject, count in (info.state.subjects or {}).items():
        _, _, kind, last = subject.split(".")
        name = last if kind == "C" else "meta"
        found[name] = found.get(name, 0) + count
    return found


def chunks(size: int, chunk: int = CHUNK) -> int:
    return -(-size // chunk)
