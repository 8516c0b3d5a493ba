"""Calls of JetStream that block, made while the server is frozen; readers and stores are in `calls_read.py`."""

from __future__ import annotations

import tempfile
from typing import Any

from .setting import LONG, Setting, call


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
    """Sends more bytes than the socket can buffer."""
    batch = at.sub.fetch_batch(10)
    at.freeze()
    while True:
        batch.in_progress([number % 10 for number in range(100_000)])


@call("JetStream.ordered_consumer")
def ordered_consumer(at: Setting) -> None:
    messages = at.js.ordered_consumer(at.stream)
    for _ in range(10):
        next(messages)
    at.freeze()
    next(messages)


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


@call("JetStreamManager.doctor")
def doctor(at: Setting) -> None:
    """It requests consumers in threads."""
    at.freeze()
    at.nc.jetstream(timeout=LONG).doctor()


@call("Sink.run")
def sink_run(at: Setting) -> None:
    """It waits for the stream in a thread of its own, and releases its folder."""
    with tempfile.TemporaryDirectory() as folder:
        sink = at.nc.jetstream(timeout=LONG).to_parquet(at.stream, folder, rows=5, follow=True)
        sink.step()
        at.freeze()
        sink.run()


def made(at: Setting, **options: Any) -> Any:
    """A pipe, whose target is made by its first call."""
    js, target = at.nc.jetstream(timeout=LONG), f"{at.stream}_PIPED"
    at.js.add_stream(name=target, subjects=[f"{target}.>"], allow_atomic=True)
    return js.pipe(at.stream, target, lambda rows: rows.select(["data"]), name="p", subject=f"{target}.x", **options)


@call("Pipe.run")
def pipe_run(at: Setting) -> None:
    """It waits for the source."""
    pipe = made(at, follow=True)
    pipe.step()
    at.freeze()
    pipe.run()


@call("Pipe.run")
def pipe_run_while_it_stores(at: Setting) -> None:
    """It waits for the target in a thread of its own."""

    def function(rows: Any) -> Any:
        at.freeze()
        return rows.select(["data"])

    pipe = made(at)
    pipe._inner._work._call = function
    pipe.run()


@call("Pipe.lag")
def pipe_lag(at: Setting) -> None:
    pipe = made(at)
    pipe.step()
    at.freeze()
    pipe.lag()


@call("Pipe.reset")
def pipe_reset(at: Setting) -> None:
    pipe = made(at)
    at.freeze()
    pipe.reset(1)


@call("Sink.lag")
def sink_lag(at: Setting) -> None:
    """It asks for the stream's state in a thread of its own."""
    with tempfile.TemporaryDirectory() as folder:
        sink = at.nc.jetstream(timeout=LONG).to_parquet(at.stream, folder, rows=5)
        sink.step()
        at.freeze()
        sink.lag()
