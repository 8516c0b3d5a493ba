"""Creation, change, list and deletion of buckets, their configuration and status."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ...tools import free_ports
from ..case import Case, until

BAD_NAMES = ("", "a.b", "a b", "a*", ">", "ü", "a/b")


def _config(case: Case, **more: Any) -> Any:
    return case.key_value.KeyValueConfig(**{"bucket": case.name, **more})


async def create_and_bind(case: Case) -> None:
    js, module = await case.context(), case.key_value
    bucket = await module.create_key_value(js, _config(case))
    case.note("name", bucket.bucket)
    await bucket.put("a", b"1")
    same = await module.key_value(js, case.name)
    case.note("same", (await same.get("a")).value)
    case.note("class", type(same) is module.KeyValue)
    await case.call("again", _name(module.create_key_value(js, _config(case))))
    await case.call("other configuration", module.create_key_value(js, _config(case, history=2)))
    await case.call("no such bucket", module.key_value(js, f"{case.name}-none"))
    case.note("configuration", _config(case))


async def _name(call: Any) -> Any:
    return (await call).bucket


async def bad_names(case: Case) -> None:
    js, module = await case.context(), case.key_value
    for name in BAD_NAMES:
        await case.call(f"create {name!r}", module.create_key_value(js, _config(case, bucket=name)))
        await case.call(f"bind {name!r}", module.key_value(js, name))
        await case.call(f"delete {name!r}", module.delete_key_value(js, name))
        await case.call(f"update {name!r}", module.update_key_value(js, _config(case, bucket=name)))
    await case.call("create or update", module.create_or_update_key_value(js, _config(case, bucket="a b")))


async def bad_options(case: Case) -> None:
    js, module = await case.context(), case.key_value
    for call in (module.create_key_value, module.update_key_value, module.create_or_update_key_value):
        await case.call(f"history 65 {call.__name__}", call(js, _config(case, history=65)))
    for seconds in (0.5, 1):
        config = _config(case, limit_marker_ttl=timedelta(seconds=seconds))
        await case.call(f"marker {seconds}", module.create_key_value(js, config))
    await case.call("storage", module.create_key_value(js, _config(case, storage="tape")))
    await case.call("replicas", module.create_key_value(js, _config(case, replicas=3)))


async def history_below_one(case: Case) -> None:
    js, module = await case.context(), case.key_value
    await case.call("create", _name(module.create_key_value(js, _config(case, history=0))))
    await case.call("bind", _name(module.key_value(js, case.name)))


async def default_configuration(case: Case) -> None:
    js, module = await case.context(), case.key_value
    bucket = await module.create_key_value(js, _config(case))
    await bucket.put("a", b"1")
    await bucket.put("b", b"22")
    case.note("status", await bucket.status())


async def full_configuration(case: Case) -> None:
    js, module = await case.context(), case.key_value
    jetstream = case.jetstream
    config = _config(
        case,
        description="settings",
        max_value_size=1000,
        history=7,
        ttl=timedelta(minutes=1),
        max_bytes=100_000,
        storage="memory",
        replicas=1,
        compression=True,
        republish=jetstream.Republish(src=">", dest=f"{case.name}.copy.>", headers_only=True),
        limit_marker_ttl=timedelta(seconds=90),
        metadata={"team": "a"},
    )
    bucket = await module.create_key_value(js, config)
    case.note("status", await bucket.status())


async def long_ttl_and_file_compression(case: Case) -> None:
    js, module = await case.context(), case.key_value
    bucket = await module.create_key_value(js, _config(case, ttl=timedelta(days=2), compression=True, storage="file"))
    case.note("status", await bucket.status())


async def update(case: Case) -> None:
    js, module = await case.context(), case.key_value
    await case.call("missing", module.update_key_value(js, _config(case)))
    bucket = await module.create_key_value(js, _config(case, description="one"))
    await bucket.put("a", b"1")
    config = _config(case, description="two", history=3, ttl=timedelta(hours=1), limit_marker_ttl=timedelta(minutes=2))
    changed = await module.update_key_value(js, config)
    case.note("status", await changed.status())
    case.note("value", (await changed.get("a")).value)
    await case.call("storage", module.update_key_value(js, _config(case, storage="memory")))


async def create_or_update(case: Case) -> None:
    js, module = await case.context(), case.key_value
    first = await module.create_or_update_key_value(js, _config(case, history=2))
    await first.put("a", b"1")
    second = await module.create_or_update_key_value(js, _config(case, history=4, metadata={"k": "v"}))
    case.note("history", (await second.status()).history)
    case.note("value", (await second.get("a")).value)


async def delete(case: Case) -> None:
    js, module = await case.context(), case.key_value
    await module.create_key_value(js, _config(case))
    await case.call("delete", module.delete_key_value(js, case.name))
    await case.call("again", module.delete_key_value(js, case.name))
    await case.call("bind", module.key_value(js, case.name))


async def stream_that_is_no_bucket(case: Case) -> None:
    js, module = await case.context(), case.key_value
    await js.create_stream(name=f"KV_{case.name}", subjects=[f"{case.name}.>"])
    await case.call("bind", module.key_value(js, case.name))


async def lists(case: Case) -> None:
    js, module = await case.context(), case.key_value
    wanted = sorted(f"{case.name}-{number}" for number in range(3))
    for number, name in enumerate(wanted):
        bucket = await module.create_key_value(js, _config(case, bucket=name, history=number + 1))
        await bucket.put("a", b"1")
    await js.create_stream(name=f"O{case.name}", subjects=[f"$KV.{case.name}-other.>"])
    names = [name async for name in module.key_value_bucket_names(js) if name.startswith(case.name)]
    case.note("names", sorted(names))
    found = [each async for each in module.key_value_buckets(js) if each.bucket.startswith(case.name)]
    case.note("buckets", sorted((each.bucket, each.values, each.history) for each in found))
    case.note("status", next(each for each in found if each.bucket == wanted[1]))
    case.note("other streams", any(name.startswith("O") for name in names))


async def sources_with_transforms(case: Case) -> None:
    js, module = await case.context(), case.key_value
    origin = await module.create_key_value(js, _config(case, bucket=f"{case.name}-a"))
    await origin.put("k", b"1")
    transforms = [{"src": f"$KV.{case.name}-a.>", "dest": f"$KV.{case.name}.>"}]
    source = case.jetstream.StreamSource(name=f"KV_{case.name}-a", subject_transforms=transforms)
    bucket = await module.create_key_value(js, _config(case, sources=[source]))
    await until(lambda: _has(case, bucket, b"1"))
    await case.call("value", bucket.get("k"))
    await bucket.put("own", b"2")
    case.note("keys", sorted([key async for key in await bucket.keys()]))


async def sources_by_the_name_of_a_bucket(case: Case) -> None:
    js, module = await case.context(), case.key_value
    origin = await module.create_key_value(js, _config(case, bucket=f"{case.name}-a"))
    await origin.put("k", b"1")
    source = case.jetstream.StreamSource(name=f"KV_{case.name}-a")
    bucket = await module.create_key_value(js, _config(case, sources=[source]))

    async def has_the_message() -> bool:
        return bool((await bucket.status()).values)

    await until(has_the_message)
    await case.call("value", bucket.get("k"))
    case.note("keys", [key async for key in await bucket.keys()])


async def mirror(case: Case) -> None:
    js, module = await case.context(), case.key_value
    origin = await module.create_key_value(js, _config(case, bucket=f"{case.name}-a"))
    await origin.put("k", b"1")
    source = case.jetstream.StreamSource(name=f"KV_{case.name}-a")
    found = await case.call("create", _name(module.create_key_value(js, _config(case, mirror=source))))
    if found == case.name:
        bucket = await module.key_value(js, case.name)
        await until(lambda: _has(case, bucket, b"1"))
        await case.call("value", bucket.get("k"))
        await case.call("put", bucket.put("k", b"2"))
        await until(lambda: _has(case, bucket, b"2"))  # the mirror answers some reads of its origin
        case.note("value of the origin", (await origin.get("k")).value)
        case.note("keys", [key async for key in await bucket.keys()])
        watcher = await bucket.watch()
        case.note("watched", (await anext(watcher)).key)
        await watcher.stop()


async def _has(case: Case, bucket: Any, value: bytes) -> bool:
    try:
        return (await bucket.get("k")).value == value
    except case.key_value.KeyNotFoundError:
        return False


async def errors(case: Case) -> None:
    module = case.key_value
    names = ("BadBucket", "BucketExists", "BucketNotFound", "HistoryTooLarge", "InvalidBucketName", "InvalidKey")
    for name in (*names, "KeyExists", "KeyNotFound", "KeyValue"):
        error = getattr(module, f"{name}Error")
        case.note(name, error("argument"))
        case.note(f"{name} in errors", getattr(module.errors, f"{name}Error") is error)


async def bucket_of_a_domain(case: Case) -> None:
    server, module = case.server("jetstream { domain: hub }", jetstream=True), case.key_value
    client = await case.connect(server.url)
    js = case.jetstream.new(client, domain="hub")
    bucket = await module.create_key_value(js, _config(case))
    await case.call("put", bucket.put("a", b"1"))
    await case.call("get", bucket.get("a"))
    await case.call("update", bucket.update("a", b"2", 1))
    await case.call("create", bucket.create("b", b"2"))
    case.note("keys", [key async for key in await bucket.keys()])
    await bucket.delete("a")
    async with await bucket.watch() as watcher:
        case.note("watched", [entry async for entry in watcher.values()])
    await case.call("delete", module.delete_key_value(js, case.name))


async def buckets_of_one_name_in_two_domains(case: Case) -> None:
    module, (port,) = case.key_value, free_ports(1)
    case.server(f"jetstream {{ domain: hub }}\nleafnodes {{ listen: 127.0.0.1:{port} }}\n", jetstream=True)
    remotes = f'leafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{port}" }} ] }}'
    leaf = await case.connect(case.server(f"jetstream {{ domain: leaf }}\n{remotes}\n", jetstream=True).url)
    contexts = [case.jetstream.new(leaf, domain=domain) for domain in ("hub", "leaf")]
    await until(lambda: _responds(contexts[0]))
    hub, own = [await module.create_key_value(js, _config(case)) for js in contexts]
    await case.call("put", hub.put("k", b"at the hub"))
    await case.call("get", hub.get("k"))
    await case.call("get of the leaf", own.get("k"))


async def _responds(js: Any) -> bool:
    try:
        return bool(await js.account_info())
    except Exception:
        return False
