"""The part of a worker that both faces share: its consumer, its ledger, acknowledgements and counters."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

from jetarrow import tracing
from jetarrow.core.errors import Error
from jetarrow.jetstream import models
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.batch_collector import DEFAULT_ACK_WAIT
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.workers.counters import WorkerMetrics
from jetarrow.workers.dead_letter import DeadLetterStore
from jetarrow.workers.held_back import HeldBack
from jetarrow.workers.ledger import Decision, Item, Ledger, Step, Verdict
from jetarrow.workers.plan import MAX_PREFETCH, PREFETCH_SECONDS, Plan
from jetarrow.workers.retry import Reject
from jetarrow.workers.settlement import Settlement, log

# Columns of the batches for handlers: the default ones, and the number of deliveries.
BATCH_COLUMNS = ("stream", "seq", "subject", "timestamp", "headers", "data", "delivered")
# Bytes of a message beside its data, approximately.
MESSAGE_OVERHEAD = 256
# Seconds between two measurements of the handlers' speed.
_RATE_INTERVAL = 0.05


class Core(Settlement):
    """A worker without its runners.

    Args:
        js: The async context; of a blocking client, the one inside.
        plan: The options.
        tracer: Tracer of OpenTelemetry; None creates no spans.
        wrap: Makes the argument of the handler from a batch.
    """

    def __init__(
        self, js: JetStreamContext, plan: Plan, *, tracer: Any = None, wrap: Callable[[Any], Any] | None = None
    ) -> None:
        self.js, self.plan, self.tracer = js, plan, tracer
        self.wrap = wrap if plan.batch_handler is not None else None
        self.session = js._api.session
        self.metrics = WorkerMetrics()
        self.lock = threading.Lock()
        self.is_batch = plan.batch_handler is not None
        prefetch = plan.prefetch if plan.prefetch is not None else 1 if self.is_batch else plan.concurrency
        self.ledger = Ledger(
            plan.retry,
            concurrency=plan.concurrency,
            limit=plan.concurrency + prefetch,
            max_bytes=plan.max_bytes,
            ordered=plan.key is not None,
            confirms=plan.confirm,
        )
        self.dead_letters = DeadLetterStore(js, plan.stream, plan.durable, plan.dead_letter)
        self.sub: PullSubscription
        self.key: Callable[[Any], Hashable] | None = None
        self.held_back: HeldBack | None = None
        self.ack_wait = DEFAULT_ACK_WAIT
        self.failure: BaseException | None = None
        # Reason of the last failure to store a dead letter; None after a success.
        self.unstored: str | None = None
        self._rated, self._rated_count = time.monotonic(), 0
        # Items whose handler runs or whose acks are being sent; the drain waits for both.
        self.active = 0

    async def open(self) -> None:
        """Binds to the consumer, which is created if it does not exist.

        Raises:
            Error: The consumer differs from the options.
            ValueError: The options do not fit the stream.
        """
        plan, filters = self.plan, self.plan.filters
        given: dict[str, Any] = {"ack_policy": models.AckPolicy.EXPLICIT, "max_deliver": -1}
        if plan.ack_wait is not None:
            given["ack_wait"] = plan.ack_wait
        if len(filters) > 1:
            given["filter_subjects"] = filters
        self.sub = await self.js.pull_subscribe(
            filters[0] if len(filters) == 1 else "",
            durable=plan.durable,
            stream=plan.stream,
            config=plan.config,
            update=plan.update,
            **given,
        )
        info = await self.sub.consumer_info()
        config = info.config
        if config.ack_policy != models.AckPolicy.EXPLICIT or (config.max_deliver or -1) > 0:
            policy = getattr(config.ack_policy, "value", config.ack_policy)
            raise Error(
                f"consumer {plan.durable!r} of stream {plan.stream!r} has ack_policy {policy} and max_deliver"
                f" {config.max_deliver}: a worker needs explicit acks and unlimited deliveries, because it counts"
                " attempts and stores dead letters itself; pass update=True, or another durable="
            )
        self.ack_wait = min([*(config.backoff or ()), config.ack_wait or DEFAULT_ACK_WAIT])
        if self.is_batch and plan.seconds > self.ack_wait / 4:
            raise ValueError(
                f"seconds={plan.seconds:g} is more than a quarter of the consumer's ack_wait ({self.ack_wait:g} s):"
                " rows that are collected would be redelivered; pass a shorter seconds= or a longer ack_wait="
            )
        filters = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [])
        await self.dead_letters.prepare(filters)
        self.key = plan.key_function(filters)
        if self.key is not None and info.num_ack_pending:
            last = info.delivered.stream_seq if info.delivered else 0
            self.held_back = HeldBack(info.num_ack_pending, last, time.monotonic() + self.ack_wait)

    def kept(self) -> list[Item]:
        """The items that in-progress acks keep from redelivery; the caller has the lock."""
        return self.ledger.held() + (self.held_back.held() if self.held_back is not None else [])

    @property
    def is_idle(self) -> bool:
        """Whether nothing is held, and all acks are sent."""
        return not self.active and not len(self.ledger)

    @property
    def is_holding(self) -> bool:
        """Whether new messages wait for those of a former worker."""
        return self.held_back is not None and self.held_back.is_holding

    # Requests.

    async def request(self, most: int, rows: int, *, wait: float, most_bytes: int | None) -> tuple[Decision, ...]:
        """Makes one request, and adds its messages to the ledger.

        Args:
            most: Most messages.
            rows: Most rows of a batch.
            wait: Seconds to wait for messages.
            most_bytes: Most bytes; None is no limit.
        """
        requested = time.monotonic()
        if self.is_batch:
            batch = await self.sub.fetch_batch(
                rows, max_bytes=most_bytes, timeout=self.plan.seconds, min_messages=rows, columns=BATCH_COLUMNS
            )
            return self.arrive_batch(batch) if len(batch) else ()
        # An empty answer of the server proves that no earlier message is left; `fetch` does not distinguish it from no
        # answer.
        fetch = self.sub._fetch if self.is_holding else self.sub.fetch
        return self.arrive(await fetch(most, timeout=wait, max_bytes=most_bytes), requested)

    def room(self) -> int:
        """Number of items to request now; 0 for none."""
        with self.lock:
            self._adapt()
            room = self.ledger.room()
            if self.is_holding and not self.ledger.is_stopping:
                # Its messages are not the ledger's: redelivered ones are requested without regard to the limit.
                return max(room, self.ledger.limit)
            return room

    def _adapt(self) -> None:
        """Sets the limit to the messages that the handlers process in `PREFETCH_SECONDS`."""
        now, plan = time.monotonic(), self.plan
        if plan.prefetch is not None or self.is_batch or now - self._rated < _RATE_INTERVAL:
            return
        rate = (self.metrics.handled - self._rated_count) / (now - self._rated)
        self._rated, self._rated_count = now, self.metrics.handled
        self.ledger.limit = plan.concurrency + max(plan.concurrency, min(int(rate * PREFETCH_SECONDS), MAX_PREFETCH))

    def bytes_left(self) -> int:
        """Bytes that may be requested; at least 1."""
        return max(self.plan.max_bytes - self.ledger.bytes, 1)

    def arrive(self, messages: list[Any], requested: float) -> tuple[Decision, ...]:
        """Adds the messages of a request that was made at the time `requested`."""
        key = self.key
        items = [Item((message.seq,), message, len(message.data) + MESSAGE_OVERHEAD) for message in messages]
        if key is not None:
            for item in items:
                try:
                    item.key = key(item.message)
                    hash(item.key)
                except Exception as error:
                    item.key, item.reason = _NoKey(item), f"key= raised {type(error).__name__}: {error}"
        with self.lock:
            if self.held_back is not None and self.held_back.is_holding and not self.ledger.is_stopping:
                items = self.held_back.add(items, requested)
            add = self.ledger.add
            return tuple(decision for item in items for decision in add(item))

    def arrive_batch(self, batch: MessageBatch) -> tuple[Decision, ...]:
        """Adds a batch, without the rows that are held already."""
        with self.lock:
            seqs = batch.seqs.to_pylist()
            fresh = [row for row, seq in enumerate(seqs) if not self.ledger.is_held(seq or 0)]
            self.ledger.duplicates += len(seqs) - len(fresh)
            if not fresh:
                return ()
            return self.ledger.add(self._part(batch, fresh, len(seqs)))

    def _part(self, batch: Any, rows: list[int], of: int) -> Item:
        """An item of some rows of a batch."""
        if len(rows) < of:
            import pyarrow as pa

            chosen = set(rows)
            batch = batch._like(batch._native.filter(pa.array([row in chosen for row in range(of)])))
        deliveries = batch.to_pyarrow()["delivered"].to_pylist()
        return Item(tuple(batch.seqs.to_pylist()), batch, batch.nbytes, deliveries=tuple(deliveries))

    # Results.

    def finish(self, item: Item, verdict: Verdict, error: BaseException | None = None) -> tuple[Decision, ...]:
        """Records the result of a handler; the caller passes the decisions to `settle`."""
        now, metrics = time.monotonic(), self.metrics
        reason = ""
        rows = error.rows if isinstance(error, Reject) and self.is_batch else None
        if rows is not None and (not rows or min(rows) < 0 or max(rows) >= len(item.seqs)):
            # Without an end if it were called again without them: all rows are left, or others than meant.
            verdict = Verdict.FAILED
            error = ValueError(f"Reject(rows={rows}) names no rows of this batch of {len(item.seqs)}: {error}")
        if error is not None:
            reason = error.reason if isinstance(error, Reject) else f"{type(error).__name__}: {error}"
            if verdict is Verdict.FAILED:
                log.warning("%s failed", self.name_of(item), exc_info=error)
        with self.lock:
            metrics.handler_seconds += now - (item.started or now)
            if rows is not None and verdict is Verdict.REJECTED and len(item.seqs) > 1:
                found = self.ledger.reject_rows(item, rows, reason)
            else:
                found = self.ledger.finish(item, verdict, now, reason)
            if verdict is Verdict.HANDLED and not item.is_abandoned:
                metrics.handled += len(item.seqs)
            elif verdict is Verdict.FAILED:
                metrics.failed += 1
            return self._split(found)

    def _split(self, decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
        """Executes the decisions that make parts of a batch; returns the others."""
        left: list[Decision] = []
        # The rest before the rows that are alone.
        parts: list[Item] = []
        for decision in decisions:
            item, rows = decision.item, list(decision.rows or ())
            if decision.step is Step.SPLIT:
                alone = [self._part(item.message, [row], len(item.seqs)) for row in rows]
                parts += [replace(part, reason=decision.reason) for part in alone]
                self.metrics.retried += len(alone) if decision.reason is None else 0
            elif decision.step is Step.REST:
                parts.insert(0, self._part(item.message, rows, len(item.seqs)))
            else:
                if decision.step is Step.WAIT or (decision.step is Step.NAK and not self.ledger.is_stopping):
                    self.metrics.retried += len(rows) or len(item.seqs)
                left.append(decision)
        if parts:
            left += self.ledger.replace(parts)
        return tuple(left)

    def stop(self) -> tuple[Decision, ...]:
        """Begins the stop; returns decisions for messages that are given to other workers."""
        with self.lock:
            held = self.held_back.take_all() if self.held_back is not None else []
            return (*self.ledger.stop(), *(Decision(Step.NAK, item) for item in held))

    def abandon(self) -> tuple[Decision, ...]:
        """Ends the drain."""
        with self.lock:
            return self.ledger.abandon()

    def fail(self, error: BaseException) -> None:
        """Records the first error that ends the worker."""
        if self.failure is None:
            self.failure = error

    def snapshot(self) -> WorkerMetrics:
        """The counters now."""
        with self.lock:
            ledger = self.ledger
            running = sum(len(item.seqs) for item in ledger.running)
            held = sum(len(item.seqs) for item in ledger.held())
            held += len(self.held_back) if self.held_back is not None else 0
            return replace(self.metrics, in_progress=running, buffered=held - running, duplicates=ledger.duplicates)

    def handle(self, item: Item) -> Any:
        """Calls the handler, and returns its result."""
        return self.plan.call(item.message if self.wrap is None else self.wrap(item.message))

    @contextlib.contextmanager
    def span(self, item: Item) -> Iterator[None]:
        """The span of a handler, in the context in which the message was published."""
        if self.tracer is None:
            yield
            return
        with tracing.processing(self.tracer, item.message, self.plan.durable, count=len(item.seqs)):
            yield


class _NoKey:
    """Key of a message for which the key function failed: equal to no other."""

    def __init__(self, item: Item) -> None:
        self.item = item
