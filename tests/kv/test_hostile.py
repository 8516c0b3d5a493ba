"""A key that contains a wildcard is never used as a filter."""

from __future__ import annotations

import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.kv import KeyValue

from tests.raw_publish import raw_publish


@pytest.mark.parametrize("key", [">", "*", "a.>", "a.*"])
async def test_purge_deletes_with_a_marker_at_a_wildcard_keeps_the_other_keys(
    js: JetStreamContext, kv: KeyValue, nats_url: str, key: str
) -> None:
    for name in ("x", "y", "a.b"):
        await kv.put(name, b"1")
    await kv.delete("y")
    raw_publish(nats_url, f"$KV.{kv._name}.{key}", headers={"KV-Operation": "DEL"})
    await kv.purge_deletes(olderthan=0)
    assert await kv.keys() == ["x", "a.b"]
    state = (await js.stream_info(f"KV_{kv._name}", ">")).state
    assert {subject.removeprefix(f"$KV.{kv._name}.") for subject in state.subjects or {}} == {"x", "a.b", key}
