"""Operations without permission fail without delay, with the server's text, if the error can be attributed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BatchError
from jetarrow.server import NatsServer

CONFIG = """
authorization { users = [
  { user: all, password: x }
  { user: some, password: x, permissions: { publish: { deny: ["denied.>", "$JS.API.CONSUMER.MSG.NEXT.S.d"] } } }
  { user: no_inbox, password: x, permissions: { subscribe: ["nothing"] } }
] }
"""


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer(config=CONFIG) as server:
        with jetarrow.sync.connect(server.url, user="all", password="x") as nc:
            js = nc.jetstream()
            js.add_stream(
                name="S",
                subjects=["denied.>", "allowed.>"],
                allow_atomic=True,
                allow_batched=True,
            )
            js.publish("allowed.a", b"one")
            js.pull_subscribe("allowed.>", durable="d", stream="S")
        yield server


@pytest.fixture
async def js(server: NatsServer) -> AsyncIterator[JetStreamContext]:
    async with await jetarrow.connect(server.url, user="some", password="x") as nc:
        yield nc.jetstream()


@pytest.fixture
async def no_inbox(server: NatsServer) -> AsyncIterator[JetStreamContext]:
    async with await jetarrow.connect(server.url, user="no_inbox", password="x") as nc:
        yield nc.jetstream()


class At:
    """The block takes less than any timeout: the defaults are 5 and 30 seconds."""

    def __enter__(self) -> None:
        self._begin = time.monotonic()

    def __exit__(self, *error: object) -> None:
        assert time.monotonic() - self._begin < 4.5


def check(error: BaseException | None, subject: str = "denied.a") -> None:
    assert isinstance(error, errors.PermissionsViolationError)
    assert error.subject == subject
    assert str(error) == f'nats: permissions violation for publish to "{subject}"'


async def test_publish_without_permission_raises(js: JetStreamContext) -> None:
    with At(), pytest.raises(errors.PermissionsViolationError) as info:
        await js.publish("denied.a", b"x", timeout=30)
    check(info.value)
    assert (await js.publish("allowed.a", b"x")).stream == "S"


async def test_publish_async_without_permission_fails_future(js: JetStreamContext) -> None:
    with At():
        futures = [await js.publish_async("denied.a" if i % 2 else "allowed.a", b"x") for i in range(2_000)]
        for i, future in enumerate(futures):
            if i % 2:
                with pytest.raises(errors.PermissionsViolationError):
                    await future
            else:
                assert (await future).stream == "S"


async def test_publisher_without_permission_fails_future(js: JetStreamContext) -> None:
    with At():
        async with js.publisher("denied.a") as publisher:
            future = await publisher.publish(b"x")
            with pytest.raises(errors.PermissionsViolationError):
                await future


@pytest.mark.parametrize("subjects", ["one", "each its own"])
async def test_publish_batch_without_permission_reports_rows(js: JetStreamContext, subjects: str) -> None:
    count = 3_000
    names = ["denied.a" if subjects == "one" else f"denied.{i}" for i in range(count)]
    with At():
        result = await js.publish_batch(names, [b"x"] * count, timeout=30)
    assert result.stored == 0
    assert [row for row, _ in result.errors] == list(range(count))
    for row, error in result.errors:
        check(error, names[row])


async def test_publish_batch_with_partial_permission_stores_permitted_rows(js: JetStreamContext) -> None:
    names = ["denied.a" if i % 10 == 3 else "allowed.a" for i in range(1_000)]
    with At():
        result = await js.publish_batch(names, [b"x"] * 1_000, timeout=30)
    assert [row for row, _ in result.errors] == list(range(3, 1_000, 10))
    assert result.stored == 900


@pytest.mark.parametrize("mode", ["atomic", "fast"])
async def test_atomic_and_fast_batches_without_permission_raise(js: JetStreamContext, mode: str) -> None:
    with At(), pytest.raises(BatchError) as info:
        await js.publish_batch("denied.a", [b"x"] * 100, mode=mode, timeout=30)
    check(info.value.__cause__)


async def test_request_without_permission_raises(server: NatsServer) -> None:
    async with await jetarrow.connect(server.url, user="some", password="x") as nc:
        with At(), pytest.raises(errors.PermissionsViolationError) as info:
            await nc.request("denied.a", b"", timeout=30)
        check(info.value)
    with jetarrow.sync.connect(server.url, user="some", password="x") as blocking:
        with At(), pytest.raises(errors.PermissionsViolationError):
            blocking.request("denied.a", b"", timeout=30)
        with At(), pytest.raises(errors.PermissionsViolationError):
            blocking.jetstream().publish("denied.a", b"", timeout=30)


async def test_fetch_without_permission_raises(js: JetStreamContext) -> None:
    sub = await js.pull_subscribe_bind("d", "S")
    for _ in range(2):
        with At(), pytest.raises(errors.PermissionsViolationError) as info:
            await sub.fetch_batch(10, timeout=30)
        check(info.value, "$JS.API.CONSUMER.MSG.NEXT.S.d")


VERBS: dict[str, Callable[[Any], Any]] = {
    "publish": lambda js: js.publish("allowed.a", b"x", timeout=30),
    "publish_batch": lambda js: js.publish_batch("allowed.a", [b"x"] * 10, timeout=30),
    "atomic": lambda js: js.publish_batch("allowed.a", [b"x"] * 10, mode="atomic", timeout=30),
    "stream_info": lambda js: js.stream_info("S"),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_reply_subject_without_permission_raises(no_inbox: JetStreamContext, verb: str) -> None:
    """Publishing is permitted, subscribing to the inbox is not."""
    for _ in range(2):
        with At():
            try:
                result = await VERBS[verb](no_inbox)
                result.raise_for_errors()
            except BatchError as error:
                cause: BaseException | None = error.__cause__ or error.errors[0].error
            except errors.PermissionsViolationError as error:
                cause = error
            else:
                pytest.fail("it was answered")
        assert isinstance(cause, errors.PermissionsViolationError)
        assert cause.operation == "subscription"
