"""A verb that fails at any request loses no object, damages none, and leaves nothing that `clean` does not find."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.aio.client import Client
from jetarrow.errors import Error
from jetarrow.jetstream.objects import chunks
from jetarrow.js.api import ObjectMeta
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import NotFoundError, ObjectAlreadyExists, ObjectDeletedError, ObjectNotFoundError
from jetarrow.js.object_store import ObjectStore

from tests.crash_points import SHORT, Point, at_each_request, failing

from .tools import CHUNK, assert_no_orphans, contents

OLD, NEW, OTHER = b"o" * (2 * CHUNK + 1), b"n" * (3 * CHUNK + 5), b"other" * 10


@pytest.fixture
async def other(nats_url: str, store: ObjectStore, bucket: str) -> AsyncIterator[ObjectStore]:
    """The bucket as another client has it, whose requests do not fail."""
    async with await jetarrow.connect(nats_url) as nc:
        yield await nc.jetstream().object_store(bucket)


@pytest.fixture
def reset(other: ObjectStore) -> Callable[[], Awaitable[None]]:
    """Stores `a` and `other`, and deletes everything else."""

    async def prepare() -> None:
        for name in await contents(other):
            await other.delete(name)
        await other.clean(0)
        await other.put("a", OLD)
        await other.put("other", OTHER)

    return prepare


def must_be(
    js: JetStreamContext, store: ObjectStore, bucket: str, before: dict[str, bytes], after: dict[str, bytes]
) -> Callable[[Point, BaseException | None], Awaitable[None]]:
    """Checks that the bucket is as before or after the verb; as after, if the verb succeeded."""

    async def check(point: Point, error: BaseException | None) -> None:
        found = await contents(store)
        allowed = [after] if error is None else [before, after]
        assert found in [{**state, "other": OTHER} for state in allowed], point
        await assert_no_orphans(js, store, bucket)

    return check


@pytest.mark.parametrize("read_size", [chunks.READ_SIZE, CHUNK])
async def test_put_that_fails_at_any_request_stores_all_or_nothing(
    nc: Client,
    js: JetStreamContext,
    store: ObjectStore,
    other: ObjectStore,
    bucket: str,
    reset: Any,
    read_size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "READ_SIZE", read_size)
    state = must_be(js, other, bucket, {"a": OLD}, {"a": NEW})

    async def check(point: Point, error: BaseException | None) -> None:
        await state(point, error)
        await other.put("a", NEW)
        assert (await other.get("a")).data == NEW

    assert await at_each_request(nc, lambda: store.put("a", NEW), prepare=reset, check=check) >= 4


async def test_delete_that_fails_at_any_request_deletes_all_or_nothing(
    nc: Client, js: JetStreamContext, store: ObjectStore, other: ObjectStore, bucket: str, reset: Any
) -> None:
    state = must_be(js, other, bucket, {"a": OLD}, {})

    async def check(point: Point, error: BaseException | None) -> None:
        await state(point, error)
        if "a" in await contents(other):
            await other.delete("a")
        with pytest.raises(ObjectNotFoundError):
            await other.get("a")

    assert await at_each_request(nc, lambda: store.delete("a"), prepare=reset, check=check) >= 3


async def test_rename_that_fails_at_any_request_leaves_the_data_under_one_name_at_least(
    nc: Client, js: JetStreamContext, store: ObjectStore, other: ObjectStore, bucket: str, reset: Any
) -> None:
    async def check(point: Point, error: BaseException | None) -> None:
        found = await contents(other)
        rest = {"other": OTHER}
        allowed = [{"b": OLD}] if error is None else [{"a": OLD}, {"a": OLD, "b": OLD}, {"b": OLD}]
        assert found in [{**state, **rest} for state in allowed], point
        await assert_no_orphans(js, other, bucket)
        if found.keys() >= {"a", "b"}:
            # Either name can go, in either way, and the other one keeps its data.
            with pytest.raises(ObjectAlreadyExists):
                await other.update_meta("a", ObjectMeta(name="b"))
            gone, kept = ("a", "b") if point.number % 2 else ("b", "a")
            await (other.delete(gone) if point.crash.sent else other.put(gone, NEW))
            assert (await other.get(kept)).data == OLD, point
        elif "a" in found:
            await other.update_meta("a", ObjectMeta(name="b"))
            assert await contents(other) == {"b": OLD, **rest}

    verb = lambda: store.update_meta("a", ObjectMeta(name="b"))  # noqa: E731  # one expression
    assert await at_each_request(nc, verb, prepare=reset, check=check) >= 7


async def test_link_that_fails_at_any_request_is_there_or_not(
    nc: Client, js: JetStreamContext, store: ObjectStore, other: ObjectStore, bucket: str, reset: Any
) -> None:
    async def prepare() -> None:
        await reset()
        with suppress(NotFoundError):
            await other.delete("l")

    async def check(point: Point, error: BaseException | None) -> None:
        await assert_no_orphans(js, other, bucket)
        try:
            assert (await other.get("l")).data == OLD, point
        except ObjectNotFoundError:
            assert error is not None, point
        await other.add_link("l", "a")
        assert (await other.get("l")).data == OLD

    assert await at_each_request(nc, lambda: store.add_link("l", "a"), prepare=prepare, check=check) >= 3


def test_blocking_rename_that_fails_at_any_request_leaves_the_data_under_one_name_at_least(
    sync_js: jetarrow.sync.JetStream, nats_url: str, bucket: str
) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        store = nc.jetstream().create_object_store(bucket)
        names = ("a", "b")
        store.put("a", OLD)
        for number in range(1, 20):
            for crash in SHORT:
                with failing(nc, number, crash) as point:
                    try:
                        store.update_meta(names[0], ObjectMeta(name=names[1]))
                    except Error:
                        assert point.reached
                found = {info.name: store.get(info.name).data for info in store.list(ignore_deletes=True)}
                assert found in [{"a": OLD}, {"b": OLD}, {"a": OLD, "b": OLD}], point
                if len(found) == 2:
                    store.delete(names[0])
                if names[1] in found:
                    names = names[::-1]
            if not point.reached:
                break
        assert number > 7
        store.clean(0)
        (live,) = store.list(ignore_deletes=True)
        subjects = nc.jetstream().stream_info(f"OBJ_{bucket}", f"$O.{bucket}.C.>").state.subjects
        assert subjects == {f"$O.{bucket}.C.{live.nuid}": 3}
        sync_js.delete_object_store(bucket)


async def test_rename_interrupted_by_delete_leaves_no_data(store: ObjectStore, monkeypatch: Any) -> None:
    """Deleted data does not return under the new name."""
    await store.put("a", OLD)
    remove = store._remove_old

    async def late(*args: Any) -> None:
        await store.delete("a")
        await remove(*args)

    monkeypatch.setattr(store, "_remove_old", late)
    with pytest.raises(ObjectDeletedError, match="deleted in the meantime"):
        await store.update_meta("a", ObjectMeta(name="b"))
    assert await contents(store) == {}
