"""Creating, updating, opening and listing buckets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.js import api
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from ..conftest import server_version
from ..tools import free_ports, until


async def test_the_stream_behind_a_bucket(js: JetStreamContext, bucket: str) -> None:
    kv = await js.create_key_value(api.KeyValueConfig(bucket=bucket), description="d")
    config = (await kv.status()).stream_info.config
    assert config.name == f"KV_{bucket}"
    assert config.subjects == [f"$KV.{bucket}.>"]
    assert (config.allow_rollup_hdrs, config.deny_delete, config.allow_direct) == (True, True, True)
    assert (config.discard, config.max_msgs_per_subject, config.duplicate_window) == ("new", 1, 120)
    assert (config.max_msgs, config.max_bytes, config.max_msg_size, config.num_replicas) == (-1, -1, -1, 1)
    assert (config.description, config.storage, config.max_age) == ("d", "file", 0)
    assert config.allow_msg_ttl is (True if server_version() >= (2, 11) else None)
    assert config.subject_delete_marker_ttl is None


@pytest.mark.skipif(server_version() < (2, 11), reason="what expires leaves markers from 2.11 on")
async def test_everything_is_passed_on(js: JetStreamContext, bucket: str) -> None:
    kv = await js.create_key_value(
        bucket=bucket,
        description="d",
        max_value_size=1000,
        history=7,
        ttl=timedelta(seconds=30),
        max_bytes=1_000_000,
        storage="memory",
        republish=api.RePublish(src=">", dest="copies.>"),
        direct=False,
        limit_marker_ttl=60,
        metadata={"owner": "me"},
    )
    config = (await kv.status()).stream_info.config
    assert (config.max_msg_size, config.max_msgs_per_subject, config.max_age) == (1000, 7, 30)
    assert (config.max_bytes, config.storage, config.duplicate_window) == (1_000_000, "memory", 30)
    assert config.republish is not None
    assert (config.republish.dest, config.allow_direct) == ("copies.>", False)
    assert (config.allow_msg_ttl, config.subject_delete_marker_ttl) == (True, 60)
    assert config.metadata is not None
    assert config.metadata["owner"] == "me"
    await js.delete_key_value(bucket)
    for compression in (True, "s2", api.StoreCompression.S2):
        kv = await js.create_key_value(bucket=bucket, compression=compression)
        assert (await kv.status()).stream_info.config.compression == "s2"
    await js.delete_key_value(bucket)
    kv = await js.create_key_value(bucket=bucket, placement=api.Placement(cluster="elsewhere", tags=["ssd"]))
    assert (await kv.status()).stream_info.config.placement == api.Placement(cluster="elsewhere", tags=["ssd"])
    await js.delete_key_value(bucket)
    with pytest.raises(js_errors.APIError, match="replicas"):
        await js.create_key_value(bucket=bucket, replicas=3)


async def test_names_and_numbers_that_are_refused(js: JetStreamContext, bucket: str) -> None:
    calls: list[Any] = [js.key_value, js.delete_key_value, lambda name: js.create_key_value(bucket=name)]
    for name in ("", "a.b", "a b", "ä", "a\n", "a*", "a>"):
        for call in calls:
            with pytest.raises(js_errors.InvalidBucketNameError):
                await call(name)
    for call in (js.key_value(bucket), js.delete_key_value(bucket), js.update_key_value(bucket=bucket)):
        with pytest.raises(js_errors.BucketNotFoundError, match=bucket):
            await call
    with pytest.raises(js_errors.BucketNotFoundError):
        await js.update_key_value(api.KeyValueConfig(bucket=bucket))
    with pytest.raises(js_errors.KeyHistoryTooLargeError):
        await js.create_key_value(bucket=bucket, history=65)
    with pytest.raises(TypeError, match="bucket="):
        await js.create_key_value(history=2)
    with pytest.raises(TypeError, match="histroy"):
        await js.create_key_value(bucket=bucket, histroy=2)  # type: ignore[call-arg]
    await js.create_key_value(bucket=bucket, history=64)


async def test_a_stream_that_is_no_bucket(js: JetStreamContext, bucket: str) -> None:
    await js.add_stream(name=f"KV_{bucket}", subjects=[f"{bucket}.>"])
    with pytest.raises(js_errors.BadBucketError):
        await js.key_value(bucket)
    assert bucket not in [status.bucket async for status in js.key_values()]


async def test_create_opens_what_is_the_same(js: JetStreamContext, bucket: str) -> None:
    kv = await js.create_key_value(bucket=bucket, history=3, metadata={"a": "1"})
    await kv.put("a", b"1")
    for metadata in ({"a": "1"}, None):
        again = await js.create_key_value(bucket=bucket, history=3, metadata=metadata)
        assert (await again.get("a")).value == b"1"
    for other in ({"history": 4}, {"history": 3, "ttl": 60}, {"history": 3, "metadata": {"a": "2"}}):
        with pytest.raises(js_errors.BadRequestError, match="10058"):
            await js.create_key_value(bucket=bucket, **other)  # type: ignore[arg-type]


async def test_update(js: JetStreamContext, bucket: str) -> None:
    await js.create_key_value(bucket=bucket, history=3, description="d", metadata={"a": "1"}, max_bytes=5_000_000)
    kv = await js.update_key_value(bucket=bucket, history=9)
    config = (await kv.status()).stream_info.config
    # The other settings remain.
    assert (config.max_msgs_per_subject, config.description, config.max_bytes) == (9, "d", 5_000_000)
    assert config.metadata is not None
    assert config.metadata["a"] == "1"
    kv = await js.update_key_value(bucket=bucket, description=None, ttl=60)
    config = (await kv.status()).stream_info.config
    assert (config.max_msgs_per_subject, config.description, config.max_age) == (9, None, 60)
    assert config.duplicate_window == 60
    # As a whole.
    kv = await js.update_key_value(api.KeyValueConfig(bucket=bucket, history=2))
    config = (await kv.status()).stream_info.config
    assert (config.max_msgs_per_subject, config.max_age, config.max_bytes) == (2, 0, -1)
    with pytest.raises(js_errors.APIError):
        await js.update_key_value(bucket=bucket, storage="memory")


async def test_lists(js: JetStreamContext, bucket: str) -> None:
    names = [f"{bucket}-{number}" for number in range(3)]
    for name in names:
        await js.create_key_value(bucket=name, history=2)
    await js.add_stream(name=f"{bucket}X", subjects=[f"{bucket}.x"])
    listed = [name async for name in js.key_value_names()]
    assert [name for name in listed if name.startswith(bucket)] == names
    found = {status.bucket: status async for status in js.key_values()}
    assert set(names) <= set(found)
    assert found[names[0]].history == 2
    assert f"{bucket}X" not in found
    await js.delete_stream(f"{bucket}X")


async def test_mirror_and_sources(js: JetStreamContext, bucket: str) -> None:
    """A mirror is read by its own name; writes go to its origin."""
    origin = await js.create_key_value(bucket=bucket, history=3)
    await origin.put("a", b"1")
    mirror = await js.create_key_value(bucket=f"{bucket}-m", mirror=api.StreamSource(name=bucket))
    gathered = await js.create_key_value(bucket=f"{bucket}-s", sources=[api.StreamSource(name=bucket)])

    async def has(kv: Any, key: str, value: bytes) -> bool:
        with contextlib.suppress(js_errors.KeyNotFoundError):
            return bool((await kv.get(key)).value == value)
        return False

    for kv in (mirror, await js.key_value(f"{bucket}-m"), gathered, await js.key_value(f"{bucket}-s")):
        await until(lambda kv=kv: has(kv, "a", b"1"))  # type: ignore[misc]
        assert (await kv.get("a")).key == "a"
        assert await kv.keys() == ["a"]
        assert (await kv.to_table())["key"].to_pylist() == ["a"]
    assert await mirror.put("b", b"2") == 2
    for kv in (mirror, gathered):
        await until(lambda kv=kv: has(kv, "b", b"2"))  # type: ignore[misc]
    assert (await origin.get("b")).value == b"2"  # after its mirror has it, which answers some reads of the origin
    await gathered.put("c", b"own")
    assert sorted(await gathered.keys()) == ["a", "b", "c"]
    assert await origin.keys() == ["a", "b"]
    assert f"{bucket}-m" in [name async for name in js.key_value_names()]


@pytest.fixture
def domains() -> Iterator[tuple[NatsServer, NatsServer]]:
    """A hub with JetStream domain "hub", and a leaf node with domain "leaf"."""
    (port,) = free_ports(1)
    hub = f"jetstream {{ domain: hub }}\nleafnodes {{ listen: 127.0.0.1:{port} }}\n"
    leaf = f'jetstream {{ domain: leaf }}\nleafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{port}" }} ] }}\n'
    with NatsServer(config=hub) as one, NatsServer(config=leaf) as two:
        yield one, two


async def test_domains(domains: tuple[NatsServer, NatsServer]) -> None:
    """The leaf opens a bucket of the hub, and creates a mirror of it whose writes go to the hub."""
    hub, leaf = domains
    async with await jetarrow.connect(hub.url) as at_hub, await jetarrow.connect(leaf.url) as at_leaf:
        direct = await at_hub.jetstream().create_key_value(bucket="B")
        js = at_leaf.jetstream(domain="hub")

        async def there() -> bool:
            with contextlib.suppress(jetarrow.errors.Error):
                return bool(await js.key_value("B"))
            return False

        await until(there, 30)
        far = await js.key_value("B")
        assert await far.put("a", b"1") == 1
        assert (await direct.get("a")).value == b"1"
        assert (await far.get("a")).value == b"1"
        assert await far.update("a", b"2", 1) == 2
        (await far.put_batch(["b"], [b"3"])).raise_for_errors()
        assert await far.keys() == ["a", "b"]
        assert (await far.to_table()).num_rows == 2
        source = api.StreamSource(name="B", external=api.ExternalStream(api="$JS.hub.API"))
        mirror = await at_leaf.jetstream().create_key_value(bucket="M", mirror=source)

        async def copied() -> bool:
            return (await mirror.status()).values == 2

        await until(copied, 30)
        assert (await mirror.get("a")).value == b"2"
        assert await mirror.put("c", b"4") == 4
        assert (await direct.get("c")).value == b"4"
        async with await (await at_leaf.jetstream().key_value("M")).watchall() as watcher:
            keys = [(await watcher.updates()).key for _ in range(2)]
            assert keys == ["a", "b"]
