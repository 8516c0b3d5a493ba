"""Loads in a model that kills them at any operation: each row is stored once, or the load is refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Generator
from typing import Any

import pytest
from jetarrow.jetstream.errors import ResumeError
from jetarrow.jetstream.resume import load as load_module
from jetarrow.jetstream.resume.load import Load, LoadIdentity
from jetarrow.jetstream.resume.position import Position
from jetarrow.jetstream.resume.stream_log import LogState, StoredIds

from tests.resume.model import Killed, ModelLog, ModelStore, World, messages

ROWS = 40
WORLDS = 300


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes steps so small that a load of 40 rows has many of each kind."""
    monkeypatch.setattr(load_module, "STEP", 7)
    monkeypatch.setattr(load_module, "RECOVERY_STEP", 3)


class Inline:
    """The result of a function, which is called at once."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._result = work()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._result
        yield


def one_run(world: World, log: type[ModelLog], rejected: set[int]) -> Load:
    rows = messages(ROWS, rejected)
    digests, _ = rows.head()
    identity = LoadIdentity(digests, {}, "row")
    load = Load(log(world), ModelStore(world), rows, identity=identity, off_loop=Inline)
    asyncio.run(load.run())
    return load


def run_to_the_end(world: World, log: type[ModelLog] = ModelLog) -> tuple[Position, int]:
    """Starts the load again after each kill and failure; returns the last position and the number of kills."""
    chance = world.chance
    rejected = {row for row in range(ROWS) if chance.random() < 0.05}
    kills = 0
    for _ in range(60):
        world.kill_at = chance.randint(0, 12) if kills < 8 else None
        try:
            load = one_run(world, log, rejected)
        except Killed:
            kills += 1
            # The next run starts at once, or hours later.
            world.clock += chance.choice([0, 1, 10_000])
            continue
        assert load.position is not None
        if load.position.complete:
            stored = {f"{load.position.token}.{row}" for row in range(ROWS) if row not in rejected}
            assert load.position.rejected == len(rejected)
            assert set(world.ever) == stored
            assert set(world.ever.values()) <= {1}, world.ever
            return load.position, kills
    raise AssertionError("the load does not come to an end")


def test_a_load_that_is_killed_at_any_operation_stores_each_row_once() -> None:
    kills = 0
    for seed in range(WORLDS):
        position, killed = run_to_the_end(World(random.Random(seed)))
        assert position.row == ROWS
        kills += killed
    assert kills > WORLDS


@pytest.mark.slow
def test_a_load_of_a_stream_that_removes_messages_stores_each_row_once_or_refuses() -> None:
    refused = completed = 0
    for seed in range(WORLDS):
        world = World(random.Random(seed), removes=True)
        try:
            run_to_the_end(world)
        except ResumeError:
            assert set(world.ever.values()) <= {1}
            refused += 1
        else:
            completed += 1
    assert min(refused, completed) > WORLDS / 20


class Forgetful(ModelLog):
    """A stream that is not asked for the ids."""

    async def stored(self, after: int, state: LogState) -> StoredIds:
        return StoredIds([], 0)


class Blind(ModelLog):
    """A stream whose removed messages are not counted."""

    async def stored(self, after: int, state: LogState) -> StoredIds:
        return (await super().stored(after, state))._replace(removed=0)


@pytest.mark.parametrize(("log", "removes"), [(Forgetful, False), (Blind, True)])
def test_the_model_finds_a_load_that_guesses(log: type[ModelLog], removes: bool) -> None:
    with pytest.raises(AssertionError):
        for seed in range(WORLDS):
            run_to_the_end(World(random.Random(seed), removes=removes), log)


def test_the_model_finds_a_position_that_is_stored_after_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Position, "announce", lambda self, rows: self)
    with pytest.raises(AssertionError):
        for seed in range(WORLDS):
            run_to_the_end(World(random.Random(seed)))
