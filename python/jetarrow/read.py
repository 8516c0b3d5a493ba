"""Reading a range of a stream."""

from __future__ import annotations

import time
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jetarrow import _jetarrow
from jetarrow._run import blocked, finish
from jetarrow.batch import MessageBatch
from jetarrow.errors import UnsupportedError
from jetarrow.js._base import to_rfc3339
from jetarrow.publish import Progress, progress_bar

if TYPE_CHECKING:
    import pyarrow

    from jetarrow.aio.client import Client

DEFAULT_FETCH_BYTES = 16 * 1024 * 1024
MOST_FETCH_BYTES = 32 * 1024 * 1024
TIMESTAMP_UNITS = ("ns", "us")
ON_DATA_LOSS = ("error", "warn")


class Reader:
    """Reads `[start, end)` of a stream in order. Made by `js.read`; opened at the first use.

    `async for`, `async with` and `read_all` wait on the event loop; `for` and `with` block the thread, with the GIL
    released, and are for use off the loop.
    """

    def __init__(
        self,
        nc: Client,
        prefix: str,
        stream: str,
        *,
        start_seq: int | None,
        end_seq: int | None,
        start_time: datetime | str | None,
        end_time: datetime | str | None,
        subjects: str | Sequence[str] | None,
        follow: bool,
        columns: Sequence[str] | None,
        batch_rows: int,
        batch_bytes: int,
        fetch_bytes: int,
        direct: bool | None,
        timestamp_unit: str,
        on_data_loss: str,
        schema: object | None,
        mode: str,
        progress: Progress | bool | None,
    ) -> None:
        if timestamp_unit not in TIMESTAMP_UNITS:
            raise ValueError(f"timestamp_unit must be one of {', '.join(TIMESTAMP_UNITS)}, not {timestamp_unit!r}")
        if on_data_loss not in ON_DATA_LOSS:
            raise ValueError(f"on_data_loss must be one of {', '.join(ON_DATA_LOSS)}, not {on_data_loss!r}")
        for name, seq in (("start_seq", start_seq), ("end_seq", end_seq)):
            if seq is not None and seq < 0:
                raise ValueError(f"{name} must be 0 or more, not {seq}")
        if fetch_bytes < 1:
            raise ValueError(f"fetch_bytes must be 1 or more, not {fetch_bytes}")
        self._nc = nc
        self._call = nc._native.read(
            prefix,
            stream,
            start_seq=start_seq,
            end_seq=end_seq,
            start_time=None if start_time is None else to_rfc3339(start_time),
            end_time=None if end_time is None else to_rfc3339(end_time),
            subjects=[subjects] if isinstance(subjects, str) else list(subjects or ()),
            follow=follow,
            columns=columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            # The server cuts a client that it cannot write 64 MiB to.
            fetch_bytes=min(fetch_bytes, MOST_FETCH_BYTES),
            microseconds=timestamp_unit == "us",
            warn_on_loss=on_data_loss == "warn",
            direct=direct,
            schema=schema,
            mode=mode,
        )
        self._report = progress_bar("reading") if progress is True else progress or None
        self._told = 0.0
        self._follow = follow
        self._native: _jetarrow.Reader | None = None
        self._position = start_seq
        self._closed = False

    async def _open(self, run: Any) -> _jetarrow.Reader:
        if self._native is None:
            self._native = await run(self._call)
            self._position = self._native.start
        return self._native

    async def _next(self, run: Any) -> MessageBatch | None:
        if self._closed:
            return None
        native = await self._open(run)
        while isinstance(item := await run(native.next()), _jetarrow.Loss):
            warnings.warn(str(item), stacklevel=3)
        start, end = native.start, native.end
        self._position = end if item is None else (item.seqs[-1] or 0) + 1
        now = time.monotonic()
        if self._report is not None and (item is None or now - self._told >= 0.1):
            self._told = now
            self._report(self._position - start, None if self._follow else end - start)
        if item is None:
            return None
        return MessageBatch(self._nc, item)

    async def _close(self, run: Any) -> None:
        self._closed = True
        if self._native is not None:
            await run(self._native.close())

    @property
    def position(self) -> int | None:
        """The next sequence to be read; None before the first use of a reader without `start_seq`."""
        return self._position

    @property
    def created(self) -> str:
        """When the stream was created, as the server writes it: a later stream of the same name has another time."""
        return finish(self._open(blocked)).created

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema of the batches (needs pyarrow)."""
        import pyarrow

        return pyarrow.schema(self)

    def __arrow_c_schema__(self) -> object:
        return finish(self._open(blocked)).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rest of the range as an Arrow stream; waits in the reading thread with the GIL released."""
        return finish(self._open(blocked)).__arrow_c_stream__(requested_schema)

    def __aiter__(self) -> AsyncIterator[MessageBatch]:
        return self

    async def __anext__(self) -> MessageBatch:
        batch = await self._next(self._nc._run)
        if batch is None:
            raise StopAsyncIteration
        return batch

    def __iter__(self) -> Iterator[MessageBatch]:
        return self

    def __next__(self) -> MessageBatch:
        batch = finish(self._next(blocked))
        if batch is None:
            raise StopIteration
        return batch

    async def read_all(self) -> pyarrow.Table:
        """The rest of the range as one table (needs pyarrow).

        Raises:
            DataLossError: retention, a purge or a delete took messages of the range.
            StreamRecreatedError: the stream was deleted and created again meanwhile.
            NotFoundError: there is no such stream.
        """
        try:
            import pyarrow
        except ImportError:
            raise UnsupportedError("read_all()", 'pyarrow: pip install "pyarrow>=18"', "no pyarrow") from None

        schema = pyarrow.schema(await self._open(self._nc._run))
        batches = [batch.to_pyarrow() async for batch in self]
        return pyarrow.Table.from_batches(batches, schema)

    async def close(self) -> None:
        """Stops reading and removes the consumer at the server."""
        await self._close(self._nc._run)

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        finish(self._close(blocked))
