"""A `close` that is cancelled anywhere can be repeated, and the second one closes the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import jetarrow
import pytest


class _Unacknowledged:
    """A publisher whose messages get no acks."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    def is_usable_here(self) -> bool:
        return True

    def unanswered(self) -> tuple[int, int]:
        return 0, 0

    async def wait_for_acks(self, wait: float | None = None) -> None:
        if not self.waits.is_set():
            self.waits.set()
            await asyncio.Event().wait()


@pytest.mark.parametrize("point", ["before its first wait ends", "acks", "native"])
async def test_cancelled_close_can_be_repeated(nats_url: str, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    async def on_closed() -> None:
        closed.append(True)

    nc = await jetarrow.connect(nats_url, closed_cb=on_closed)
    session: Any = nc._session
    publisher, reached = _Unacknowledged(), asyncio.Event()
    closing = asyncio.ensure_future(nc.close())
    if point == "before its first wait ends":
        await asyncio.sleep(0)
    elif point == "acks":
        session.publishers.add(publisher)
        await publisher.waits.wait()
    else:
        run = session.run

        async def held(call: Any, *options: Any) -> Any:
            if not reached.is_set():
                reached.set()
                await asyncio.Event().wait()
            return await run(call, *options)

        monkeypatch.setattr(session, "run", held)
        await reached.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not session.last_connection.is_closed
    assert not closed
    await nc.close()
    assert session.last_connection.is_closed
    assert nc.is_closed
    assert closed == [True]
