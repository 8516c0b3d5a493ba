"""Sink that archives a stream by commits of rows."""

from __future__ import annotations

from asyncio import CancelledError
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
from jetarrow.jetstream.sinks.durable_source import DurableSource
from jetarrow.jetstream.sinks.rows import Shape
from jetarrow.jetstream.sinks.source import RangeSource
from jetarrow.jetstream.sinks.state import SinkResult, State


class Commit(Protocol):
    """Commit of rows to a table."""

    def add(self, batch: Any, corrupt: Any, seqs: Any) -> None:
        """Add rows."""

    def finish(self, state: State) -> SinkResult:
        """Commit the rows together with the position."""

    def abort(self) -> None:
        """Discard the rows."""


class Target(Protocol):
    """Table with a position. Its methods block, and are called by one thread."""

    def open(self) -> State | None:
        """Open the table and return its position."""

    def position(self) -> State | None:
        """Return the position in the table without opening it; another writer may use it."""

    def begin(self) -> Commit:
        """Start a commit."""

    def compact(self) -> int:
        """Compact small files and return the decrease of their number."""

    def close(self) -> None:
        """Close the table and release its lock."""

    def abandon(self) -> None:
        """Stop using the table without any request."""


# Opens the source of rows after a position, and their converter.
Begin = Callable[[State | None], Awaitable[tuple["RangeSource | DurableSource", Shape]]]
# Counts the messages that are not archived at a position.
CountLag = Callable[[State | None], Awaitable[int]]


