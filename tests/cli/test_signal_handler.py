"""Signals within the process: no write is cut, no signal is lost, and the handlers are put back."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import sys
import threading
from typing import Any

import pyarrow as pa
import pytest
from jetarrow.cli import bench, row_writers, signals

from tests.cli.tools import CODES
from tests.tools import wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals for one process"),
    pytest.mark.usefixtures("heard"),
]

BATCH = pa.record_batch([[1, 2]], ["id"])


class SignalledWriter:
    """Sends a signal to this process while it writes."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number
        self.is_whole = False

    def write(self, batch: pa.RecordBatch) -> None:
        os.kill(os.getpid(), self._number)
        assert sum(range(1000)) > 0  # the interpreter handles the signal before this line
        self.is_whole = True

    def close(self) -> None: ...


@pytest.mark.parametrize("number", CODES)
def test_a_batch_is_written_as_a_whole(number: signal.Signals) -> None:
    writer = SignalledWriter(number)
    with signals.handled():
        with pytest.raises(KeyboardInterrupt):
            row_writers._Whole(writer).write(BATCH)
        assert signals.exit_code() == CODES[number]
    assert writer.is_whole


def test_ctrl_c_ends_what_a_signal_began() -> None:
    with signals.handled(), pytest.raises(KeyboardInterrupt), signals.deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_interrupts_a_write_that_blocks_for_too_long() -> None:
    """A pipe that nothing reads must not defer SIGTERM forever."""
    reading, writing = os.pipe()
    try:
        with signals.handled():
            with pytest.raises(KeyboardInterrupt), signals.deferred(0.2):
                os.kill(os.getpid(), signal.SIGTERM)
                while True:
                    os.write(writing, b"x" * 65_536)
            assert signals.exit_code() == 143
    finally:
        os.close(reading)
        os.close(writing)


class Destroyed:
    """Sends a signal to this process when it is destroyed."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __del__(self) -> None:
        signal.raise_signal(self._number)


@pytest.mark.parametrize("number", CODES)
def test_a_signal_in_a_destructor_is_not_lost(number: signal.Signals) -> None:
    with signals.handled():
        with pytest.raises(KeyboardInterrupt):
            Destroyed(number)
            threading.Event().wait(30)
        assert signals.exit_code() == CODES[number]


def test_a_signal_is_repeated_until_it_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first repetition arrives while the hook still runs that reports what a destructor raised."""
    sent: list[int] = []
    send, repeat = signals._send, signals._Handler.repeat

    def counted(number: int) -> None:
        send(number)
        sent.append(number)

    def slow(handler: Any) -> None:
        repeat(handler)
        wait_until(lambda: sent)

    monkeypatch.setattr(signals, "_send", counted)
    monkeypatch.setattr(signals._Handler, "repeat", slow)
    with signals.handled():
        with pytest.raises(KeyboardInterrupt):
            Destroyed(signal.SIGTERM)
            threading.Event().wait(30)
        assert signals.exit_code() == 143
    wait_until(lambda: sent == [signal.SIGTERM] * 2)


def test_a_repeated_signal_waits_for_the_end_of_a_write() -> None:
    is_whole = False
    with signals.handled(), pytest.raises(KeyboardInterrupt):
        # As after a Ctrl-C that was lost in a destructor.
        signals._handler.stopped = signal.SIGINT
        with signals.deferred():
            signals._handler.repeat()
            wait_until(lambda: signals._handler._is_pending, 30)
            is_whole = True
    assert is_whole


def test_other_errors_of_destructors_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __del__(self) -> None:
            raise ValueError

    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_type))
    with signals.handled():
        Failing()
    assert reported == [ValueError]


class LosingSteps(collections.deque[Any]):
    """The steps that a loop runs next. Between the moment in which one is taken and its run comes a signal."""

    is_armed = True

    def popleft(self) -> Any:
        step = super().popleft()
        if self.is_armed and len(self) > 0:
            self.is_armed = False
            signal.raise_signal(signal.SIGTERM)
        return step


def test_a_signal_between_two_steps_of_a_loop_ends_all_tasks() -> None:
    ended = []

    async def wait(number: int) -> None:
        try:
            while True:
                await asyncio.sleep(0)
        finally:
            ended.append(number)

    async def work() -> Any:
        loop: Any = asyncio.get_running_loop()
        tasks = [asyncio.ensure_future(wait(number)) for number in range(3)]
        await asyncio.sleep(0)
        loop._ready = LosingSteps(loop._ready)
        await asyncio.gather(*tasks)

    with signals.handled():
        with pytest.raises(KeyboardInterrupt):
            bench._run(work)
        assert signals.exit_code() == 143
    assert sorted(ended) == [0, 1, 2]


def test_a_signal_is_not_lost_if_the_work_of_a_loop_ends_anyway() -> None:
    async def work() -> Any:
        signal.raise_signal(signal.SIGTERM)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)

    with signals.handled():
        with pytest.raises(KeyboardInterrupt):
            bench._run(work)
        assert signals.exit_code() == 143


def test_work_of_a_loop_that_cancels_itself_is_no_signal() -> None:
    async def work() -> Any:
        raise asyncio.CancelledError

    with signals.handled(), pytest.raises(asyncio.CancelledError):
        bench._run(work)


def test_handlers_are_put_back() -> None:
    before, report = {number: signal.getsignal(number) for number in CODES}, sys.unraisablehook
    with signals.handled():
        assert not [number for number in CODES if signal.getsignal(number) == before[number]]
    assert {number: signal.getsignal(number) for number in CODES} == before
    assert sys.unraisablehook == report
