"""Pipe that makes one stream of another by a function."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn

from jetarrow.core.errors import Error
from jetarrow.jetstream.errors import StreamRolledBackError
from jetarrow.jetstream.kv.key_values import KeyValues
from jetarrow.jetstream.objects.worker_thread import WorkerThread
from jetarrow.jetstream.pipe_errors import PipeError
from jetarrow.jetstream.pipes.opening import Opening
from jetarrow.jetstream.pipes.options import PipeOptions, PipeResult
from jetarrow.jetstream.pipes.step import Step, check_replay, kept
from jetarrow.jetstream.pipes.steps import Steps
from jetarrow.jetstream.pipes.tables import PipeTables
from jetarrow.jetstream.pipes.target import PipeTarget, StoredPosition
from jetarrow.jetstream.pipes.work import Work
from jetarrow.jetstream.progress import Progress, progress_bar
from jetarrow.jetstream.read import ReadVerbs
from jetarrow.jetstream.sinks.begin import begin
from jetarrow.jetstream.sinks.lag import Start, count_lag
from jetarrow.jetstream.sinks.source import RangeSource
from jetarrow.jetstream.sinks.state import State

# Seconds between two notes of the position.
_NOTE = 10.0


class Pipe:
    """Makes one stream of another by a function, exactly once. Created by `js.pipe`; opened at first use.

    `run()` ends with the source's present messages, or never with `follow=True`. `step()` makes one step. The end of
    an `async with` block closes the pipe.
    """

    def __init__(
        self,
        js: KeyValues,
        source: str,
        target: PipeTarget,
        work: Work,
        *,
        name: str,
        tables: Mapping[str, object],
        options: PipeOptions,
        progress: Progress | bool | None,
    ) -> None:
        self._js, self._session = js, js._api.session
        self._source_name, self._target, self._name = source, target, name
        self._work, self._options = work, options
        if work.is_coroutine and self._session.is_blocking:
            raise TypeError(
                "the function of a pipe of jetarrow.sync must not be a coroutine function: give a plain one"
            )
        self._tables = PipeTables(js._api, tables)
        self._report = progress_bar("piping") if progress is True else progress or None
        self._steps: Steps | None = None
        self._opening: Opening | None = None
        self._noted = 0.0
        self._closing = self._closed = False
        self._busy = self._session.lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name} of stream {self._source_name} to {self._target.stream}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Pipe belongs to its connection and cannot be pickled or copied")

    @property
    def name(self) -> str:
        """The name, under which the position is kept."""
        return self._name

    async def run(self) -> PipeResult:
        """Processes all messages, and closes the pipe; with `follow=True` it continues until `close`.

        Rows are read and processed while the messages of the step before are stored.

        Returns:
            The totals of all steps.

        Raises:
            PipeFencedError: Another instance with this name has started.
            PipeReplayError: The function gives other messages for the same rows than before an interruption.
            PipePositionLostError: The target has lost the position.
            PipeError: The function failed and `on_error` is "fail", or the target refuses a message.
            DataLossError: The source has lost messages after the position.
            StreamRecreatedError: The source or the target was deleted and created again.
            StreamRolledBackError: The source or the target was rolled back, and `on_rollback` is "fail".
            UnsupportedError: The target does not take atomic batches.
            NotFoundError: A stream does not exist.
            Error: The pipe is closed.
            KeyboardInterrupt: Ctrl-C. Its attribute `partial` has the totals of the steps so far; the current step may
                be stored, which the next start finds. `asyncio.CancelledError` has it too.
        """
        done = PipeResult()
        self._check_open()
        try:
            while not self._closed:
                with await self._busy.turn():
                    if self._closed:
                        break
                    try:
                        done = await self._run(done)
                    except StreamRolledBackError as error:
                        if self._options.on_rollback == "fail":
                            raise
                        done = error.partial  # type: ignore[attr-defined]
                        continue
                break
            return done
        except (KeyboardInterrupt, CancelledError) as error:
            error.partial = getattr(error, "partial", done)  # type: ignore[union-attr]
            raise
        finally:
            await self.close()

    async def _run(self, done: PipeResult) -> PipeResult:
        try:
            with WorkerThread(self._session) as caller, WorkerThread(self._session) as sender:
                steps, rest = await self._opened(caller, sender)
                done = done.plus(rest)
                under_way = None
                while True:
                    failure: BaseException | None = None
                    step: Step | None = None
                    try:
                        step = await steps.prepare(caller, lambda: self._closing)
                    except Exception as error:
                        # The step before is settled first.
                        failure = error
                    if under_way is not None:
                        done = done.plus(await steps.settle(sender, *under_way))
                        under_way = None
                        await self._settled(steps)
                    if failure is not None:
                        raise failure
                    if step is not None:
                        under_way = steps.send(sender, step)
                    elif self._closing or steps.source.finished:
                        return done
        except BaseException as error:
            error.partial = done  # type: ignore[attr-defined]
            await self._reset()
            raise

    async def step(self) -> PipeResult:
        """Makes one step of at most `rows` rows, after at most `seconds` seconds; none if no message arrives.

        Returns:
            The result of the step; no rows if no message arrived.

        Raises:
            PipeError: As `run`, like the other errors. Stored steps are kept; the next step resumes at the position.
        """
        self._check_open()
        with await self._busy.turn():
            self._check_open()
            try:
                with WorkerThread(self._session) as caller, WorkerThread(self._session) as sender:
                    steps, rest = await self._opened(caller, sender)
                    if rest.last_seq is not None:
                        return rest
                    step = await steps.prepare(caller, lambda: self._closing)
                    if step is None:
                        return PipeResult()
                    result = await steps.settle(sender, *steps.send(sender, step))
                    await self._settled(steps)
                    return result
            except BaseException as error:
                await self._reset()
                if isinstance(error, StreamRolledBackError) and self._options.on_rollback != "fail":
                    # The next step resumes after the rollback.
                    return PipeResult()
                raise

    async def _opened(self, caller: WorkerThread, sender: WorkerThread) -> tuple[Steps, PipeResult]:
        """Return the steps, and the result of one that was stored in part before."""
        if self._steps is not None:
            return self._steps, PipeResult()
        options = self._options
        opening = Opening(self._js, self._name, self._source_name, self._target, on_rollback=options.on_rollback)
        found = await opening.find()
        if options.on_error == "dead_letter" and not self._target.dead_letters:
            raise PipeError(
                f"could not open pipe {self._name!r}: stream {self._target.stream!r} has no subject with a wildcard for"
                " dead letters; give dead_letter_subject, one of its subjects"
            )
        source, shape = await self._source(None if found is None else found.position.state)
        position = opening.first(source.position.created) if found is None else found.position
        # The source has the schema, and may have been rolled back.
        state = kept(source.position, options)
        if state.epoch != position.state.epoch:
            # Parts of a step whose rows the source does not have any more remain.
            position = position.after(state)
        position = replace(position, state=state)
        stored = await opening.claim(position, 0 if found is None else found.seq)
        if stored.position.state.last_seq != source.position.last_seq or stored.position.is_partial:
            await source.close()
            source, shape = await self._source(stored.position.state)
        source.is_rolled_back = False
        self._opening = opening
        made = PipeResult()
        steps = self._new_steps(source, shape, stored)
        if stored.position.is_partial:
            made = await self._finish(steps, stored, caller, sender)
            await source.close()
            source, shape = await self._source(steps.stored.position.state)
            steps = self._new_steps(source, shape, steps.stored)
        self._steps = steps
        return steps, made

    def _new_steps(self, source: RangeSource, shape: Any, stored: StoredPosition) -> Steps:
        return Steps(
            self._js._api,
            source,
            shape,
            self._target,
            work=self._work,
            tables=self._tables,
            options=self._options,
            stored=stored,
        )

    async def _source(self, state: State | None) -> tuple[RangeSource, Any]:
        assert isinstance(self._js, ReadVerbs), "a context has the verbs of reads"
        label = f"pipe {self._name!r}"
        source, shape = await begin(self._js, self._source_name, self._options.source, label, state)
        assert isinstance(source, RangeSource), "a pipe has no durable consumer"
        return source, shape

    async def _finish(
        self, steps: Steps, stored: StoredPosition, caller: WorkerThread, sender: WorkerThread
    ) -> PipeResult:
        """Store the parts of a step that an interruption left."""
        position, source = stored.position, steps.source
        source.end_at(position.end_seq)
        batches: list[Any] = []
        while not source.finished:
            batches += [batch async for batch in source.rows(1 << 62, 60.0, lambda: False)]
        step = await steps.process(caller, batches, position.tables)
        step.state = replace(step.state, last_seq=max(step.state.last_seq, position.end_seq))
        check_replay(step, position)
        return await steps.settle(sender, *steps.send(sender, step, stored=len(position.parts)))

    async def _settled(self, steps: Steps) -> None:
        """Note the position now and then, and report the progress."""
        if self._report is not None:
            self._report(*steps.source.progress)
        if self._session.now() - self._noted > _NOTE:
            self._noted = self._session.now()
            await self._note()

    async def _note(self) -> None:
        if self._opening is not None and self._steps is not None:
            # Without it a rollback of the target is not recognized, and nothing is lost.
            with suppress(Error, TimeoutError):
                found = await self._target.read()
                if found is not None and found.position.instance == self._opening.instance:
                    await self._opening.note(found)

    async def lag(self) -> int:
        """Counts the messages of the source that are not processed, also while another process runs the pipe.

        Returns:
            The number of messages that `subjects` selects; 0 if everything is processed.

        Raises:
            StreamRecreatedError: The source was deleted and created again since the last step.
            StreamRolledBackError: The source ends before the position.
            NotFoundError: A stream does not exist.
        """
        source = self._options.source
        await self._target.open()
        found = await self._target.read()
        start = Start(source.start_seq, source.start_time, tuple(source.subjects or ()), None)
        state = None if found is None else found.position.state
        return await count_lag(self._js._api, self._source_name, start, state)

    async def reset(self, seq: int) -> None:
        """Starts the pipe anew: the next step begins with this message. Messages of the target remain.

        Rows that were processed before are processed again if they come after it, and their messages are stored twice.

        Args:
            seq: Sequence of the first message to process, 1 or more.

        Raises:
            ValueError: It is less than 1.
            UnsupportedError: The target does not take atomic batches.
            NotFoundError: A stream does not exist.
        """
        if seq < 1:
            raise ValueError(f"seq must be 1 or more, not {seq}")
        self._check_open()
        with await self._busy.turn():
            await self._reset()
            opening = Opening(self._js, self._name, self._source_name, self._target, on_rollback="continue")
            found = await opening.find(reset=True)
            source, _ = await self._source(None)
            position = opening.first(source.position.created)
            await source.close()
            position = replace(position, state=replace(position.state, last_seq=seq - 1))
            await opening.claim(position, 0 if found is None else found.seq, replaces=True)

    async def _reset(self) -> None:
        """Close the source, so that the next step reads the position again."""
        steps, self._steps = self._steps, None
        if steps is not None:
            await steps.source.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Error(f"could not use pipe {self._name!r}: it is closed; create another one")

    async def close(self) -> None:
        """Closes the pipe after the current step. Further calls have no effect."""
        self._closing = True
        if self._steps is not None:
            await self._steps.source.interrupt()
        with await self._busy.turn():
            if self._closed:
                return
            self._closed = True
            await self._note()
            await self._reset()

    async def __aenter__(self) -> Pipe:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