class Sink:
    """Writes a stream to a table exactly once. Created by `js.to_parquet` and its siblings; opened at first use.

    `run()` ends with the stream's present messages, or never with `follow=True`. `step()` makes one commit. The end of
    an `async with` block closes the sink.
    """

    def __init__(
        self,
        session: Session,
        stream: str,
        target: Target,
        begin: Begin,
        count_lag: CountLag,
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
        self._begin, self._count_lag = begin, count_lag
        self._rows, self._seconds = rows, seconds
        self._on_rollback = on_rollback
        self._report = progress_bar("archiving") if progress is True else progress or None
        self._source: RangeSource | DurableSource | None = None
        self._shape: Shape | None = None
        self._closing = False
        self._closed = False
        self._busy = session.lock()
        # A sink that is garbage collected without `close` must not hold its lock forever.
        self._forget = finalize(self, target.abandon)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of stream {self._stream} to {self._target}{', closed' * self._closed}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Sink belongs to its connection and cannot be pickled or copied")

    async def run(self) -> SinkResult:
        """Writes all messages in commits, and closes the sink; with `follow=True` it continues until `close`.

        Returns:
            The totals of all commits.

        Raises:
            SinkLockedError: Another writer has locked the folder.
            SinkSchemaError: The table has other columns.
            SinkError: The file system returned an error, such as no space or no permission.
            DataLossError: The stream has lost messages after the position.
            StreamRecreatedError: The stream was deleted and created again.
            StreamRolledBackError: The stream was rolled back behind the position, and `on_rollback` is "fail".
            NotFoundError: The stream does not exist.
            Error: The sink is closed.
            KeyboardInterrupt: Ctrl-C. Its attribute `partial` has the totals of the commits so far; the rows of the
                current commit are not written. `asyncio.CancelledError` has it too.
        """
        done = SinkResult()
        self._check_open()
        try:
            while not self._closed:
                # Another thread may close the sink between two steps.
                done = done.plus(await self._step(SinkResult()))
                if self._closing or (self._source is not None and self._source.finished):
                    break
            return done
        except (KeyboardInterrupt, CancelledError) as error:
            error.partial = done  # type: ignore[union-attr]
            raise
        finally:
            await self.close()

    async def step(self) -> SinkResult:
        """Makes one commit of at most `rows` rows, after at most `seconds` seconds; none if no message arrives.

        Returns:
            The result of the commit; no rows if no message arrived.

        Raises:
            SinkError: As `run`, like the other errors. Committed rows are kept; the next step opens the folder again
                and resumes at the last commit.
        """
        return await self._step()

    def _check_open(self) -> None:
        if self._closed:
            raise Error(f"could not use this sink of stream {self._stream!r}: it is closed; create another one")

    async def _step(self, closed: SinkResult | None = None) -> SinkResult:
        """Make one commit.

        Args:
            closed: Result if the sink is closed; None raises.
        """
        with await self._busy.turn():
            if self._closed and closed is not None:
                return closed
            self._check_open()
            with WorkerThread(self._session) as worker:
                return await self._commit(worker)

    async def _opened(self, worker: WorkerThread) -> tuple[RangeSource | DurableSource, Shape]:
        if self._source is None or self._shape is None:
            try:
                state = await worker.done(worker.start(self._target.open))
                self._source, self._shape = await self._begin(state)
            except BaseException:
                # The target may be open even if the caller was cancelled.
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
            # A batch is written while the next one is received.
            writing = None
            async for batch in source.rows(self._rows, self._seconds, lambda: self._closing):
                if writing is not None:
                    count += await worker.done(writing)
                writing = worker.start(add, batch)
                self._report_progress(source)
            if writing is not None:
                count += await worker.done(writing)
            state = await source.state()
            # A new epoch is committed even without rows.
            made = count or source.is_rolled_back
            result = await worker.done(worker.start(commit.finish, state)) if made else SinkResult()
        except BaseException as error:
            given_up = worker.start(commit.abort)
            await self._reset(worker)
            await worker.done(given_up)
            if isinstance(error, StreamRolledBackError) and self._on_rollback != "fail":
                # The next step opens the target again and resumes after the rollback.
                return SinkResult()
            raise
        source.is_rolled_back = False
        try:
            if made:
                await source.committed(state)
            elif isinstance(source, DurableSource):
                # Messages that were redelivered and are already written.
                await source.again()
        except StreamRolledBackError:
            # The commit is durable; messages delivered before the rollback are not acknowledged.
            await self._reset(worker)
            if self._on_rollback == "fail":
                raise
        self._report_progress(source)
        return result

    async def _reset(self, worker: WorkerThread) -> None:
        """Close source and target, so that the next step reads the position from the target again.

        A commit whose response was lost is in that position.
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

    async def lag(self) -> int:
        """Counts the messages of the stream that the table does not have, also while another process writes it.

        Rows of the current commit count as missing. Without `durable` the server counts the messages after the table's
        position that `subjects` selects. With it they are the consumer's messages that are not acknowledged.

        Returns:
            The number of messages; 0 if the table is complete.

        Raises:
            StreamRecreatedError: The stream was deleted and created again since the last commit.
            StreamRolledBackError: The stream ends before the position.
            NotFoundError: The stream does not exist.
            SinkError: As `run`.
        """
        source = self._source
        if source is not None:
            return await self._count_lag(source.position)
        with WorkerThread(self._session) as worker:
            return await self._count_lag(await worker.done(worker.start(self._target.position)))

    async def compact(self) -> int:
        """Compacts the small files of finished folders to larger ones of at most `rows` rows.

        With `partition_by` a folder is finished if the newest commit has no files in it; without it all files are
        compacted. Concurrent readers of a Parquet folder may see rows twice; a Delta table uses a transaction.

        Returns:
            The decrease of the number of files.

        Raises:
            SinkError: As `run`.
            UnsupportedError: The table is one of Iceberg, which other programs compact.
        """
        with await self._busy.turn():
            self._check_open()
            with WorkerThread(self._session) as worker:
                await self._opened(worker)
                try:
                    return await worker.done(worker.start(self._target.compact))
                except BaseException:
                    await self._reset(worker)
                    raise

    async def close(self) -> None:
        """Closes the sink: completes the current commit and releases the folder. Further calls have no effect."""
        self._closing = True
        if (source := self._source) is not None:
            await source.interrupt()
        with await self._busy.turn():
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
