"""Short forms of experiments of `tests/yardstick` that no other test has; `make yardstick` runs the full ones."""

from __future__ import annotations

import pytest

from ..yardstick import (
    attribution,
    cluster_soak,
    dedup,
    half_open,
    hostile,
    leader,
    neighbour,
    resolves,
    rollback,
    slow_sub,
    soak,
    stores,
)
from ..yardstick.figures import BUSY, check


async def test_attribution() -> None:
    check(await attribution.measure(**attribution.SHORT))


@pytest.mark.timeout(600)
@pytest.mark.slow
async def test_cluster_soak() -> None:
    check(await cluster_soak.measure(**cluster_soak.SHORT))


async def test_dedup() -> None:
    check(await dedup.measure(**dedup.SHORT))


async def test_half_open() -> None:
    check(await half_open.measure(**half_open.SHORT))


async def test_hostile_server() -> None:
    check(await hostile.measure(**hostile.SHORT))


@pytest.mark.timeout(180)
@pytest.mark.slow
async def test_leader() -> None:
    check(await leader.measure(**leader.SHORT))


@pytest.mark.timeout(120)
@pytest.mark.slow
async def test_neighbour() -> None:
    check(await neighbour.measure(**neighbour.SHORT))


async def test_resolves() -> None:
    check(await resolves.measure(**resolves.SHORT))


@pytest.mark.timeout(300)
@pytest.mark.slow
async def test_rollback() -> None:
    check(await rollback.measure(**rollback.SHORT))


@pytest.mark.timeout(120)
@pytest.mark.slow
async def test_soak() -> None:
    figures = await soak.measure(**soak.SHORT)
    if any(not figure.passed_by(BUSY) for figure in figures):
        # The memory of one run has noise; a leak is in every run.
        figures = await soak.measure(**soak.SHORT)
    check(figures)


async def test_slow_subscription() -> None:
    check(await slow_sub.measure(**slow_sub.SHORT))


@pytest.mark.timeout(300)
@pytest.mark.slow
async def test_stores() -> None:
    check(await stores.measure(**stores.SHORT))
