"""Reader of a range of a stream."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from jetarrow import _jetarrow
from jetarrow.core.errors import Error
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream import html
from jetarrow.jetstream.api import JetStreamApi
from jetarrow.jetstream.arrow import ArrowSchema, ArrowStream, needs_pyarrow
from jetarrow.jetstream.batch import MessageBatch
from jetarrow.jetstream.errors import APIError, NotFoundError, StreamRolledBackError
from jetarrow.jetstream.infer import infer_schema
from jetarrow.jetstream.progress import reporter
from jetarrow.jetstream.read_spec import ReadSpec
from jetarrow.jetstream.reader_conversions import ReaderConversions
from jetarrow.jetstream.registry import first_schema, without_schema
from jetarrow.jetstream.schema import PayloadSchema

if TYPE_CHECKING:
    import pyarrow


_log = logging.getLogger("jetarrow.read")

# Messages that a schema is inferred from.
INFER_SAMPLE_ROWS = 1000

# A batch, a warning, or the end.
_Item: TypeAlias = _jetarrow.Batch | _jetarrow.Loss | StreamRolledBackError | None


class Reader(ReaderConversions):
    """Reads `[start, end)` of a stream in order. Created by `js.read` and `js.latest`; opened at the first use.

    `async for`, `async with` and `read_all` wait on the event loop. `for` and `with` block the thread, with the GIL
    released, and are for threads without a loop.
    """

    def __init__(self, api: JetStreamApi, spec: ReadSpec) -> None:
        self._session, self._api, self._spec = api.session, api, spec
        # Opened lazily; created here, so that the native core rejects invalid options at the call of the verb.
        self._call: _jetarrow.Call[_jetarrow.Reader] | None = None
        if not spec.infers_schema:
            self._call = self._native_call(spec, spec.schema)
        self._report = reporter(spec.progress, "reading")
        self._reported_at = 0.0
        self._native: _jetarrow.Reader | None = None
        self._position = spec.start_seq
        self._rows_read = 0
        self._closed = False
        # The range was read to its end, or the rest was exported as an Arrow stream.
        self._spent = False
        # The item of a wait that was cancelled.
        self._arriving: asyncio.Future[_Item] | None = None
        self._single_thread = _SingleThread()
        # Tasks take turns: an item belongs to one of them.
        self._turn = asyncio.Lock()
        self._inferred: ArrowSchema | None = None

    def _native_call(self, spec: ReadSpec, schema: object) -> _jetarrow.Call[_jetarrow.Reader]:
        api = self._api
        options = spec.native_options()
        return self._session.native.read(api.prefix, spec.stream, options, schema=schema, timeout=api.timeout)

    def _sample_call(self, **changes: Any) -> _jetarrow.Call[_jetarrow.Reader]:
        """A read of the first payloads of the range, from which the schema is inferred."""
        plain: dict[str, Any] = {"columns": ["data"], "format": "json", "schema": None, "flatten": False, "marks": ()}
        plain["registry"] = None
        spec = replace(self._spec, **plain, follow=False, **{"limit": INFER_SAMPLE_ROWS, **changes})
        return self._native_call(spec, None)

    def __repr__(self) -> str:
        at = "" if self._position is None else f" at {self._position}"
        state = ", closed" if self._closed else ", read to its end" if self._spent else ""
        return f"<{type(self).__name__} of stream {self._spec.stream}{at}{state}>"

    def _repr_html_(self) -> str:
        state = "closed" if self._closed else "read to its end" if self._spent else "open" if self._native else "new"
        fields = None
        # The schema of Arrow messages is shown only with pyarrow.
        if self._native is not None and isinstance(self._inferred, Iterable):
            fields = ", ".join(f"{field.name}: {field.type}" for field in self._inferred)
        said = {"state": state, "next sequence": self._position, "rows read": self._rows_read, "inferred": fields}
        return html.facts(f"{type(self).__name__} of stream {self._spec.stream}", said)

    def __reduce__(self) -> NoReturn:
        raise TypeError("could not pickle or copy a Reader: it belongs to a connection; send its batches")

    async def _open(self) -> _jetarrow.Reader:
        return self._native or await self._opening(self._session.run)

    def _open_blocking(self) -> _jetarrow.Reader:
        return self._native or run_to_completion(self._opening(_block))

    async def _opening(self, wait: Callable[[_jetarrow.Call[Any]], Coroutine[Any, Any, Any]]) -> _jetarrow.Reader:
        try:
            if self._call is None:
                infer = {"json": self._infer_json, "arrow": self._infer_arrow}
                await infer.get(self._spec.format, self._fetch_schema)(wait)
            call = self._call or self._native_call(self._spec, self._inferred)
            if self._call is not None:
                # A call can be started only once: after a cancelled wait the next one needs another.
                self._call = self._native_call(self._spec, self._spec.schema)
            native: _jetarrow.Reader = await wait(call)
        except NotFoundError as error:
            # With `_block` the thread of an event loop must not wait for another request.
            near = wait is not _block or self._session.is_blocking
            raise await self._api.explain_not_found(error, self._spec.stream, near=near) from None
        except APIError as error:
            raise error.about(f"could not read stream {self._spec.stream!r}", stream=self._spec.stream) from None
        self._native = native
        self._position = native.start
        if self._spec.follow and self._spec.subjects and (wait is not _block or self._session.is_blocking):
            # Such a read has no end, at which other reads are checked.
            await self._api.filters.warn(self._api, self._spec.stream, list(self._spec.subjects), reader="the read")
        return native

    async def _infer_json(self, wait: Callable[[_jetarrow.Call[Any]], Coroutine[Any, Any, Any]]) -> None:
        pa = needs_pyarrow('schema="infer"')
        sample = await wait(self._sample_call())
        payloads: list[bytes] = []
        while (item := await wait(sample.next())) is not None:
            if isinstance(item, _jetarrow.Batch):
                payloads += pa.record_batch(item).column("data").to_pylist()
        await wait(sample.close())
        inferred = infer_schema(payloads)
        self._inferred = schema = inferred.schema
        if (advice := inferred.advice(self._spec.stream)) is not None:
            warnings.warn(advice, stacklevel=2)
        fields = ", ".join(f"{field.name}: {field.type}" for field in schema)
        _log.info("nats: inferred schema of stream %s from %d messages: %s", self._spec.stream, len(payloads), fields)

    async def _infer_arrow(self, wait: Callable[[_jetarrow.Call[Any]], Coroutine[Any, Any, Any]]) -> None:
        """Infers the schema from the first message with an Arrow schema."""
        sample = await wait(self._sample_call(batch_rows=1, fetch_bytes=1))
        self._inferred = PayloadSchema(None)
        while (item := await wait(sample.next())) is not None:
            if isinstance(item, _jetarrow.Batch) and _jetarrow.schema_of_payload(payload := item.payload()):
                self._inferred = PayloadSchema(payload)
                break
        await wait(sample.close())

    async def _fetch_schema(self, wait: Callable[[_jetarrow.Call[Any]], Coroutine[Any, Any, Any]]) -> None:
        """Fetches the schema of the first message that names one."""
        registry = self._spec.registry
        assert registry is not None
        sample = await wait(self._sample_call(batch_rows=1, fetch_bytes=1))
        try:
            while self._inferred is None and (item := await wait(sample.next())) is not None:
                if isinstance(item, _jetarrow.Batch):
                    self._inferred = await first_schema(registry, item, self._spec.format, wait)
        finally:
            await wait(sample.close())
        if self._inferred is None:
            raise without_schema(registry, self._spec.format)

    @property
    def inferred(self) -> pyarrow.Schema | None:
        """The schema inferred from JSON or Arrow messages; None before the reader is opened (needs pyarrow)."""
        found = self._inferred
        return None if found is None else needs_pyarrow("inferred").schema(found)

    def _check_unspent(self) -> None:
        if self._spent:
            raise Error(
                f"could not read stream {self._spec.stream!r} again: this reader is at its end; create a new one with"
                " js.read(...)"
            )

    def _process(self, native: _jetarrow.Reader, item: _Item) -> MessageBatch | None:
        """Processes an item of the native reader: a batch, a warning, or the end."""
        if isinstance(item, _jetarrow.Loss | StreamRolledBackError):
            warnings.warn(str(item), stacklevel=3)
            return None
        start, end = native.start, native.end
        if item is not None:
            self._position = (item.seqs[-1] or 0) + 1
            self._rows_read += len(item)
        elif self._spec.limit is None or self._rows_read < self._spec.limit:
            self._position = end
        now = time.monotonic()
        if self._report is not None and (item is None or now - self._reported_at >= 0.1):
            self._reported_at = now
            done = (self._position or start) - start
            self._report(*((done, None) if self._spec.follow else (min(done, end - start), end - start)))
        return None if item is None else MessageBatch(self._session, item)

    @property
    def position(self) -> int | None:
        """The next sequence to read; None before the first use of a reader without `start_seq`."""
        return self._position

    @property
    def created(self) -> str:
        """Creation time of the stream, as the server's text; a later stream of the same name has another one."""
        return self._open_blocking().created

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema of the batches (needs pyarrow)."""
        schema: pyarrow.Schema = needs_pyarrow("schema").schema(self)
        return schema

    def __arrow_c_schema__(self) -> object:
        return self._open_blocking().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the rest of the range as an Arrow stream; waits in the reading thread with the GIL released."""
        self._check_unspent()
        stream = self._open_blocking().__arrow_c_stream__(requested_schema)
        self._spent = True
        return stream

    def __aiter__(self) -> AsyncIterator[MessageBatch]:
        self._check_unspent()
        return self

    async def __anext__(self) -> MessageBatch:
        with self._single_thread:
            async with self._turn:
                while not self._closed and not self._spent:
                    native = await self._open()
                    if self._closed:
                        # While it was opened.
                        await self._session.run(native.close())
                        break
                    item = await self._next_item(native)
                    if (batch := self._next_batch(native, item)) is not None:
                        return batch
                    await self._check_filters()
        raise StopAsyncIteration

    async def _next_item(self, native: _jetarrow.Reader) -> _Item:
        """Waits for the next item. One that arrives while the wait is cancelled is left to the next call."""
        if self._session.is_blocking:
            return await self._session.run(native.next())
        if self._arriving is None or self._arriving.cancelled():
            self._arriving = asyncio.ensure_future(self._session.run(native.next()))
            # Its error is raised by the call that waits for it, if there is one.
            self._arriving.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            item = await asyncio.shield(self._arriving)
        except Exception:
            self._arriving = None
            raise
        self._arriving = None
        return item

    def __del__(self) -> None:
        arriving: asyncio.Future[_Item] | None = getattr(self, "_arriving", None)
        if arriving is not None and not arriving.done():
            # The wait would keep the native reader, and with it the consumer.
            with suppress(RuntimeError):
                arriving.get_loop().call_soon_threadsafe(arriving.cancel)

    async def _check_filters(self) -> None:
        """Warns, at the end of a read without rows, of filters that match no subject of the stream."""
        if self._spent and not self._rows_read and self._spec.subjects:
            await self._api.filters.warn(self._api, self._spec.stream, list(self._spec.subjects), reader="the read")

    def __iter__(self) -> Iterator[MessageBatch]:
        self._check_unspent()
        return self

    def __next__(self) -> MessageBatch:
        with self._single_thread:
            while not self._closed and not self._spent:
                native = self._open_blocking()
                if self._closed:
                    native.close().block()
                    break
                item = native.next().block()
                if (batch := self._next_batch(native, item)) is not None:
                    return batch
                if self._session.is_blocking:
                    run_to_completion(self._check_filters())
        raise StopIteration

    def _next_batch(self, native: _jetarrow.Reader, item: _Item) -> MessageBatch | None:
        """Returns the batch of an item; None after a warning, and at the end."""
        if item is None and self._closed:
            return None
        batch = self._process(native, item)
        self._spent = item is None
        return batch

    async def _rows(self) -> AsyncIterator[MessageBatch]:
        async for batch in self:
            yield batch
        if self._closed:
            raise Error("could not read the whole range: the reader was closed; create a new one with js.read(...)")

    async def _empty(self) -> ArrowStream:
        return await self._open()

    async def close(self) -> None:
        """Stops reading, and deletes the consumer on the server.

        Iterations in all tasks and threads end; `read_all` raises `Error`.
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


async def _block(call: _jetarrow.Call[Any]) -> Any:
    return call.block()


class _SingleThread:
    """Guard against reading from two threads, each of which would receive a part of the rows.

    Tasks of one thread may read alternately.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: list[int] = []

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            if self._inside and me not in self._inside:
                raise Error(
                    "could not read: another thread reads from this reader; create one per thread with js.read(...)"
                )
            self._inside.append(me)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside.remove(threading.get_ident())
