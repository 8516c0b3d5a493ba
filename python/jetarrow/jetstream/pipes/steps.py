"""Steps of an open pipe: rows are read and processed, and their messages stored with the position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from jetarrow.core.errors import ConnectionClosedError
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import needs_pyarrow
from jetarrow.jetstream.errors import (
    BatchError,
    NoStreamResponseError,
    PublishUnconfirmedError,
    ServerError,
    StreamRolledBackError,
    WrongLastSequenceError,
)
from jetarrow.jetstream.objects.worker_thread import WorkerThread
from jetarrow.jetstream.pipe_errors import PipeError, PipeFencedError, PipePositionLostError
from jetarrow.jetstream.pipes.dead import dead_letters
from jetarrow.jetstream.pipes.delivery import (
    Action,
    Delivery,
    Done,
    Fenced,
    Found,
    Look,
    Lost,
    Refused,
    RolledBack,
    Send,
)
from jetarrow.jetstream.pipes.messages import Encoder, Failure, Output
from jetarrow.jetstream.pipes.options import PipeOptions, PipeResult
from jetarrow.jetstream.pipes.parts import digest, split
from jetarrow.jetstream.pipes.position import PipePosition
from jetarrow.jetstream.pipes.step import Step, kept
from jetarrow.jetstream.pipes.tables import PipeTables
from jetarrow.jetstream.pipes.target import PipeTarget, StoredPosition
from jetarrow.jetstream.pipes.work import Work
from jetarrow.jetstream.publish_result import PublishResult
from jetarrow.jetstream.sinks.rows import Shape
from jetarrow.jetstream.sinks.source import RangeSource

# Seconds before the position is read again after a failure.
_PAUSE = 0.25
# Errors after which a batch may be stored, or which pass.
_PASSING = (TimeoutError, PublishUnconfirmedError, ServerError, NoStreamResponseError)


class Steps:
    """The steps of one opening of a pipe.

    Args:
        api: The API.
        source: The rows.
        shape: Converter of the rows.
        target: The target.
        work: The function.
        tables: The tables of the function.
        options: The options.
        stored: The position, which this instance has claimed.
    """

    def __init__(
        self,
        api: JetStreamApi,
        source: RangeSource,
        shape: Shape,
        target: PipeTarget,
        *,
        work: Work,
        tables: PipeTables,
        options: PipeOptions,
        stored: StoredPosition,
    ) -> None:
        self._api, self._session = api, api.session
        self.source, self._shape, self._target = source, shape, target
        self._work, self._tables, self._options = work, tables, options
        self.stored = stored
        self._encoder: Encoder = options.encoder([target.subject, target.dead_letters], target.stream, target.subjects)
        self._window = 8
        self._sending: Future[Any] | None = None

    async def prepare(self, thread: WorkerThread, should_stop: Callable[[], bool]) -> Step | None:
        """Read and process the rows of the next step; None if there are none."""
        batches = []
        size = 0
        async for batch in self.source.rows(self._options.rows, self._options.seconds, should_stop):
            batches.append(batch)
            size += batch.nbytes
            if size >= self._options.bytes:
                break
        if not batches:
            return None
        return await self.process(thread, batches)

    async def process(self, thread: WorkerThread, batches: list[Any], seqs: Mapping[str, int] | None = None) -> Step:
        """Process rows.

        Args:
            thread: The thread that calls the function.
            batches: The rows.
            seqs: Sequences of the tables. Default: the present ones.
        """
        pa = needs_pyarrow("a pipe")
        state = kept(await self.source.state(), self._options)
        if seqs is None:
            seqs = await self._tables.refresh()
        else:
            await self._tables.load(seqs)
        split_rows = [self._shape.split(batch) for batch in batches]
        corrupt = [bad for _, bad in split_rows if bad is not None]
        count = sum(batch.num_rows for batch in batches)
        failures = [
            Failure(seq, f"the payload could not be decoded: {reason}")
            for bad in corrupt
            for seq, reason in zip(bad.column("seq").to_pylist(), bad.column("_error").to_pylist(), strict=True)
        ]
        skipped, pipe, mode = 0, self.stored.position.pipe, self._options.mode
        if failures and mode == "FAILFAST":
            raise _failed(pipe, failures, ' mode="DROPMALFORMED" leaves such messages out')
        if mode == "DROPMALFORMED":
            skipped, failures = len(failures), []
        rows = [good for good, _ in split_rows if good.num_rows]
        output = Output(self._encoder.encode(None).messages)
        if rows:
            output = await self._call(thread, pa.Table.from_batches(rows))
        messages = output.messages
        failures += output.failures
        dead = 0
        if failures and self._options.on_error == "fail":
            raise _failed(pipe, failures, ' on_error="dead_letter" stores such messages aside, "skip" leaves them out')
        if failures and self._options.on_error == "skip":
            skipped += len(failures)
        elif failures:
            letters = await dead_letters(self._api, state.stream, failures, self._target.dead_letters)
            dead = letters.num_rows
            messages = pa.concat_tables([messages, letters])
        parts = split(messages)
        digests: tuple[str, ...] = ()
        if len(parts) > 1:
            digests = await thread.done(thread.start(lambda: tuple(map(digest, parts))))
        result = PipeResult(count, messages.num_rows - dead, dead, skipped, state.last_seq)
        return Step(parts, digests, state, seqs, result)

    async def _call(self, thread: WorkerThread, rows: Any) -> Output:
        """Return the output of the function for some rows; if it raises, each of them is a failure."""
        seqs = rows["seq"].to_pylist() if self._options.on_error != "fail" else []

        def call() -> Any:
            found = self._work(rows, self._tables.tables())
            return found if self._work.is_coroutine else self._encoder.encode(found)

        try:
            made = await thread.done(thread.start(call))
            if self._work.is_coroutine:
                made = await thread.done(thread.start(self._encoder.encode, await made))
        except PipeError:
            raise
        except Exception as error:
            if self._options.on_error == "fail":
                first, last = rows["seq"][0].as_py(), rows["seq"][-1].as_py()
                raise PipeError(
                    f"the function of pipe {self.stored.position.pipe!r} failed for messages {first} to {last} of"
                    f" stream {self.source.position.stream!r}: {type(error).__name__}: {error}"
                ) from error
            text = f"{type(error).__name__}: {error}"
            return Output(self._encoder.encode(None).messages, [Failure(seq, text) for seq in seqs])
        found: Output = made
        return found

    def send(self, thread: WorkerThread, step: Step, *, stored: int = 0) -> tuple[Step, Delivery]:
        """Start to store a step."""
        sizes = [part.num_rows + 1 for part in step.parts]
        delivery = Delivery(
            sizes, seq=self.stored.seq, last_seq=self._target.last_seq, window=self._window, stored=stored
        )
        self._start(thread, step, delivery)
        return step, delivery

    def _start(self, thread: WorkerThread, step: Step, delivery: Delivery) -> None:
        action = delivery.action
        if not isinstance(action, Send):
            return
        count = len(action.expected)
        last = action.first + count
        positions = [self._position(step, place + 1).dump() for place in range(action.first, last)]
        messages = self._target.batch(step.parts[action.first : last], positions, action.expected)
        chunk = step.parts[action.first].num_rows + 1
        call = self._target.publish(messages, chunk=min(chunk, 1_000))
        self._sending = thread.start(call.block)

    def _position(self, step: Step, stored: int) -> PipePosition:
        """Return the position after some parts of a step."""
        position = self.stored.position
        if stored == len(step.parts):
            return position.after(step.state)
        return position.part_of(step.state.last_seq, step.digests[:stored], len(step.parts), step.tables)

    async def settle(self, thread: WorkerThread, step: Step, delivery: Delivery) -> PipeResult:
        """Wait until a step is stored.

        Raises:
            PipeFencedError: Another instance has taken over.
            PipePositionLostError: The target has lost the position.
            StreamRolledBackError: The target was rolled back.
            PipeError: The target refuses a message.
        """
        failed: Exception | None = None
        stored, until = delivery.stored, self._session.now() + self._options.timeout
        while not isinstance(action := delivery.action, Done):
            if isinstance(action, Send):
                if self._sending is None:
                    self._start(thread, step, delivery)
                assert self._sending is not None, "an attempt was started"
                sending, self._sending = self._sending, None
                failed = await self._sent(thread, sending, step, delivery) or failed
            elif isinstance(action, Look):
                if action.pause:
                    if self._session.now() > until and not self._options.source.follow and failed is not None:
                        raise failed
                    await self._session.sleep(_PAUSE)
                with suppress(*_PASSING):
                    await self._look(step, delivery)
            else:
                raise self._error(action, failed)
            if delivery.stored > stored:
                stored, until = delivery.stored, self._session.now() + self._options.timeout
        self._window = delivery.window
        self._target.last_seq = delivery.last_seq
        self.stored = StoredPosition(self._position(step, len(step.parts)), delivery.seq, "")
        await self._target.written(len(step.parts))
        await self.source.committed(step.state)
        return step.result

    async def _sent(
        self, thread: WorkerThread, sending: Future[Any], step: Step, delivery: Delivery
    ) -> Exception | None:
        """Take the result of an attempt; return its error."""
        action = delivery.action
        assert isinstance(action, Send), "an attempt has a result"
        try:
            result = PublishResult(await thread.done(sending))
        except ConnectionClosedError:
            raise
        except _PASSING as error:
            delivery.sent([None] * len(action.expected), "unknown")
            return error
        seqs = result.seqs.to_pylist()
        found: list[int | None] = []
        row = -1
        for part in step.parts[action.first : action.first + len(action.expected)]:
            row += part.num_rows + 1
            found.append(seqs[row])
        if not result.errors:
            delivery.sent(found)
            return None
        cause, reason = _reason([failed.error for failed in result.errors])
        delivery.sent(found, reason)
        return cause

    async def _look(self, step: Step, delivery: Delivery) -> None:
        last = await self._target.refresh()
        found = await self._target.read()
        if found is None:
            delivery.looked(None)
            return
        position = found.position
        is_ours = position.instance == self.stored.position.instance
        stored = 0
        if position.is_partial and position.end_seq == step.state.last_seq:
            stored = len(position.parts)
        elif found.seq > self.stored.seq and position.state.last_seq == step.state.last_seq:
            stored = len(step.parts)
        delivery.looked(Found(found.seq, is_ours, stored, max(last, found.seq)))

    def _error(self, action: Action, failed: Exception | None) -> Exception:
        pipe, target = self.stored.position.pipe, self._target.stream
        match action:
            case Fenced():
                return PipeFencedError(
                    f"pipe {pipe!r} was ended: another instance with this name has taken over; run one instance of each"
                    " name, or give the other one another name"
                )
            case Lost():
                return PipePositionLostError(
                    f"pipe {pipe!r} was ended: stream {target!r} does not have its position on {self._target.subject}"
                    " any more: a limit, a purge or a delete removed it"
                )
            case RolledBack(expected, found):
                return StreamRolledBackError(target, (expected, None), (found, None))
            case Refused(part):
                error = PipeError(
                    f"stream {target!r} refuses part {part + 1} of the messages of pipe {pipe!r}: {failed}"
                )
                error.__cause__ = failed
                return error
        raise AssertionError(f"unknown action: {action!r}")


def _reason(errors: list[Exception]) -> tuple[Exception, str]:
    """Return the first error of an attempt, and whether it was the expected sequence, a refusal, or unknown."""
    # The other rows of a batch have an error that names the row for which it was rejected.
    first = next((error for error in errors if not isinstance(error, BatchError)), errors[0])
    if isinstance(first, WrongLastSequenceError):
        return first, "expected"
    return first, "unknown" if isinstance(first, _PASSING) else "refused"


def _failed(pipe: str, failures: Sequence[Failure], advice: str) -> PipeError:
    first, count = failures[0], len(failures)
    more = "" if count == 1 else f" ({count} rows failed in this step)"
    at = "a row" if first.seq is None else f"message {first.seq}"
    return PipeError(f"pipe {pipe!r} could not process {at}: {first.reason}{more};{advice}")
