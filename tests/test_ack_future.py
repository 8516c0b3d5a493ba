"""The sync twin's futures behave like those of concurrent.futures, whether resolved before or after a wait."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest
from jetarrow.publisher import AckFuture

Make = Callable[[], "futures.Future[Any]"]
both = pytest.mark.parametrize("make", [AckFuture, futures.Future], ids=["ours", "python"])
RACES = 500


def end(future: futures.Future[Any], how: str) -> None:
    if how == "result":
        future.set_result(1)
    elif how == "error":
        future.set_exception(KeyError("k"))
    else:
        assert future.cancel()


def outcome(future: futures.Future[Any]) -> tuple[object, ...]:
    try:
        found: object = future.result(0)
    except (KeyError, futures.CancelledError, TimeoutError) as error:
        found = type(error)
    return (found, future.done(), future.cancelled(), future.running(), future._state)


@both
@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize("how", ["result", "error", "cancel"])
def test_future_ends_with_result_error_or_cancel(make: Make, how: str, looked: bool) -> None:
    future, called = make(), list[object]()
    if looked:
        assert outcome(future) == (TimeoutError, False, False, False, "PENDING")
        future.add_done_callback(called.append)
        with pytest.raises(TimeoutError):
            future.exception(0)
    end(future, how)
    wanted = {
        "result": (1, True, False, False, "FINISHED"),
        "error": (KeyError, True, False, False, "FINISHED"),
        "cancel": (futures.CancelledError, True, True, False, "CANCELLED"),
    }
    assert outcome(future) == outcome(future) == wanted[how]
    assert future.cancel() is (how == "cancel")
    for again in (lambda: future.set_result(2), lambda: future.set_exception(ValueError())):
        with pytest.raises(futures.InvalidStateError):
            again()
    assert outcome(future) == wanted[how]
    future.add_done_callback(called.append)
    assert called == [future] * (1 + looked)
    assert wanted[how][-1].lower() in repr(future)  # type: ignore[attr-defined]


@both
def test_unknown_attribute_raises_attribute_error(make: Make) -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = make().nothing  # type: ignore[attr-defined]


@both
@pytest.mark.parametrize("how", ["result", "error"])
def test_wait_and_as_completed_return_resolved_futures(make: Make, how: str) -> None:
    early, late, never = make(), make(), make()
    end(early, "result")
    completed = futures.as_completed([early, late], timeout=10)
    assert next(completed) is early
    ender = threading.Timer(0.02, end, (late, how))
    ender.start()
    assert next(completed) is late
    ender.join()
    assert futures.wait([early, late, never], return_when=futures.FIRST_COMPLETED) == ({early, late}, {never})
    assert futures.wait([never], timeout=0) == (set(), {never})


@both
def test_wait_for_first_exception_returns_a_failed_future(make: Make) -> None:
    failing, never = make(), make()
    ender = threading.Timer(0.02, end, (failing, "error"))
    ender.start()
    assert futures.wait([failing, never], timeout=10, return_when=futures.FIRST_EXCEPTION) == ({failing}, {never})
    ender.join()


@both
async def test_wrap_future_returns_the_result_in_a_loop(make: Make) -> None:
    future = make()
    ender = threading.Timer(0.02, end, (future, "result"))
    ender.start()
    assert await asyncio.wait_for(asyncio.wrap_future(future), 10) == 1
    assert await asyncio.wrap_future(future) == 1
    ender.join()


@both
def test_failing_callback_is_logged_and_later_ones_run(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    future, called = make(), list[object]()

    def fail(_: object) -> None:
        raise KeyError("of a callback")

    future.add_done_callback(fail)
    future.add_done_callback(called.append)
    with caplog.at_level(logging.ERROR):
        future.set_result(1)
    assert called == [future]
    assert "of a callback" in caplog.text


@pytest.mark.parametrize("kind", ["waits", "calls", "cancels", "waits with others"])
def test_resolve_concurrent_with_wait_or_cancel_has_one_outcome(kind: str) -> None:
    """A thread resolves each future while another waits for it or cancels it: both see the same outcome."""
    made = [AckFuture() for _ in range(RACES)]
    begin = threading.Barrier(2)
    refused = list[AckFuture]()

    def end_all() -> None:
        for future in made:
            begin.wait(10)
            try:
                future.set_result(future)
            except futures.InvalidStateError:
                refused.append(future)

    ender = threading.Thread(target=end_all, daemon=True)
    ender.start()
    cancelled, called = list[AckFuture](), list[object]()
    for future in made:
        begin.wait(10)
        if kind == "waits":
            assert future.result(10) is future
        elif kind == "calls":
            future.add_done_callback(called.append)
        elif kind == "cancels":
            if future.cancel():
                cancelled.append(future)
        else:
            assert futures.wait([future], timeout=10).done == {future}
    ender.join(10)
    deadline = time.monotonic() + 10
    while kind == "calls" and len(called) < RACES and time.monotonic() < deadline:
        time.sleep(0.001)
    assert called == (made if kind == "calls" else [])
    assert refused == cancelled
    assert all(future.result(0) is future for future in made if future not in cancelled)
