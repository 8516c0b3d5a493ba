"""Pull subscriptions that end while a call or an iteration waits: the messages of its request are not lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from jetarrow.core.session import run_to_completion
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext

from .tools import until


@pytest.mark.parametrize("verb", ["unsubscribe", "drain"])
async def test_end_of_a_waiting_iteration_cancels_the_request_sent_ahead(
    js: JetStreamContext, stream: str, verb: str
) -> None:
    await js.publish(f"{stream}.a", b"1")
    await js.add_consumer(stream, durable_name="d", ack_policy="none")
    sub, other = [await js.pull_subscribe_bind("d", stream) for _ in range(2)]
    iteration = aiter(sub.consume())
    assert (await anext(iteration)).data == b"1"
    second = asyncio.ensure_future(anext(iteration))
    await until(lambda: sub._waiting_tasks)

    async def has_requested() -> bool:
        return (await js.consumer_info(stream, "d")).num_waiting == 1

    await until(has_requested)
    await getattr(sub, verb)()
    with pytest.raises(StopAsyncIteration):
        await second
    await js.publish(f"{stream}.a", b"2")
    (msg,) = await other.fetch(timeout=5)
    assert msg.data == b"2"


async def test_end_of_an_iteration_naks_messages_that_have_just_arrived(js: JetStreamContext, stream: str) -> None:
    """The response to the request ahead is there, and the waiting task has not run since."""
    await js.publish(f"{stream}.a", b"1")
    await js.add_consumer(stream, durable_name="d", ack_policy="explicit", ack_wait=600)
    sub: Any
    sub, other = [await js.pull_subscribe_bind("d", stream) for _ in range(2)]
    start = sub._start_fetch

    def ends_at_its_response(*arguments: Any) -> Any:
        future, call = start(*arguments)
        # Called before the task that awaits the future.
        future.add_done_callback(lambda _: run_to_completion(sub.unsubscribe()))
        return future, call

    sub._start_fetch = ends_at_its_response
    iteration = aiter(sub.consume())
    await (await anext(iteration)).ack_sync()
    second = asyncio.ensure_future(anext(iteration))
    await until(lambda: sub._waiting_tasks)
    await js.publish(f"{stream}.a", b"2")
    with pytest.raises(StopAsyncIteration):
        await second
    (msg,) = await other.fetch(timeout=5)
    assert (msg.data, msg.metadata.num_delivered) == (b"2", 2)


async def test_end_while_a_missing_consumer_is_explained_is_no_cancellation(
    js: JetStreamContext, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request for the names of similar consumers is under way."""
    await js.add_consumer(stream, durable_name="d")
    sub = await js.pull_subscribe_bind("d", stream)
    await js.delete_consumer(stream, "d")
    explain = sub._api.explain_not_found

    async def ended_meanwhile(*arguments: Any) -> Any:
        await sub.unsubscribe()
        return await explain(*arguments)

    monkeypatch.setattr(sub._api, "explain_not_found", ended_meanwhile)
    with pytest.raises(js_errors.NotFoundError, match="has no consumer 'd'"):
        await sub.fetch(timeout=20)
