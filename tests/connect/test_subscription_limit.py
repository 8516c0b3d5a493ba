"""At its subscription limit, the server does not name the rejected subscription; the call fails with its text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.jetstream.errors import BatchError
from jetarrow.server import NatsServer

LIMIT = 4
WORDS = "maximum subscriptions exceeded"


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(config=f"max_subscriptions: {LIMIT}\n") as server:
        with jetarrow.sync.connect(server.url) as nc:
            js = nc.jetstream()
            js.add_stream(name="S", subjects=["s.>"], allow_batched=True, allow_atomic=True)
            js.publish("s.a", b"x")
            js.add_consumer("S", durable_name="d", ack_policy="none")
        yield server


async def publish_batch(nc: Any) -> None:
    result = await nc.jetstream().publish_batch("s.a", [b"x"] * 10, timeout=30)
    assert len(result.errors) == 10
    raise result.errors[0].error


async def fast(nc: Any) -> None:
    try:
        await nc.jetstream().publish_batch("s.a", [b"x"] * 10, mode="fast", timeout=30)
    except BatchError as error:
        raise error.__cause__ or error from None


async def fetch(nc: Any) -> None:
    sub = await nc.jetstream().pull_subscribe_bind("d", "S")
    await sub.fetch(1, timeout=30)


# Each with the number of subscriptions that it has before the tested one.
VERBS: dict[str, tuple[Callable[[Any], Awaitable[object]], int]] = {
    "request": (lambda nc: nc.request("$JS.API.INFO", timeout=30), 0),
    "publish": (lambda nc: nc.jetstream().publish("s.a", b"x", timeout=30), 0),
    "publish_batch": (publish_batch, 0),
    "fast": (fast, 1),
    "fetch": (fetch, 1),
    "read": (lambda nc: nc.jetstream().read("S", start_seq=1, end_seq=2).read_all(), 1),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("verb", VERBS)
async def test_call_without_subscription_raises_server_error(server: NatsServer, verb: str) -> None:
    call, before = VERBS[verb]
    async with await jetarrow.connect(server.url) as nc:
        for number in range(LIMIT - before):
            await nc.subscribe(f"other.{number}")
        with pytest.raises(errors.PermissionsViolationError, match=WORDS) as info:
            await call(nc)
        assert info.value.operation == "subscription"
        assert str(info.value.subject).startswith("_INBOX.")


@pytest.mark.timeout(60)
async def test_row_error_states_whether_row_may_be_stored(server: NatsServer) -> None:
    async with await jetarrow.connect(server.url) as other:
        for _ in range(20):
            before = (await other.jetstream().stream_info("S")).state.messages
            async with await jetarrow.connect(server.url) as full:
                for number in range(LIMIT):
                    await full.subscribe(f"other.{number}")
                with pytest.raises(errors.PermissionsViolationError, match=WORDS) as info:
                    await full.jetstream().publish("s.a", b"x", timeout=30)
            stored = (await other.jetstream().stream_info("S")).state.messages - before
            assert not stored or "was sent and may be stored" in str(info.value)


async def test_error_callback_names_rejected_subscription(server: NatsServer) -> None:
    told: list[Exception] = []

    async def error_cb(error: Exception) -> None:
        told.append(error)

    async with await jetarrow.connect(server.url, error_cb=error_cb) as nc:
        for number in range(LIMIT + 3):
            await nc.subscribe(f"a.{number}")
        await nc.flush()
        await nc.force_reconnect()
        await nc.flush()
    refused = [error.subject for error in told if isinstance(error, errors.PermissionsViolationError)]
    assert refused == [f"a.{number}" for number in range(LIMIT, LIMIT + 3)] * 2
