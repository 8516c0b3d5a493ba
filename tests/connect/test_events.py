"""The queue of a connection's events."""

from __future__ import annotations

import asyncio
import logging

import pytest
from jetarrow.core.connection_log import ConnectionLog
from jetarrow.core.events import Events


class Session:
    last_connection = None


@pytest.fixture
def session() -> Session:
    return Session()


async def test_events_without_a_callback_leave_no_task(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    """A loop that ends would not run it any more, and Python reports a coroutine that was never awaited."""
    caplog.set_level(logging.INFO, "jetarrow.connection")
    events = Events({}, ConnectionLog(session))
    events.enqueue("disconnected")
    events.enqueue("closed")
    assert len(asyncio.all_tasks()) == 1
    assert [record.message for record in caplog.records] == ["nats: disconnected", "nats: connection closed"]


async def test_the_order_is_kept_among_events_with_a_callback(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "jetarrow.connection")

    async def disconnected() -> None:
        caplog.records.clear()

    events = Events({"disconnected_cb": disconnected}, ConnectionLog(session))
    events.enqueue("disconnected")
    events.enqueue("closed")
    await events.wait_for_callbacks()
    assert [record.message for record in caplog.records] == ["nats: connection closed"]


async def test_a_handler_of_logs_that_fails_stops_no_event(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: logging.LogRecord) -> bool:
        raise ValueError("the program's own filter")

    caplog.set_level(logging.INFO, "jetarrow.connection")
    seen = []

    async def closed() -> None:
        seen.append("closed")

    logger = logging.getLogger("jetarrow.connection")
    logger.addFilter(fail)
    try:
        events = Events({"closed_cb": closed}, ConnectionLog(session))
        events.enqueue("disconnected")
        events.enqueue("closed")
        await events.wait_for_callbacks()
    finally:
        logger.removeFilter(fail)
    assert seen == ["closed"]
    assert "an event of kind disconnected could not be logged" in caplog.text
