"""A panic in one of our tasks is an error of all that waits for it, and never looks like an end. Debug builds only."""

from __future__ import annotations

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import _jetarrow

pytestmark = pytest.mark.skipif(not _jetarrow.__debug_build__, reason="only a debug build can be made to panic")


async def test_of_a_call(nats_url: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        _jetarrow.force_panic("call")
        with pytest.raises(RuntimeError, match="forced in Call"):
            await nc.flush()
        await nc.flush()


def test_of_a_blocking_call(nats_url: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        _jetarrow.force_panic("call")
        with pytest.raises(RuntimeError, match="forced in Call"):
            nc.flush()
        nc.flush()
