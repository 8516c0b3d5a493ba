"""A lock of the sync face is free after a block, wherever Ctrl-C interrupts it."""

from __future__ import annotations

import itertools
import threading

import pytest
from jetarrow.core.blocking_session import BlockingSession
from jetarrow.core.session import Lock, run_to_completion

from .interruption import Interruption
from .tools import PATIENCE


async def block(lock: Lock) -> None:
    with await lock.turn():
        list[int]()


@pytest.mark.filterwarnings("ignore:coroutine")
def test_an_interrupted_block_leaves_no_lock() -> None:
    for number in itertools.count(1):
        lock = BlockingSession().lock()
        interrupted = block(lock)
        is_over = Interruption(number).is_over(lambda: run_to_completion(interrupted))  # noqa: B023
        interrupted.close()
        other = threading.Thread(target=lambda: run_to_completion(block(lock)), daemon=True)  # noqa: B023
        other.start()
        other.join(PATIENCE)
        assert not other.is_alive(), f"interrupted at place {number}"
        if is_over:
            break
    assert number > 5
