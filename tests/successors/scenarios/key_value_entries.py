"""Values of keys: put, get, create, update, delete, purge, history, keys, TTL."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ..case import Case, until

KEYS = ("a", "A-b_c/d=e.f", "x.y.z", "1", "_", "a.b", "-")
BAD_KEYS = ("", ".a", "a.", "a b", "a*", "a>", ">", "*", "grün", "a\tb", "a$b")


async def _bucket(case: Case, **config: Any) -> Any:
    module = case.key_value
    return await module.create_key_value(await case.context(), module.KeyValueConfig(bucket=case.name, **config))


async def _all(iterator: Any) -> list[Any]:
    return [item async for item in iterator]


async def put_and_get(case: Case) -> None:
    bucket = await _bucket(case)
    case.note("name", bucket.bucket)
    await case.call("first", bucket.put("a", b"1"))
    await case.call("second", bucket.put("a", b"2"))
    await case.call("empty", bucket.put("b", b""))
    for key in ("a", "b", "none"):
        await case.call(f"get {key}", bucket.get(key))
    await bucket.put("large", b"x" * 100_000)
    case.note("large", len((await bucket.get("large")).value))
    await case.call("text", bucket.put("c", "text"))


async def valid_and_invalid_keys(case: Case) -> None:
    bucket = await _bucket(case)
    for key in KEYS:
        await bucket.put(key, key.encode())
        await case.call(f"get {key}", bucket.get(key))
    for key in BAD_KEYS:
        await case.call(f"put {key!r}", bucket.put(key, b""))
        await case.call(f"get {key!r}", bucket.get(key))
    calls = {"create": (b"",), "update": (b"", 1), "delete": (), "purge": (), "history": ()}
    for name, more in calls.items():
        await case.call(name, getattr(bucket, name)("a b", *more))
    for name in ("keys", "watch"):
        await case.call(name, getattr(bucket, name)("a b"))
        await case.call(f"{name} of nothing", getattr(bucket, name)(""))
    await case.call("watch_filtered", bucket.watch_filtered(["a", "b c"]))


async def keys_with_empty_tokens(case: Case) -> None:
    bucket = await _bucket(case)
    await case.call("put", bucket.put("a..b", b""))
    await case.call("get", bucket.get("a..b"))


async def keys_with_a_line_break(case: Case) -> None:
    bucket = await _bucket(case)
    await case.call("get", bucket.get("a\n"))
    await case.call("keys", bucket.keys("a\n"))
    await case.call("bucket", case.key_value.key_value(await case.context(), f"{case.name}\n"))


async def revisions(case: Case) -> None:
    bucket = await _bucket(case, history=5)
    for number in range(3):
        await bucket.put("a", b"%d" % number)
    await bucket.put("b", b"other")
    await bucket.delete("a")
    for revision in (1, 2, 4, 5, 99):
        await case.call(f"a at {revision}", bucket.get("a", revision=revision))
    await case.call("b at 4", bucket.get("b", revision=4))


async def create_once(case: Case) -> None:
    bucket = await _bucket(case, history=3)
    await case.call("new", bucket.create("a", b"1"))
    await case.call("again", bucket.create("a", b"2"))
    await bucket.delete("a")
    await case.call("after delete", bucket.create("a", b"3"))
    await bucket.purge("a")
    await case.call("after purge", bucket.create("a", b"4"))
    await case.call("value", bucket.get("a"))
    await case.call("history", _all(await bucket.history("a")))


async def update_the_expected_revision(case: Case) -> None:
    bucket = await _bucket(case)
    first = await bucket.put("a", b"1")
    await case.call("right", bucket.update("a", b"2", first))
    await case.call("wrong", bucket.update("a", b"3", first))
    await case.call("new", bucket.update("b", b"1", 0))
    await case.call("new again", bucket.update("b", b"1", 0))
    await case.call("missing", bucket.update("c", b"1", 7))
    await case.call("value", bucket.get("a"))


async def delete_and_purge(case: Case) -> None:
    bucket = await _bucket(case, history=5)
    for key in ("a", "b"):
        for number in range(3):
            await bucket.put(key, b"%d" % number)
    await case.call("delete", bucket.delete("a"))
    await case.call("get deleted", bucket.get("a"))
    await case.call("history of deleted", _all(await bucket.history("a")))
    await case.call("purge", bucket.purge("b"))
    await case.call("get purged", bucket.get("b"))
    await case.call("history of purged", _all(await bucket.history("b")))
    await case.call("delete missing", bucket.delete("none"))
    await case.call("purge missing", bucket.purge("never"))
    await case.call("keys", _all(await bucket.keys()))
    status = await bucket.status()
    case.note("values", status.values)


async def delete_and_purge_the_expected_revision(case: Case) -> None:
    bucket = await _bucket(case)
    first = await bucket.put("a", b"1")
    second = await bucket.put("a", b"2")
    await case.call("delete wrong", bucket.delete("a", last_revision=first))
    await case.call("delete right", bucket.delete("a", last_revision=second))
    third = await bucket.put("a", b"3")
    await case.call("purge wrong", bucket.purge("a", last_revision=first))
    await case.call("purge zero", bucket.purge("a", last_revision=0))
    await case.call("purge right", bucket.purge("a", last_revision=third))


async def history_of_a_key(case: Case) -> None:
    bucket = await _bucket(case, history=3)
    for number in range(5):
        await bucket.put("a", b"%d" % number)
        await bucket.put("a.b", b"other")
    history = await bucket.history("a")
    case.note("entries", [entry async for entry in history])
    await case.call("after the end", anext(history))
    await case.call("none", _all(await bucket.history("none")))


async def keys_of_a_bucket(case: Case) -> None:
    bucket = await _bucket(case, history=2)
    case.note("empty", await _all(await bucket.keys()))
    for key in ("a", "b.x", "b.y", "c.x.y", "gone", "purged"):
        await bucket.put(key, b"1")
    await bucket.delete("gone")
    await bucket.purge("purged")
    for pattern in (">", "b.*", "b.>", "*", "a", "gone", "*.x", "none"):
        case.note(f"keys {pattern}", await _all(await bucket.keys(pattern)))
    lister = await bucket.keys()
    case.note("first", await anext(lister))
    await bucket.put("later", b"1")
    case.note("the rest", await _all(lister))


async def keys_when_the_last_one_is_deleted(case: Case) -> None:
    bucket = await _bucket(case)
    await bucket.put("a", b"1")
    await bucket.put("b", b"1")
    await bucket.delete("b")
    case.note("keys", await _all(await bucket.keys()))
    await bucket.delete("a")
    case.note("all deleted", await _all(await bucket.keys()))


async def many_keys(case: Case) -> None:
    bucket = await _bucket(case)
    for number in range(1200):
        await bucket.put(f"k.{number % 400}", b"%d" % number)
    keys = await _all(await bucket.keys())
    case.note("keys", (len(keys), len(set(keys)), keys[0], keys[-1]))
    watcher = await bucket.watch("k.>")
    case.note("values", len(await _all(watcher.values())))
    await watcher.stop()


async def ttl_of_a_key(case: Case) -> None:
    bucket = await _bucket(case, limit_marker_ttl=timedelta(seconds=60))
    await bucket.put("other", b"1")
    await case.call("create", bucket.create("a", b"1", ttl=timedelta(seconds=3)))
    await case.call("before", bucket.get("a"))
    await until(lambda: _is_gone(case, bucket, "a"))
    await case.call("after", bucket.get("a"))
    await case.call("history", _all(await bucket.history("a")))
    await case.call("again", bucket.create("a", b"2"))


async def forms_of_ttl(case: Case) -> None:
    bucket = await _bucket(case, limit_marker_ttl=timedelta(seconds=60))
    await case.call("too short", bucket.create("b", b"1", ttl=timedelta(milliseconds=100)))
    await case.call("zero", bucket.create("b", b"1", ttl=timedelta()))
    forms = {"ms": timedelta(milliseconds=1500), "us": timedelta(seconds=1, microseconds=7), "s": timedelta(hours=1)}
    for key, ttl in forms.items():
        await case.call(key, bucket.create(key, b"1", ttl=ttl))
    await until(lambda: _is_gone(case, bucket, "ms"))
    await until(lambda: _is_gone(case, bucket, "us"))
    await case.call("remains", bucket.get("s"))


async def ttl_of_a_purge(case: Case) -> None:
    bucket = await _bucket(case, limit_marker_ttl=timedelta(seconds=60))
    await bucket.put("other", b"1")
    await bucket.put("a", b"1")
    await case.call("purge", bucket.purge("a", ttl=timedelta(seconds=1)))

    async def marker_is_removed() -> bool:
        return bool((await bucket.status()).values == 1)

    await until(marker_is_removed)
    case.note("history", await _all(await bucket.history("a")))


async def _is_gone(case: Case, bucket: Any, key: str) -> bool:
    try:
        await bucket.get(key)
    except case.key_value.KeyNotFoundError:
        return True
    return False


async def keys_after_a_limit_marker(case: Case) -> None:
    bucket = await _bucket(case, limit_marker_ttl=timedelta(seconds=60))
    await bucket.put("a", b"1")
    await bucket.create("b", b"1", ttl=timedelta(seconds=1))
    await until(lambda: _is_gone(case, bucket, "b"))
    await case.call("get", bucket.get("b"))
    case.note("keys", await _all(await bucket.keys()))


async def ttl_without_markers_is_rejected(case: Case) -> None:
    bucket = await _bucket(case)
    await case.call("create", bucket.create("a", b"1", ttl=timedelta(seconds=5)))
    await case.call("purge", bucket.purge("a", ttl=timedelta(seconds=5)))


async def age_of_a_bucket(case: Case) -> None:
    bucket = await _bucket(case, ttl=timedelta(seconds=1))
    await bucket.put("a", b"1")
    await until(lambda: _is_gone(case, bucket, "a"))
    await case.call("get", bucket.get("a"))
    await case.call("create", bucket.create("a", b"2"))


async def purge_of_markers(case: Case) -> None:
    bucket = await _bucket(case, history=5)
    await case.call("empty", bucket.purge_deletes())
    for key in ("a", "b", "c"):
        await bucket.put(key, b"1")
        await bucket.put(key, b"2")
    await bucket.delete("a")
    await bucket.purge("b")
    await case.call("young", bucket.purge_deletes())
    case.note("young markers remain", [await _all(await bucket.history(key)) for key in "abc"])
    await case.call("all", bucket.purge_deletes(older_than=timedelta(seconds=-1)))
    case.note("no markers remain", [await _all(await bucket.history(key)) for key in "abc"])
    await bucket.delete("c")
    await case.call("zero", bucket.purge_deletes(older_than=timedelta()))
    case.note("after zero", (await bucket.status()).values)


async def purge_of_markers_keeps_a_value_that_follows_a_deletion(case: Case) -> None:
    bucket = await _bucket(case, history=5)
    await bucket.put("a", b"1")
    await bucket.delete("a")
    await bucket.put("a", b"2")
    await bucket.purge_deletes(older_than=timedelta(seconds=-1))
    await case.call("value", bucket.get("a"))


async def values_above_the_maximum(case: Case) -> None:
    bucket = await _bucket(case, max_value_size=10, max_bytes=10_000)
    await case.call("fits", bucket.put("a", b"x" * 10))
    await case.call("too large", bucket.put("a", b"x" * 11))
    await case.call("value", bucket.get("a"))


async def calls_after_the_bucket_was_deleted(case: Case) -> None:
    js = await case.context()
    module = case.key_value
    bucket = await module.create_key_value(js, module.KeyValueConfig(bucket=case.name))
    await module.delete_key_value(js, case.name)
    await case.call("put", bucket.put("a", b"1"))
    await case.call("get", bucket.get("a"))
    await case.call("keys", bucket.keys())
    await case.call("status", bucket.status())
