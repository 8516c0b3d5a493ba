"""Short forms of experiments of `tests/yardstick` that no other test has; `make yardstick` runs the full ones."""

from __future__ import annotations

import pytest

from ..yardstick import dedup, half_open, hostile, leader, resolves, slow_sub
from ..yardstick.figures import check


async def test_dedup() -> None:
    check(await dedup.measure(**dedup.SHORT))


async def test_half_open() -> None:
    check(await half_open.measure(**half_open.SHORT))


async def test_hostile_server() -> None:
    check(await hostile.measure(**hostile.SHORT))


@pytest.mark.timeout(180)
async def test_leader() -> None:
    check(await leader.measure(**leader.SHORT))


async def test_resolves() -> None:
    check(await resolves.measure(**resolves.SHORT))


async def test_slow_subscription() -> None:
    check(await slow_sub.measure(**slow_sub.SHORT))
