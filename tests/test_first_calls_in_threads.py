"""Objects that are created at the first call exist once, also if several threads make that call at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import jetarrow.sync
import pytest
from jetarrow.core.blocking_session import BlockingSession
from jetarrow.core.weak_sets import members
from jetarrow.jetstream import publish, publisher
from jetarrow.jetstream.registry import registry_of

from .tools import in_threads

THREADS = 8


def at_once(work: Callable[[int], None]) -> None:
    ready = threading.Barrier(THREADS)

    def started(number: int) -> None:
        ready.wait()
        work(number)

    in_threads(started, THREADS)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The native publishers that are created, slowly, so that all threads find none."""
    found: list[Any] = []

    class Slow(publisher.LoopPublisher):
        def __init__(self, *args: Any, **options: Any) -> None:
            time.sleep(0.05)
            found.append(self)
            super().__init__(*args, **options)

    monkeypatch.setattr(publish, "LoopPublisher", Slow)
    return found


def test_publisher_of_threads_creates_one_native_publisher(
    sync_js: jetarrow.sync.JetStream, stream: str, made: list[Any]
) -> None:
    with sync_js.publisher(f"{stream}.a") as shared:
        at_once(lambda _: shared.publish(b"x").done())
        shared.flush()
        assert (len(made), shared.stats.stored) == (1, THREADS)


def test_publish_async_of_threads_creates_one_native_publisher(
    sync_js: jetarrow.sync.JetStream, stream: str, made: list[Any]
) -> None:
    futures: list[Any] = []
    at_once(lambda _: futures.append(sync_js.publish_async(f"{stream}.a", b"x")))
    sync_js.publish_async_completed()
    assert (len(made), [future.done() for future in futures]) == (1, [True] * THREADS)


def test_subscription_ids_of_threads_are_unique() -> None:
    session, ids = BlockingSession(), list[int]()
    at_once(lambda _: ids.extend([session.next_sid() for _ in range(2_000)]))
    assert sorted(ids) == list(range(1, THREADS * 2_000 + 1))


def test_registry_of_threads_is_one_object() -> None:
    session, found = BlockingSession(), list[Any]()
    at_once(lambda _: found.append(registry_of(session, "http://127.0.0.1:1", "avro")))
    assert len({id(one) for one in found}) == 1


def test_members_of_a_weak_set_that_threads_extend() -> None:
    class Member:
        pass

    weak, kept = WeakSet[Member](), list[Member]()

    def extend_or_read(number: int) -> None:
        for _ in range(300):
            if number % 2:
                kept.append(Member())
                weak.add(kept[-1])
            else:
                members(weak)

    at_once(extend_or_read)
    assert len(members(weak)) == 300 * THREADS // 2
