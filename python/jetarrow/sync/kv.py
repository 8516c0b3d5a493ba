"""Blocking key-value buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from jetarrow.core.docstrings import documented_as
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream.arrow import ArrowSchema
from jetarrow.jetstream.kv import entry, key_value, watcher
from jetarrow.sync.blocking import blocking, wrapped
from jetarrow.sync.fetch import Reader

if TYPE_CHECKING:
    from typing import Unpack

    from jetarrow.jetstream.kv.option_types import BucketReadOptions


class KeyWatcher:
    """As `jetarrow.js.kv.KeyWatcher`, blocking: iterate it with `for`."""

    def __init__(self, inner: watcher.KeyWatcher) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    STOP_ITER = watcher.KeyWatcher.STOP_ITER

    updates = blocking(watcher.KeyWatcher.updates)
    stop = blocking(watcher.KeyWatcher.stop)

    def __iter__(self) -> Iterator[entry.Entry | None]:
        return self

    def __next__(self) -> entry.Entry | None:
        try:
            return run_to_completion(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> KeyWatcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class KeyValue:
    """As `jetarrow.js.kv.KeyValue`, blocking."""

    Entry = entry.Entry
    BucketStatus = key_value.BucketStatus
    KeyWatcher = KeyWatcher

    def __init__(self, inner: key_value.KeyValue) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    get = blocking(key_value.KeyValue.get)
    put = blocking(key_value.KeyValue.put)
    create = blocking(key_value.KeyValue.create)
    update = blocking(key_value.KeyValue.update)
    delete = blocking(key_value.KeyValue.delete)
    purge = blocking(key_value.KeyValue.purge)
    purge_deletes = blocking(key_value.KeyValue.purge_deletes)
    put_batch = blocking(key_value.KeyValue.put_batch)
    keys = blocking(key_value.KeyValue.keys)
    history = blocking(key_value.KeyValue.history)
    status = blocking(key_value.KeyValue.status)
    to_table = blocking(key_value.KeyValue.to_table)

    watch = wrapped(key_value.KeyValue.watch, KeyWatcher)
    watchall = wrapped(key_value.KeyValue.watchall, KeyWatcher)

    @documented_as(key_value.KeyValue.read)
    def read(
        self,
        filters: str | Sequence[str] | None = None,
        schema: ArrowSchema | None = None,
        **options: Unpack[BucketReadOptions],
    ) -> Reader:
        """As `jetarrow.js.kv.KeyValue.read`, with the same options; the reader blocks."""
        return Reader(self._inner.read(filters, schema, **options))
