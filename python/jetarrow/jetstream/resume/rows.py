"""Messages of a load, read in steps from an encoded table."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from jetarrow.jetstream.arrow import ArrowProducer, needs_pyarrow
from jetarrow.jetstream.errors import ResumeError

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")
# Messages whose subjects and payloads identify a table.
HEAD = 1_000
# Columns of encoded messages: see `TableMessages`.
REASON = "__jetarrow_error"


class OffLoop(Protocol):
    """Starts a blocking function, which reads a table, in another thread."""

    def __call__(self, work: Callable[[], _T], /) -> Awaitable[_T]:
        """Start the function; the result is awaited."""


class _Blocking(Generic[_T]):
    """The result of a function in another thread, for a session without an event loop."""

    def __init__(self, future: Future[_T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, _T]:
        return self._future.result()
        yield


class ReadThread:
    """A thread that reads a table: the next step while one is published, and without signals.

    Ctrl-C in a Python generator that Arrow calls would become an error of Arrow.

    Args:
        loop: The event loop; None without one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(1, "jetarrow-load")

    def __call__(self, work: Callable[[], _T], /) -> Awaitable[_T]:
        """Start the function; the result is awaited."""
        future = self._executor.submit(work)
        # A step that was read ahead may fail after the load has ended.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return _Blocking(future) if self._loop is None else asyncio.wrap_future(future, loop=self._loop)

    def close(self) -> None:
        """End the thread after the step that it reads."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class MessageRows:
    """Encoded messages, taken in steps from the front.

    Args:
        messages: A stream of tables with the columns `data`, `subject`, `msg_id` and `__jetarrow_error`.
        ids: Origin of the message ids: "row", "content" or "column NAME".
    """

    def __init__(self, messages: ArrowProducer, ids: str) -> None:
        self._pa = needs_pyarrow("publish_table(resume=)")
        reader = self._pa.RecordBatchReader.from_stream(messages)
        self._schema = reader.schema
        self._batches: Iterator[pa.RecordBatch] = iter(reader)
        self._held: list[pa.RecordBatch] = []
        self._is_at_end = False
        self._ids = ids
        self.row = 0

    def _fill(self, rows: int) -> None:
        """Read until this number of rows is held, or to the end."""
        held = sum(batch.num_rows for batch in self._held)
        while held < rows and not self._is_at_end:
            batch = next(self._batches, None)
            if batch is None:
                self._is_at_end = True
            else:
                self._held.append(batch)
                held += batch.num_rows

    def head(self) -> tuple[list[str], list[str]]:
        """Return a hash of the first n messages for each n up to 1,000, and their distinct subjects.

        It is called before the first `take`.
        """
        self._fill(HEAD)
        table = self._pa.Table.from_batches(self._held, self._schema).slice(0, HEAD)
        digest = hashlib.sha256()
        digests = [digest.hexdigest()]
        subjects: dict[str, None] = {}
        for subject, data in zip(table["subject"].to_pylist(), table["data"].to_pylist(), strict=True):
            for part in (subject and subject.encode(), data):
                digest.update(b"-" if part is None else b"%d:" % len(part) + part)
            digests.append(digest.hexdigest())
            if subject is not None:
                subjects[subject] = None
        return digests, list(subjects)

    def skip(self, row: int) -> None:
        """Discard the messages before a row.

        Args:
            row: The row.

        Raises:
            ResumeError: There are fewer rows.
        """
        while self.row < row:
            self._fill(1)
            if not self._held:
                raise ResumeError(
                    f"could not resume at row {row:,}: the table has only {self.row:,}; give the table of the first"
                    " run, or another name for another table"
                )
            first = self._held.pop(0)
            wanted = row - self.row
            if wanted < first.num_rows:
                self._held.insert(0, first.slice(wanted))
            self.row += min(wanted, first.num_rows)

    def take(self, rows: int, token: str) -> pa.Table:
        """Return the next messages with their ids; an empty table at the end.

        Args:
            rows: Most messages.
            token: Prefix of ids of origin "row".

        Raises:
            ResumeError: A message has no id.
        """
        pa, pc = self._pa, self._compute
        self._fill(rows)
        table = pa.Table.from_batches(self._held, self._schema)
        step = table.slice(0, rows)
        self._held = table.slice(rows).to_batches()
        first, self.row = self.row, self.row + step.num_rows
        if self._ids == "row":
            numbers = pc.cast(pa.array(range(first, self.row), pa.int64()), pa.string())
            ids = pc.binary_join_element_wise(f"{token}.", numbers, "")
            return step.set_column(step.column_names.index("msg_id"), "msg_id", ids)
        # A rejected row is not sent, and needs no id.
        missing = pc.and_(pc.is_null(step["msg_id"]), pc.is_null(step[REASON]))
        if pc.any(missing).as_py():
            row = first + pc.index(missing, True).as_py()
            raise ResumeError(
                f"could not send row {row:,}: it has no message id in {self._ids}, by which a later run would"
                " recognize it; leave out msg_id, so that each row gets an id of its number"
            )
        return step

    @property
    def _compute(self) -> Any:
        import pyarrow.compute

        return pyarrow.compute
