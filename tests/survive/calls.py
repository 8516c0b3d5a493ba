"""Every call of `jetarrow.sync` that blocks, made while the server is frozen.

As a program, for Ctrl-C: `calls.py <name> <url> <pid of the server>`. It prints `go` once the server is frozen and the
call is made, then what became of it and when, then whether the client still works once the server does.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jetarrow.sync
import pyarrow as pa

# Seconds that no call waits by itself.
LONG = 60.0


class Setting:
    """A client, a stream with ten messages, a pull subscription to them, and how to freeze the server."""

    def __init__(self, name: str, url: str, pid: int) -> None:
        self.url, self.pid, self.stream, self.subject = url, pid, name, f"{name}.a"
        self.nc = jetarrow.sync.connect(url)
        self.js = self.nc.jetstream()
        self.js.add_stream(name=name, subjects=[f"{name}.>"], allow_batched=True, allow_atomic=True)
        self.js.publish_batch(self.subject, ["x"] * 10).raise_for_errors()
        self.sub = self.js.pull_subscribe(f"{name}.>", durable="d")

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        # A thread that still runs may still answer.
        while any(task.read_text().split()[2] != "T" for task in Path(f"/proc/{self.pid}/task").glob("*/stat")):
            time.sleep(0.001)
        print("go", flush=True)

    def rows_that_freeze(self) -> pa.RecordBatchReader:
        """Two blocks of rows; the server is frozen before the second is read."""

        def blocks() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"data": ["x"] * 10})
            self.freeze()
            yield pa.record_batch({"data": ["x"] * 10})

        return pa.RecordBatchReader.from_batches(pa.schema({"data": pa.string()}), blocks())


CALLS: dict[str, Callable[[Setting], object]] = {}
# The methods of `jetarrow.sync` that are called while the server is frozen.
COVERED: set[str] = set()


def call(covered: str) -> Callable[[Callable[[Setting], None]], None]:
    def add(function: Callable[[Setting], None]) -> None:
        CALLS[function.__name__] = function
        COVERED.add(covered)

    return add


@call("Client.connect")
def connect(at: Setting) -> None:
    at.freeze()
    jetarrow.sync.connect(at.url, connect_timeout=LONG)


@call("Client.close")
def close(at: Setting) -> None:
    """More than the socket takes."""
    nc = jetarrow.sync.connect(at.url)
    js = nc.jetstream()
    at.freeze()
    for _ in range(100):
        js.publish_async(at.subject, bytes(500_000))
    nc.close()


@call("Client.drain")
def drain(at: Setting) -> None:
    nc = jetarrow.sync.connect(at.url)
    at.freeze()
    nc.drain()


@call("Client.flush")
def flush(at: Setting) -> None:
    at.freeze()
    at.nc.flush(timeout=LONG)


@call("Client.rtt")
def rtt(at: Setting) -> None:
    at.freeze()
    at.nc.rtt(timeout=LONG)


@call("Client.request")
def request(at: Setting) -> None:
    at.freeze()
    at.nc.request(at.subject, timeout=LONG)


@call("Client.request_many")
def request_many(at: Setting) -> None:
    at.freeze()
    list(at.nc.request_many(at.subject, timeout=LONG))


@call("Client.request")
def request_old_style(at: Setting) -> None:
    at.freeze()
    at.nc.request(at.subject, timeout=LONG, old_style=True)


@call("Client.publish")
def core_publish(at: Setting) -> None:
    """More than the client holds."""
    at.freeze()
    while True:
        at.nc.publish("nobody.listens", bytes(500_000))


@call("Client.jetstream_manager")
def jetstream_manager(at: Setting) -> None:
    at.freeze()
    at.nc.jetstream_manager()


@call("Subscription.next_msg")
def next_msg(at: Setting) -> None:
    sub = at.nc.subscribe("nobody.publishes")
    at.freeze()
    sub.next_msg(timeout=LONG)


@call("Subscription.__iter__")
def subscription(at: Setting) -> None:
    sub = at.nc.subscribe("nobody.publishes")
    at.freeze()
    next(iter(sub))


@call("Subscription.drain")
def subscription_drain(at: Setting) -> None:
    sub = at.nc.subscribe("nobody.publishes")
    at.freeze()
    sub.drain()


@call("JetStream.publish")
def publish(at: Setting) -> None:
    at.freeze()
    at.js.publish(at.subject, b"x", timeout=LONG)


@call("JetStream.publish_batch")
def publish_batch(at: Setting) -> None:
    at.js.publish_batch(at.subject, at.rows_that_freeze(), timeout=LONG)


@call("JetStream.publish_batch")
def publish_batch_fast(at: Setting) -> None:
    at.js.publish_batch(at.subject, at.rows_that_freeze(), mode="fast", timeout=LONG)


@call("JetStream.publish_batch")
def publish_batch_atomic(at: Setting) -> None:
    at.js.publish_batch(at.subject, at.rows_that_freeze(), mode="atomic", timeout=LONG)


@call("JetStream.publish_async")
def publish_async_at_the_limit(at: Setting) -> None:
    js = at.nc.jetstream(publish_async_max_pending=2)
    at.freeze()
    for _ in range(3):
        js.publish_async(at.subject, b"x")


@call("JetStream.publish_async_completed")
def publish_async_completed(at: Setting) -> None:
    at.freeze()
    at.js.publish_async(at.subject, b"x")
    at.js.publish_async_completed()


@call("Publisher.publish")
def publisher_publish(at: Setting) -> None:
    publisher = at.js.publisher(at.subject, max_inflight=2)
    at.freeze()
    for _ in range(3):
        publisher.publish(b"x")


@call("Publisher.flush")
def publisher_flush(at: Setting) -> None:
    publisher = at.js.publisher(at.subject)
    at.freeze()
    publisher.publish(b"x")
    publisher.flush()


@call("Publisher.__exit__")
def publisher_exit(at: Setting) -> None:
    at.freeze()
    with at.js.publisher(at.subject) as publisher:
        publisher.publish(b"x")


@call("PullSubscription.fetch")
def fetch(at: Setting) -> None:
    at.freeze()
    at.sub.fetch(10, timeout=LONG)


@call("PullSubscription.fetch_batch")
def fetch_batch(at: Setting) -> None:
    at.freeze()
    at.sub.fetch_batch(10, timeout=LONG)


@call("PullSubscription.messages")
def messages(at: Setting) -> None:
    messages = at.sub.messages()
    for _ in range(10):
        next(messages)
    at.freeze()
    next(messages)


@call("PullSubscription.__iter__")
def pull(at: Setting) -> None:
    at.freeze()
    at.sub.pull(1, expires=LONG)
    next(iter(at.sub))


@call("Consumer.batches")
def batches(at: Setting) -> None:
    batches = at.js.stream(at.stream).consumer("d").batches()
    at.freeze()
    next(batches)


@call("JetStream.subscribe")
def push_subscribe(at: Setting) -> None:
    at.freeze()
    at.js.subscribe(at.subject)


@call("Subscription.__iter__")
def push_subscription(at: Setting) -> None:
    messages = iter(at.js.subscribe(at.subject))
    for _ in range(10):
        next(messages)
    at.freeze()
    next(messages)


@call("Advisories.__iter__")
def advisories(at: Setting) -> None:
    with at.js.advisories() as events:
        at.freeze()
        next(events)


@call("Msg.ack_sync")
def ack_sync(at: Setting) -> None:
    (msg,) = at.sub.fetch()
    at.freeze()
    msg.ack_sync(timeout=LONG)


@call("MessageBatch.ack_sync")
def batch_ack_sync(at: Setting) -> None:
    batch = at.sub.fetch_batch(10)
    at.freeze()
    batch.ack_sync(timeout=LONG)


@call("MessageBatch.ack")
def batch_ack(at: Setting) -> None:
    """More than the socket takes."""
    batch = at.sub.fetch_batch(10)
    at.freeze()
    while True:
        batch.in_progress([number % 10 for number in range(100_000)])


@call("Reader.__next__")
def read_opening(at: Setting) -> None:
    reader = at.js.read(at.stream)
    at.freeze()
    next(reader)


@call("Reader.__next__")
def read(at: Setting) -> None:
    reader = at.js.read(at.stream, follow=True)
    next(reader)
    at.freeze()
    next(reader)


@call("Reader.read_all")
def read_all(at: Setting) -> None:
    reader = at.js.read(at.stream, follow=True)
    next(reader)
    at.freeze()
    reader.read_all()


@call("Reader.schema")
def read_schema(at: Setting) -> None:
    reader = at.js.read(at.stream)
    at.freeze()
    _ = reader.schema


@call("Reader.created")
def read_created(at: Setting) -> None:
    reader = at.js.read(at.stream)
    at.freeze()
    _ = reader.created


@call("Reader.__arrow_c_schema__")
def read_arrow_schema(at: Setting) -> None:
    reader = at.js.read(at.stream)
    at.freeze()
    reader.__arrow_c_schema__()


@call("Reader.__arrow_c_stream__")
def read_arrow_stream(at: Setting) -> None:
    reader = at.js.read(at.stream, follow=True)
    next(reader)
    at.freeze()
    pa.table(reader)


@call("Reader.__exit__")
def read_in_a_with(at: Setting) -> None:
    with at.js.read(at.stream, follow=True) as reader:
        next(reader)
        at.freeze()
        next(reader)


@call("Reader.close")
def reader_close(at: Setting) -> None:
    # Each gives the server a quarter of a second to delete its consumer.
    readers = [at.js.read(at.stream, follow=True) for _ in range(40)]
    for reader in readers:
        next(reader)
    at.freeze()
    for reader in readers:
        reader.close()


@call("KeyWatcher.updates")
def watch_updates(at: Setting) -> None:
    watcher = at.js.create_key_value(bucket=at.stream).watchall()
    assert watcher.updates() is None
    at.freeze()
    watcher.updates(timeout=LONG)


@call("KeyWatcher.__next__")
def watch(at: Setting) -> None:
    watcher = at.js.create_key_value(bucket=at.stream).watchall()
    assert next(watcher) is None
    at.freeze()
    next(watcher)


@call("ObjectStore.put")
def put_object(at: Setting) -> None:
    def parts() -> Iterator[bytes]:
        yield bytes(8_000_000)
        at.freeze()
        yield bytes(8_000_000)

    at.js.create_object_store(at.stream).put("a", parts())


@call("ObjectStore.get")
def get_object(at: Setting) -> None:
    class Sink:
        frozen = False

        def write(self, data: bytes) -> None:
            if not self.frozen:
                self.frozen = True
                at.freeze()

    store = at.js.create_object_store(at.stream)
    store.put("a", bytes(40_000_000))
    store.get("a", Sink())


@call("ObjectWatcher.updates")
def watch_objects_updates(at: Setting) -> None:
    watcher = at.js.create_object_store(at.stream).watch()
    assert watcher.updates() is None
    at.freeze()
    watcher.updates(timeout=LONG)


@call("ObjectWatcher.__next__")
def watch_objects(at: Setting) -> None:
    watcher = at.js.create_object_store(at.stream).watch()
    assert next(watcher) is None
    at.freeze()
    next(watcher)


@call("JetStream.ordered_consumer")
def ordered_consumer(at: Setting) -> None:
    messages = at.js.ordered_consumer(at.stream)
    for _ in range(10):
        next(messages)
    at.freeze()
    next(messages)


@call("Client.__exit__")
def client_in_a_with(at: Setting) -> None:
    with jetarrow.sync.connect(at.url) as nc:
        at.freeze()
        nc.jetstream().publish(at.subject, b"x", timeout=LONG)


@call("JetStream.pull_subscribe")
def pull_subscribe(at: Setting) -> None:
    at.freeze()
    at.js.pull_subscribe(at.subject)


@call("JetStreamManager.add_stream")
def add_stream(at: Setting) -> None:
    at.freeze()
    at.js.add_stream(name="NEW", subjects=["new"])


@call("JetStreamManager.lag")
def lag(at: Setting) -> None:
    """Its requests are made in threads."""
    at.freeze()
    at.nc.jetstream(timeout=LONG).lag()


@call("Sink.run")
def sink_run(at: Setting) -> None:
    """It waits for the stream in a thread of its own, with a folder that it gives back."""
    with tempfile.TemporaryDirectory() as folder:
        sink = at.nc.jetstream(timeout=LONG).to_parquet(at.stream, folder, rows=5, follow=True)
        sink.step()
        at.freeze()
        sink.run()


def main(name: str, url: str, pid: str) -> None:
    at = Setting(name, url, int(pid))
    outcome: Any = "it returned"
    try:
        CALLS[name](at)
    except BaseException as error:
        outcome = type(error).__name__
        if outcome != "KeyboardInterrupt" and "KeyboardInterrupt" in str(error):
            outcome += ":KeyboardInterrupt"
    print(outcome, time.monotonic(), flush=True)
    os.kill(at.pid, signal.SIGCONT)
    print(at.js.publish(at.subject, b"still alive", timeout=LONG).stream, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
