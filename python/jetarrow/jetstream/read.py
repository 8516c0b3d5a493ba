"""Reading a range of a stream."""

from __future__ import annotations

import time
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING

from jetarrow import _jetarrow
from jetarrow.core.errors import Error, UnsupportedError
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.models.values import to_rfc3339
from jetarrow.jetstream.progress import Progress, progress_bar

if TYPE_CHECKING:
    import pyarrow


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
        api: JetStreamApi,
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
        bucket: str | None = None,
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
        self._session = api.session
        self._call = api.session.native.read(
            api.prefix,
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
            # Of a key-value bucket only each key's last value is read.
            latest=bucket is not None,
            bucket=bucket,
        )
        self._report = progress_bar("reading") if progress is True else progress or None
        self._told = 0.0
        self._follow = follow
        self._native: _jetarrow.Reader | None = None
        self._position = start_seq
        self._closed = False

    def _opened(self, native: _jetarrow.Reader) -> _jetarrow.Reader:
        self._native = native
        self._position = native.start
        return native

    async def _open(self) -> _jetarrow.Reader:
        return self._native or self._opened(await self._session.run(self._call))

    def _open_blocking(self) -> _jetarrow.Reader:
        return self._native or self._opened(self._call.block())

    def _take(self, native: _jetarrow.Reader, item: _jetarrow.Batch | _jetarrow.Loss | None) -> MessageBatch | None:
        """What the native reader has handed out: a batch, or a warning before it, or the end."""
        if isinstance(item, _jetarrow.Loss):
            warnings.warn(str(item), stacklevel=3)
            return None
        start, end = native.start, native.end
        self._position = end if item is None else (item.seqs[-1] or 0) + 1
        now = time.monotonic()
        if self._report is not None and (item is None or now - self._told >= 0.1):
            self._told = now
            done = self._position - start
            self._report(*((done, None) if self._follow else (min(done, end - start), end - start)))
        return None if item is None else MessageBatch(self._session, item)

    @property
    def position(self) -> int | None:
        """The next sequence to be read; None before the first use of a reader without `start_seq`."""
        return self._position

    @property
    def created(self) -> str:
        """When the stream was created, as the server writes it: a later stream of the same name has another time."""
        return self._open_blocking().created

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema of the batches (needs pyarrow)."""
        import pyarrow

        return pyarrow.schema(self)

    def __arrow_c_schema__(self) -> object:
        return self._open_blocking().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rest of the range as an Arrow stream; waits in the reading thread with the GIL released."""
        return self._open_blocking().__arrow_c_stream__(requested_schema)

    def __aiter__(self) -> AsyncIterator[MessageBatch]:
        return self

    async def __anext__(self) -> MessageBatch:
        while not self._closed:
            native = await self._open()
            item = await self._session.run(native.next())
            if item is None and self._closed:
                break
            batch = self._take(native, item)
            if batch is not None:
                return batch
            if item is None:
                break
        raise StopAsyncIteration

    def __iter__(self) -> Iterator[MessageBatch]:
        return self

    def __next__(self) -> MessageBatch:
        while not self._closed:
            native = self._open_blocking()
            item = native.next().block()
            if item is None and self._closed:
                break
            batch = self._take(native, item)
            if batch is not None:
                return batch
            if item is None:
                break
        raise StopIteration

    def changed(self) -> dict[str, int]:
        """Of a read of a bucket: the keys that changed meanwhile, and the last revision of each."""
        return {} if self._native is None else self._native.changed()

    async def read_all(self) -> pyarrow.Table:
        """The rest of the range as one table (needs pyarrow).

        Raises:
            DataLossError: Retention, a purge or a delete took messages of the range.
            StreamRecreatedError: The stream was deleted and created again meanwhile.
            NotFoundError: There is no such stream.
            Error: The reader was closed.
        """
        try:
            import pyarrow
        except ImportError:
            raise UnsupportedError("read_all()", 'pyarrow: pip install "pyarrow>=18"', "no pyarrow") from None

        schema = pyarrow.schema(await self._open())
        batches = [batch.to_pyarrow() async for batch in self]
        if self._closed:
            raise Error("the reader was closed before its range was read")
        return pyarrow.Table.from_batches(batches, schema)

    async def close(self) -> None:
        """Stops reading and removes the consumer at the server.

        Whoever waits for the next batch, in any task or thread, has reached the end; `read_all` raises `Error`.
        """
        self._closed = True
        if self._native is not None:
            await self._session.run(self._native.close())

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
        self._closed = True
        if self._native is not None:
            self._native.close().block()


