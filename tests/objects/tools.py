"""Helpers of the object store tests; this module contains no tests."""

from __future__ import annotations

import os

from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import NotFoundError
from jetarrow.js.object_store import ObjectStore

CHUNK = 128 * 1024
# Chunks that are full and one that is not, in more than one group of a put.
LARGE = os.urandom(1024 * 1024) * 9 + b"the end"


async def stored(js: JetStreamContext, bucket: str) -> dict[str, int]:
    """Counts the messages of the bucket's stream: chunks by version, and `meta`."""
    info = await js.stream_info(f"OBJ_{bucket}", subjects_filter=">")
    found = {"meta": 0}
    for subject, count in (info.state.subjects or {}).items():
        _, _, kind, last = subject.split(".")
        name = last if kind == "C" else "meta"
        found[name] = found.get(name, 0) + count
    return found


def chunks(size: int, chunk: int = CHUNK) -> int:
    return -(-size // chunk)


async def contents(store: ObjectStore) -> dict[str, bytes]:
    """The data of every object that is neither deleted nor a link; each is read, and its digest is checked."""
    try:
        infos = await store.list(ignore_deletes=True)
    except NotFoundError:
        return {}
    return {info.name: (await store.get(info.name)).data or b"" for info in infos if not info.is_link()}


async def assert_no_orphans(js: JetStreamContext, store: ObjectStore, bucket: str) -> None:
    """After `clean`, every chunk belongs to an object that is listed, and every object has all of its chunks."""
    before = await contents(store)
    await store.clean(0)
    infos = await store.list() if (await stored(js, bucket))["meta"] else []
    live = {info.nuid: info.chunks for info in infos if not info.deleted and info.chunks}
    left = await stored(js, bucket)
    assert {nuid: count for nuid, count in left.items() if nuid != "meta"} == live
    assert await contents(store) == before
