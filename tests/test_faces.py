"""Output in editors, `help` and the prompt: signatures, docstrings, reprs, and the names in the package."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jetarrow
import jetarrow.sync
import pytest

TWINS = [getattr(jetarrow.sync, name) for name in jetarrow.sync.__all__ if name[0].isupper()]


def public(cls: type) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in inspect.getmembers(cls) if not name.startswith("_") and callable(value))


def test_dir_of_the_package_lists_its_public_names() -> None:
    assert {"Client", "TLS", "NATS", "connect", "sync", "server", "errors", "js"} <= set(dir(jetarrow))
    assert not {"Any", "importlib", "TYPE_CHECKING"} & set(dir(jetarrow))
    assert set(dir(jetarrow.sync)) == set(jetarrow.sync.__all__)


def test_modules_that_few_programs_need_are_loaded_by_their_verbs() -> None:
    program = """
import sys, jetarrow.jetstream.context, jetarrow.sync
rare = "doctor.gather groups.group kv.key_value objects.object_store pipes.pipe resume.publish sinks.sink sinks.delta"
loaded = lambda: [name for name in rare.split() if f"jetarrow.jetstream.{name}" in sys.modules]
print(loaded())
jetarrow.sync.Pipe, jetarrow.sync.Sink
print(loaded())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert not done.returncode, done.stderr
    first, then = done.stdout.splitlines()
    assert first == "[]"
    assert "pipes.pipe" in then
    assert "sinks.sink" in then


def test_sync_is_there_after_a_plain_import() -> None:
    program = """
import sys, jetarrow
assert not {"jetarrow.sync", "jetarrow._jetarrow"} & set(sys.modules), "the import stays lazy"
print(jetarrow.sync.connect.__name__, jetarrow.server.NatsServer.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.stdout == "connect NatsServer\n", done.stderr


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_sync_docstrings_and_signatures_mention_no_await(twin: type) -> None:
    for name, value in public(twin):
        texts = [inspect.getdoc(value) or "", str(inspect.signature(value))]
        for word in ("async for", "async with", "await ", "AsyncIterator", "JetStreamContext(", "Coroutine["):
            assert not any(word in text for text in texts), (name, word)
        assert texts[0], name


def test_signatures_of_the_sync_face() -> None:
    js = jetarrow.sync.JetStream
    assert {"schema", "limit", "flatten"} <= set(inspect.signature(js.read).parameters)
    assert {"max_bytes", "backpressure"} <= set(inspect.signature(js.publisher).parameters)
    assert {"cb", "durable"} <= set(inspect.signature(js.subscribe).parameters)
    assert list(inspect.signature(js.pull_subscribe_bind).parameters)[:3] == ["self", "consumer", "stream"]
    assert inspect.signature(jetarrow.sync.Stream.consumers).return_annotation == "Iterator[models.ConsumerInfo]"
    assert inspect.signature(jetarrow.sync.Client.jetstream_manager).return_annotation == "JetStream"
    assert "error_cb" in inspect.signature(jetarrow.sync.Client.connect).parameters


def test_reprs_of_sync_handles(nats_url: str, stream: str) -> None:
    secret = nats_url.replace("nats://", "nats://user:hidden@")
    with jetarrow.sync.connect(secret) as nc:
        js = nc.jetstream()
        js.publish(f"{stream}.a", b"x")
        pull = js.pull_subscribe(f"{stream}.>", durable="d")
        place = f"$JS.API at {nats_url}"
        told = {
            js: f"<JetStream {place}>",
            nc.jsm(): f"<JetStreamManager {place}>",
            js.stream(stream): f"<Stream {stream}>",
            js.stream(stream).consumer("c"): f"<Consumer c of {stream}>",
            pull: f"<PullSubscription of consumer d of stream {stream}>",
            nc.subscribe("a.b", "q"): "<Subscription to a.b, queue q>",
            js.subscribe(f"{stream}.>", durable="p"): f"<PushSubscription of consumer p of stream {stream}>",
            js.publisher("a.b"): "<Publisher to a.b: 0 pending>",
            js.read(stream, start_seq=1): f"<Reader of stream {stream} at 1>",
            js.advisories(stream): f"<Advisories of stream {stream}>",
            js.advisories(): "<Advisories of every stream>",
        }
        assert {repr(handle): None for handle in told} == dict.fromkeys(told.values())
        reader = js.read(stream)
        list(reader)
        assert repr(reader) == f"<Reader of stream {stream} at 2, read to its end>"
        assert repr(pull.fetch_batch(1)).startswith("<MessageBatch: 1 rows")


async def test_reprs_of_async_handles(nats_url: str, stream: str) -> None:
    async with await jetarrow.connect(nats_url) as nc:
        js = nc.jetstream()
        pull = await js.pull_subscribe(f"{stream}.>", durable="d")
        handles = [js, nc.jsm(), js.stream(stream), pull, await nc.subscribe("a"), js.publisher(), js.read(stream)]
        handles += [js.advisories(), js.ordered_consumer(stream), pull.messages, await js.subscribe(f"{stream}.>")]
        for handle in handles:
            assert " object at 0x" not in repr(handle), repr(handle)