class Read:
    """The verb `read` of a context."""

    _api: JetStreamApi

    def read(
        self,
        stream: str,
        *,
        start_seq: int | None = None,
        end_seq: int | None = None,
        start_time: datetime | str | None = None,
        end_time: datetime | str | None = None,
        subjects: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        schema: ArrowSchema | None = None,
        mode: str = "PERMISSIVE",
        batch_rows: int = 65536,
        batch_bytes: int = 16 * 1024 * 1024,
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
        direct: bool | None = None,
        follow: bool = False,
        timestamp_unit: str = "ns",
        on_data_loss: str = "error",
        progress: Progress | bool | None = None,
    ) -> Reader:
        """Reads `[start, end)` of a stream in order, as Arrow batches. No durable consumer is made.

        Messages that were deleted inside the range are skipped; what retention or a purge took is an error.

        Args:
            stream: The stream.
            start_seq: First sequence; None is the first there is.
            end_seq: One past the last sequence; None, or more than there is, is one past the last at opening.
            start_time: Instead of `start_seq`: the first message at or after this time. A datetime (without a zone it
                is local time) or RFC 3339 text, to the nanosecond.
            end_time: Instead of `end_seq`, likewise.
            subjects: Filters, one or several that do not overlap; None is all.
            columns: What is built, in this order; default stream, seq, subject, timestamp, headers, data. There are
                also delivered, consumer_seq, pending, reply.
            schema: Decodes JSON payloads natively: `data` gives way to `value: struct<...>` of these fields (anything
                with `__arrow_c_schema__`: a pyarrow schema, a polars or arro3 one). Missing fields and JSON nulls are
                null, extra fields are ignored; a field that does not fit makes the whole row malformed.
            mode: What happens to malformed rows. "PERMISSIVE": `value` is null, and the text is in a string column
                `_corrupt_record` after it (base64 where it is no UTF-8); "DROPMALFORMED": they are left out;
                "FAILFAST": `DecodeError` with sequence and column.
            batch_rows: Most rows of a batch.
            batch_bytes: A batch is cut when its messages have this number of bytes, 1 GiB at most.
            fetch_bytes: Most bytes on their way at a time, at most 32 MiB; two of the largest messages always fit.
            direct: Read by direct gets instead of a consumer, which needs `allow_direct`; one filter at most. None: for
                work-queue and interest streams, where a consumer would take the messages away.
            follow: Goes on for ever with what comes; a batch is then handed out as soon as no more is there.
            timestamp_unit: "ns", or "us" for readers that know no nanoseconds.
            on_data_loss: "error" raises `DataLossError`, "warn" warns and reads what is left. With `subjects` it is
                always a warning: whether the lost messages matched cannot be known.
            progress: Called with (sequences done, sequences in all or None) at most ten times a second; True shows a
                bar on stderr where that is a terminal.

        Returns:
            A reader to iterate (`async for`), or to read at once with `await reader.read_all()`.
        """
        return Reader(
            self._api,
            stream,
            start_seq=start_seq,
            end_seq=end_seq,
            start_time=start_time,
            end_time=end_time,
            subjects=subjects,
            follow=follow,
            columns=columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            fetch_bytes=fetch_bytes,
            direct=direct,
            timestamp_unit=timestamp_unit,
            on_data_loss=on_data_loss,
            schema=schema,
            mode=mode,
            progress=progress,
        )
