"""What archives a stream: rows in, commits out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, Protocol
from weakref import finalize

from jetarrow.core.errors import Error
from jetarrow.core.session import Session
from jetarrow.jetstream.errors import SinkError, StreamRolledBackError
from jetarrow.jetstream.literals import OnRollback
from jetarrow.jetstream.objects.worker_thread import WorkerThread
from jetarrow.jetstream.progress import Progress, progress_bar
from jetarrow.jetstream.sinks.rows import Shape
from jetarrow.jetstream.sinks.source import DurableSource, RangeSource
from jetarrow.jetstream.sinks.state import SinkResult, State


class Commit(Protocol):
    """Rows on their way into a table."""

    def add(self, batch: Any, corrupt: Any, seqs: Any) -> None:
        """Adds rows."""

    def finish(self, state: State) -> SinkResult:
        """Makes them count, and the position with them."""

    def abort(self) -> None:
        """Gives them up."""


class Target(Protocol):
    """A table with a position. All of it blocks, and is used in one thread."""

    def open(self) -> State | None:
        """The position."""

    def begin(self) -> Commit:
        """A commit."""

    def compact(self) -> int:
        """Joins small files."""

    def close(self) -> None:
        """Lets go of it."""

    def abandon(self) -> None:
        """Lets go of it without another word."""


# What rows there are from a position on, and how they are shaped.
Begin = Callable[[State | None], Awaitable[tuple["RangeSource | DurableSource", Shape]]]


class Sink:
    """Writes a stream into a table exactly once. Made by `js.to_parquet` and `js.to_delta`; opened at the first use.

    `run()` goes to the end, or on for ever with `follow=True`; `step()` makes one commit. `async with` closes it.
    """

    def __init__(
        self,
        session: Session,
        stream: str,
        target: Target,
        begin: Begin,
        *,
        rows: int,
        seconds: float,
        progress: Progress | bool | None,
        on_rollback: OnRollback = "fail",
    ) -> None:
        if rows < 1:
            raise ValueError(f"rows must be 1 or more, not {rows}")
        if not seconds > 0:
            raise ValueError(f"seconds must be positive, not {seconds}")
        self._session = session
        self._stream = stream
        self._target = target
        self._begin = begin
        self._rows, self._seconds = rows, seconds
        self._on_rollback = on_rollback
        self._report = progress_bar("archiving") if progress is True else progress or None
        self._source: RangeSource | DurableSource | None = None
        self._shape: Shape | None = None
        self._closing = False
        self._closed = False
        self._busy = session.lock()
        # What was thrown away without `close` must not keep its folder for ever.
        self._forget = finalize(self, target.abandon)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of stream {self._stream} to {self._target}{', closed' * self._closed}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Sink belongs to its connection and cannot be pickled or copied")

    async def run(self) -> SinkResult:
        """Writes all there is, commit after commit, and closes the sink; with `follow=True` it goes on until `close`.

        Returns:
            What was written in all.

        Raises:
            SinkLockedError: Another writer has the folder.
            SinkSchemaError: The table has other columns.
            SinkError: The file system refuses: no room, no permission.
            DataLossError: The stream no longer has what comes after the position.
            StreamRecreatedError: The stream was deleted and created again.
            StreamRolledBackError: The stream went back behind the position, and `on_rollback` is "fail".
            NotFoundError: There is no such stream.
            Error: The sink was closed before.
        """
        done = SinkResult()
        try:
            while True:
                done = done.plus(await self._step())
                if self._closing or (self._source is not None and self._source.finished):
                    return done
        finally:
            await self.close()

    async def step(self) -> SinkResult:
        """Makes one commit: at most `rows` rows, of at most `seconds` seconds. None is made where nothing came.

        Returns:
            What was written; no rows where nothing came.

        Raises:
            SinkError: As `run`, like the other errors. What was committed before stays; the next step opens the folder
                again, and goes on from there.
        """
        return await self._step()

    async def _step(self) -> SinkResult:
        async with self._busy:
            if self._closed:
                raise Error(f"this sink of stream {self._stream!r} is closed: make another one")
            with WorkerThread(self._session) as worker:
                return await self._commit(worker)

    async def _opened(self, worker: WorkerThread) -> tuple[RangeSource | DurableSource, Shape]:
        if self._source is None or self._shape is None:
            try:
                state = await worker.done(worker.start(self._target.open))
                self._source, self._shape = await self._begin(state)
            except BaseException:
                # Also where nobody waited for it any more, and it was opened all the same.
                await self._reset(worker)
                raise
        return self._source, self._shape

    async def _commit(self, worker: WorkerThread) -> SinkResult:
        source, shape = await self._opened(worker)
        commit: Commit = self._target.begin()

        def add(batch: Any) -> int:
            rows, corrupt = shape.split(batch)
            commit.add(rows, corrupt, rows.column("seq"))
            return int(batch.num_rows)

        count = 0
        try:
            # A batch is written while the next one comes.
            writing = None
            async for batch in source.rows(self._rows, self._seconds, lambda: self._closing):
                if writing is not None:
                    count += await worker.done(writing)
                    self._report_progress(source)
                writing = worker.start(add, batch)
            if writing is not None:
                count += await worker.done(writing)
            state = await source.state()
            # A new epoch counts also without rows.
            made = count or source.is_rolled_back
            result = await worker.done(worker.start(commit.finish, state)) if made else SinkResult()
        except BaseException as error:
            given_up = worker.start(commit.abort)
            await self._reset(worker)
            await worker.done(given_up)
            if isinstance(error, StreamRolledBackError) and self._on_rollback != "fail":
                # Opened again, it learns where to go on.
                return SinkResult()
            raise
        source.is_rolled_back = False
        try:
            if made:
                await source.committed(state)
            elif isinstance(source, DurableSource):
                # What was delivered again, and is written already.
                await source.again()
        except StreamRolledBackError:
            # It is written; what was delivered before the stream went back is not acknowledged.
            await self._reset(worker)
            if self._on_rollback == "fail":
                raise
        self._report_progress(source)
        return result

    async def _reset(self, worker: WorkerThread) -> None:
        """Forgets where it was; whoever opens the target again learns it there.

        A commit of which only the last word was not heard has been made.
        """
        source, self._source, self._shape = self._source, None, None
        closed = worker.start(self._target.close)
        if source is not None:
            await source.close()
        with suppress(SinkError):
            await worker.done(closed)

    def _report_progress(self, source: RangeSource | DurableSource) -> None:
        if self._report is not None:
            self._report(*source.progress)

    async def compact(self) -> int:
        """Joins the small files of finished folders into larger ones, of at most `rows` rows.

        With `partition_by` a folder is finished when the newest commit has written nothing there; without it all files
        count. Whoever reads the folder at this moment may see rows twice; a Delta table does it in a transaction.

        Returns:
            How many files there are fewer.

        Raises:
            SinkError: As `run`.
        """
        async with self._busy:
            if self._closed:
                raise Error(f"this sink of stream {self._stream!r} is closed: make another one")
            with WorkerThread(self._session) as worker:
                await self._opened(worker)
                try:
                    return await worker.done(worker.start(self._target.compact))
                except BaseException:
                    await self._reset(worker)
                    raise

    async def close(self) -> None:
        """Ends the sink: the commit under way is finished, and the folder is free for others. Again does nothing."""
        self._closing = True
        if (source := self._source) is not None:
            await source.interrupt()
        async with self._busy:
            if self._closed:
                return
            self._closed = True
            self._forget.detach()
            if self._source is not None:
                with WorkerThread(self._session) as worker:
                    await self._reset(worker)

    async def __aenter__(self) -> Sink:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
