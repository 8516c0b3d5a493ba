"""Workers: service loops that process the messages of a stream.

`jetarrow.worker` creates one on an event loop, `jetarrow.sync.worker` one of threads. The functions of the package
`jetarrow` have the name `worker`, so the package does not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from jetarrow.workers.retry import Backoff, Reject

if TYPE_CHECKING:
    from jetarrow._jetarrow import Msg
    from jetarrow.jetstream.batch import MessageBatch
    from jetarrow.jetstream.context import JetStreamContext
    from jetarrow.jetstream.models import ConsumerConfig
    from jetarrow.workers.loop_worker import Worker

__all__ = ["Backoff", "Reject", "worker"]

_DEFAULT_RETRY = Backoff()


def worker(
    js: JetStreamContext,
    stream: str,
    *,
    durable: str | None = None,
    group: str | None = None,
    member: str | None = None,
    handler: Callable[[Msg], Awaitable[object] | object] | None = None,
    batch_handler: Callable[[MessageBatch], Awaitable[object] | object] | None = None,
    rows: int = 1000,
    seconds: float = 1.0,
    filter: str | Sequence[str] | None = None,
    concurrency: int = 10,
    prefetch: int | None = None,
    max_bytes: int = 64 * 1024 * 1024,
    key: Callable[[Msg], Hashable] | str | int | None = None,
    retry: Backoff = _DEFAULT_RETRY,
    dead_letter: str | bool | None = True,
    confirm: bool = False,
    ack_wait: float | None = None,
    handler_timeout: float | None = None,
    drain_timeout: float = 30.0,
    signals: bool = True,
    health: str | None = None,
    config: ConsumerConfig | None = None,
    update: bool = False,
) -> Worker:
    """Creates a worker: it calls a handler for the messages of a stream, until it is stopped. `await worker.run()`.

    A message is acknowledged after its handler has returned. If the handler raises an exception, it is retried after
    the delays of `retry`. After the last attempt, or `jetarrow.Reject`, it is a dead letter, which is stored before the
    message is ended. While a message waits or is handled, in-progress acks keep it from redelivery. Delivery is
    at-least-once. A handler that acknowledges its message itself is respected.

    Args:
        js: The context.
        stream: The stream.
        durable: The durable consumer, which is created if it does not exist. Workers that share it share the messages.
        group: Instead of `durable`: a consumer group of the stream, which exists. The messages of a partition are
            handled one after the other, also over takeovers; partitions are handled in parallel.
        member: The member of the group that the worker is.
        handler: Called with each message: a coroutine function, or a function that is called in threads.
        batch_handler: Called with Arrow batches instead, which have the column `delivered` (deliveries) beside the
            default ones. An exception retries all rows. Rows whose last attempt has failed are then handled one by
            one, so that one bad row takes no other with it. `Reject(reason, rows=)` names bad rows.
        rows: Most rows of a batch.
        seconds: Seconds after which a batch ends, at most a quarter of `ack_wait`.
        filter: Subjects of a new consumer; None receives all of the stream.
        concurrency: Most handlers at a time.
        prefetch: Most messages (with `batch_handler`: batches) that are buffered beside those that are handled. None
            adapts the number to the speed of the handlers, from `concurrency` to 5,000; for batches it is 1.
        max_bytes: Bytes of messages in memory above which no more are requested.
        key: Order: messages of one key are handled one after the other. "subject", the number of a `*` in the filter
            (from 1), or a function of the message. A failed message is retried in place and blocks its key until it
            succeeds or is a dead letter. The order holds for one worker per consumer. In a group the default is the
            partition, and the order also holds over takeovers.
        retry: Delays and attempts.
        dead_letter: True records dead letters as `js.keep_dead_letters` does, for `js.dead_letters(stream)`. A subject
            of another stream receives copies of the messages. None stores nothing.
        confirm: Whether the worker waits for the server's confirmation of each ack before the message counts as
            handled. An unconfirmed ack that is lost leads to a redelivery, not to a loss.
        ack_wait: Seconds after which the server redelivers messages of a killed worker; None is the consumer's value,
            30 for a new one.
        handler_timeout: Seconds after which a coroutine is cancelled, which counts as a failure. A thread cannot be
            cancelled: its message is then redelivered after `ack_wait`. None has no limit.
        drain_timeout: Seconds that a stop waits for handlers. Later messages are returned to the server.
        signals: Whether SIGTERM and SIGINT stop the worker, in the main thread. A second signal ends the drain.
        health: Address of an HTTP endpoint, such as `":8080"` (loopback) or `"0.0.0.0:8080"`, with `/health`
            (readiness), `/healthz` (liveness) and `/metrics` (Prometheus). None has no endpoint.
        config: Other properties of a new consumer.
        update: Whether an existing consumer that differs is changed; False raises an error.

    Returns:
        The worker. Nothing has been requested yet.

    Raises:
        TypeError: An option has a wrong type, or there is no handler.
        ValueError: An option is out of range, or two exclude each other.
    """
    from jetarrow.workers.loop_worker import Worker
    from jetarrow.workers.plan import Plan

    options: dict[str, Any] = {name: value for name, value in locals().items() if name not in ("js", "Worker", "Plan")}
    return Worker(js, Plan(**options))
