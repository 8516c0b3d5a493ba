"""Random verbs of three clients with crashes, compared with a model: no acknowledged object is lost or damaged.

The model is the set of states that the bucket may be in. A verb that succeeds leads from each state to one. One that
crashed may have stopped before or after each of its steps. Two verbs at once happened in one order or the other. Each
read leaves the states that explain it, and there must be one.

JETARROW_MODEL_SECONDS runs it for longer, JETARROW_MODEL_SEED runs one seed again.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import jetarrow
import pytest
from jetarrow.aio.client import Client
from jetarrow.errors import Error
from jetarrow.jetstream.objects import chunks
from jetarrow.js.api import ObjectMeta, ObjectMetaOptions
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    BadObjectMetaError,
    DigestMismatchError,
    LinkToLinkError,
    NotFoundError,
    ObjectAlreadyExists,
)
from jetarrow.js.object_store import ObjectStore

from tests.crash_points import FULL, failing

from .tools import assert_no_orphans

NAMES = ("a", "b", "c", "d")
STEPS = 120
SEEDS = [int(seed) for seed in os.environ.get("JETARROW_MODEL_SEED", "1 2").split()]
# Probabilities that two verbs of the three clients run at once, and that one crashes.
TOGETHER, CRASH = 0.3, 0.3
# Most requests of a verb that a crash is drawn from.
LAST_REQUEST = 10
# Names to what they are: bytes, or a link's target.
State = frozenset[tuple[str, "bytes | str"]]
# Possible effects of a verb, one state after each step; an empty list is a verb that changes nothing.
Steps = list[State]


class Refused(Exception):
    """The verb fails in this state."""

    def __init__(self, why: type[Exception]) -> None:
        self.why = why


def changed(state: State, name: str, value: bytes | str | None) -> State:
    left = {pair for pair in state if pair[0] != name}
    return frozenset(left if value is None else left | {(name, value)})


@dataclass(frozen=True)
class Verb:
    """A verb with its arguments."""

    kind: str
    name: str
    other: str
    data: bytes = field(repr=False)

    def steps(self, state: State) -> Steps:
        """The states that it leads to, one after the other."""
        held = dict(state)
        if self.kind == "put":
            return [changed(state, self.name, self.data)]
        if self.kind == "link":
            if self.other not in held:
                raise Refused(NotFoundError)
            if isinstance(held[self.other], str):
                raise Refused(LinkToLinkError)
            if isinstance(held.get(self.name), bytes):
                raise Refused(ObjectAlreadyExists)
            return [changed(state, self.name, self.other)]
        if self.name not in held:
            raise Refused(NotFoundError)
        if self.kind == "delete":
            return [changed(state, self.name, None)]
        if self.kind == "rename":
            if self.other in held:
                raise Refused(ObjectAlreadyExists)
            copied = changed(state, self.other, held[self.name])
            return [copied, changed(copied, self.name, None)]
        return [state]

    async def run(self, store: ObjectStore) -> None:
        if self.kind == "put":
            await store.put(self.name, self.data, ObjectMeta(options=ObjectMetaOptions(max_chunk_size=100)))
        elif self.kind == "link":
            await store.add_link(self.name, self.other)
        elif self.kind == "delete":
            await store.delete(self.name)
        elif self.kind == "rename":
            await store.update_meta(self.name, ObjectMeta(name=self.other))
        else:
            await store.update_meta(self.name, ObjectMeta(description=self.other))


def read(state: State, name: str) -> bytes | type[Exception]:
    """The result of a get."""
    held = dict(state)
    found = held.get(name)
    if isinstance(found, str):
        found = held.get(found)
        if isinstance(found, str):
            return BadObjectMetaError
    return NotFoundError if found is None else found


def after(states: Iterable[State], verb: Verb, error: Error | None) -> set[State]:
    """The states after a verb that did not crash."""
    found = set()
    for state in states:
        try:
            end = verb.steps(state)[-1]
        except Refused as refused:
            if isinstance(error, refused.why):
                found.add(state)
        else:
            if error is None:
                found.add(end)
    return found


def after_crash(states: Iterable[State], verb: Verb) -> set[State]:
    """The states after a verb that stopped anywhere."""
    found = set(states)
    for state in list(found):
        with suppress(Refused):
            found.update(verb.steps(state))
    return found


def after_both(states: Iterable[State], verbs: list[Verb], errors: list[Error | None]) -> set[State]:
    """The states after verbs that ran at once: in some order, and those that failed changed nothing."""
    found = set()
    for state, order in itertools.product(states, itertools.permutations(zip(verbs, errors, strict=True))):
        now = state
        try:
            for verb, error in order:
                now = now if error is not None else verb.steps(now)[-1]
        except Refused:
            continue
        found.add(now)
    return found


class Model:
    """The clients, and the states that the bucket may be in."""

    def __init__(self, seed: int, clients: list[Client], stores: list[ObjectStore]) -> None:
        self.random = random.Random(seed)
        self.clients, self.stores = clients, stores
        self.states: set[State] = {frozenset()}
        self.log: list[str] = []

    def draw(self) -> Verb:
        kind = self.random.choice(("put", "put", "delete", "rename", "rename", "meta", "link"))
        name, other = self.random.sample(NAMES, 2)
        size = self.random.choice((0, 1, 99, 250, 1000))
        return Verb(kind, name, other, self.random.randbytes(size))

    def keep(self, states: set[State], what: str) -> None:
        self.log.append(what)
        assert states, "\n".join(self.log[-12:])
        self.states = states

    async def step(self) -> None:
        chance = self.random.random()
        if chance < TOGETHER:
            verbs = [self.draw(), self.draw()]
            errors = await asyncio.gather(
                *(ran(verb, store) for verb, store in zip(verbs, self.random.sample(self.stores, 2), strict=True))
            )
            self.keep(after_both(self.states, verbs, errors), f"{verbs}: {errors}")
        elif chance < TOGETHER + CRASH:
            verb, which = self.draw(), self.random.randrange(len(self.clients))
            crash = self.random.choice(FULL)
            with failing(self.clients[which], self.random.randint(1, LAST_REQUEST), crash) as point:
                error = await ran(verb, self.stores[which])
            if point.reached and error is not None:
                self.keep(after_crash(self.states, verb), f"{verb}: {error!r} at {point}")
            else:
                self.keep(after(self.states, verb, error), f"{verb}: {error!r}, past {point}")
        else:
            verb = self.draw()
            error = await ran(verb, self.random.choice(self.stores))
            self.keep(after(self.states, verb, error), f"{verb}: {error!r}")
        await self.look()

    async def look(self) -> None:
        """Reads a name and the list."""
        store, name = self.random.choice(self.stores), self.random.choice(NAMES)
        seen: bytes | type[Exception]
        try:
            seen = (await store.get(name)).data or b""
        except (NotFoundError, BadObjectMetaError) as error:
            seen = NotFoundError if isinstance(error, NotFoundError) else BadObjectMetaError
        self.keep({state for state in self.states if read(state, name) == seen}, f"get {name}: {seen!r}")
        try:
            listed = {info.name for info in await store.list(ignore_deletes=True)}
        except NotFoundError:
            listed = set()
        self.keep({state for state in self.states if dict(state).keys() == listed}, f"list: {listed}")


async def ran(verb: Verb, store: ObjectStore) -> Error | None:
    """The error of a verb, which is never one of data."""
    try:
        await verb.run(store)
    except DigestMismatchError:
        raise
    except Error as error:
        return error
    return None


async def run(js: JetStreamContext, url: str, bucket: str, seed: int) -> None:
    store = await js.create_object_store(bucket)
    async with AsyncExitStack() as stack:
        clients: list[Any] = [await stack.enter_async_context(await jetarrow.connect(url)) for _ in range(3)]
        stores = [await client.jetstream().object_store(bucket) for client in clients]
        model = Model(seed, clients, stores)
        try:
            for _ in range(STEPS):
                await model.step()
            await assert_no_orphans(js, store, bucket)
        except Exception as error:
            error.add_note("\n".join([f"seed {seed}", *model.log[-12:]]))
            raise
    await js.delete_object_store(bucket)


@pytest.mark.parametrize("seed", SEEDS)
async def test_random_verbs_with_crashes_lose_no_acknowledged_object(
    js: JetStreamContext, nats_url: str, bucket: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ten chunks of 100 bytes are several groups, which are sent as those of a large object are.
    monkeypatch.setattr(chunks, "READ_SIZE", 300)
    await run(js, nats_url, bucket, seed)
    end = time.monotonic() + float(os.environ.get("JETARROW_MODEL_SECONDS", 0))
    for later in itertools.count(seed + len(SEEDS), len(SEEDS)):
        if time.monotonic() >= end:
            break
        await run(js, nats_url, bucket, later)
