"""Execution of a ledger's decisions: acknowledgements and dead letters."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Coroutine
from typing import Any, Protocol

from jetarrow.core.errors import Error, TimeoutError
from jetarrow.core.session import Session
from jetarrow.workers.counters import WorkerMetrics
from jetarrow.workers.dead_letter import MAX_REASON, DeadLetterStore
from jetarrow.workers.ledger import Decision, Item, Ledger, Step
from jetarrow.workers.plan import Plan

log = logging.getLogger("jetarrow.worker")

# Seconds to wait for the confirmation of an ack, before it is sent again.
CONFIRM_TIME = 5.0


class Context(Protocol):
    """The caller's way to wait: on the event loop, or by blocking its thread."""

    loop: Any

    async def wait(self, call: Any) -> None:
        """Waits for a native call."""

    async def store(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for a coroutine of the JetStream context."""


class Settlement:
    """The part of a worker that sends acks and stores dead letters."""

    plan: Plan
    session: Session
    ledger: Ledger
    lock: threading.Lock
    metrics: WorkerMetrics
    dead_letters: DeadLetterStore
    is_batch: bool
    unstored: str | None

    def acknowledge(self, decisions: tuple[Decision, ...], context: Context) -> bool:
        """Sends the ack of one handled message, the usual case, without a coroutine; False if `settle` is needed."""
        if len(decisions) != 1 or decisions[0].step is not Step.ACK or self.is_batch or self.plan.confirm:
            return False
        message = decisions[0].item.message
        if message._claim():
            try:
                self.session.native.ack_one(context.loop, message.reply, "ack")
            except Error as error:
                # The server redelivers it.
                log.warning("could not send ack for %s: %s", self.name_of(decisions[0].item), error)
        return True

    async def settle(self, decisions: tuple[Decision, ...], context: Context) -> None:
        """Executes decisions, and those that follow from them."""
        todo = list(decisions)
        while todo:
            decision = todo.pop(0)
            item = decision.item
            if decision.step is Step.BURY:
                todo = [*await self._bury(item, context), *todo]
            elif decision.step is Step.ACK and self.plan.confirm:
                await self._confirm(item, context)
                with self.lock:
                    todo = [*self.ledger.settled(item), *todo]
            elif decision.step is Step.TERM:
                await self._send(
                    decision, self.dead_letters.final_ack, context, reason=item.reason and item.reason[:MAX_REASON]
                )
            elif decision.step is Step.NAK:
                self.metrics.returned += len(decision.rows or item.seqs) if self.ledger.is_stopping else 0
                await self._send(decision, "nak", context, delay=decision.delay or None)
            elif decision.step is Step.ACK:
                await self._send(decision, "ack", context)

    async def _send(self, decision: Decision, kind: str, context: Context, **options: Any) -> None:
        if kind == "ack":
            options = {}
        item, native = decision.item, self.session.native
        try:
            if self.is_batch:
                await context.wait(native.ack_rows(item.message._native, kind, decision.rows, **options))
            elif item.message._claim():
                native.ack_one(context.loop, item.message.reply, kind, **options)
        except (Error, ValueError) as error:
            # The server redelivers it.
            log.warning("could not send %s for %s: %s", kind, self.name_of(item), error)

    async def _confirm(self, item: Item, context: Context) -> None:
        """Sends an ack until the server confirms it, or the drain times out."""
        if not self.is_batch and not item.message._claim():
            return
        while not item.is_abandoned:
            native = self.session.native
            try:
                if self.is_batch:
                    await context.wait(native.ack_rows(item.message._native, "ack", None, confirm=CONFIRM_TIME))
                else:
                    await context.wait(native.ack([item.message.reply], "ack", confirm=CONFIRM_TIME))
            except TimeoutError as error:
                log.warning("the ack of %s is not confirmed yet: %s", self.name_of(item), error)
            except Error as error:
                log.warning("could not confirm the ack of %s: %s", self.name_of(item), error)
                return
            else:
                return

    async def _bury(self, item: Item, context: Context) -> tuple[Decision, ...]:
        reason = item.reason or ""
        try:
            await context.store(self.dead_letters.store(item, reason))
        except Exception as error:
            self.unstored = f"{type(error).__name__}: {error}"
            log.error(
                "could not store the dead letter of %s, so the message is kept and retried: %s",
                self.name_of(item),
                error,
            )
            with self.lock:
                self.metrics.unstored += 1
                return self.ledger.not_stored(item, time.monotonic())
        self.unstored = None
        log.error("%s is a dead letter: %s", self.name_of(item), reason)
        with self.lock:
            self.metrics.dead += len(item.seqs)
            return self.ledger.stored(item)

    def name_of(self, item: Item) -> str:
        """A message or a batch, for the log."""
        seqs = item.seqs
        which = f"message {seqs[0]}" if len(seqs) == 1 else f"batch of {len(seqs)} messages from {seqs[0]}"
        return f"{which} of stream {self.plan.stream!r} (consumer {self.plan.durable!r})"
