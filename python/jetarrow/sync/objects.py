"""Blocking object stores."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from jetarrow.core.docstrings import documented_as
from jetarrow.core.session import run_to_completion
from jetarrow.jetstream import models
from jetarrow.jetstream.objects.object_store import ObjectStore as AsyncStore
from jetarrow.jetstream.objects.watch import ObjectWatcher as AsyncWatcher
from jetarrow.sync.blocking import blocking, iterate, wrapped


class ObjectWatcher:
    """As `jetarrow.js.object_store.ObjectWatcher`, blocking: iterate it with `for`."""

    def __init__(self, inner: AsyncWatcher) -> None:
        self._inner = inner

    updates = blocking(AsyncWatcher.updates)
    stop = blocking(AsyncWatcher.stop)

    def __iter__(self) -> Iterator[models.ObjectInfo | None]:
        return self

    def __next__(self) -> models.ObjectInfo | None:
        return next(iterate(self._inner))

    def __enter__(self) -> ObjectWatcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ObjectStore:
    """As `jetarrow.js.object_store.ObjectStore`, blocking."""

    def __init__(self, inner: AsyncStore) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return repr(self._inner)

    get_info = blocking(AsyncStore.get_info)
    get = blocking(AsyncStore.get)
    get_file = blocking(AsyncStore.get_file)
    put = blocking(AsyncStore.put)
    put_file = blocking(AsyncStore.put_file)
    update_meta = blocking(AsyncStore.update_meta)
    delete = blocking(AsyncStore.delete)
    list = blocking(AsyncStore.list)
    watch = wrapped(AsyncStore.watch, ObjectWatcher)
    add_link = blocking(AsyncStore.add_link)

    @documented_as(AsyncStore.add_bucket_link)
    def add_bucket_link(self, name: str, bucket: ObjectStore | str) -> models.ObjectInfo:
        """As `jetarrow.js.object_store.ObjectStore.add_bucket_link`."""
        inner = bucket._inner if isinstance(bucket, ObjectStore) else bucket
        return run_to_completion(self._inner.add_bucket_link(name, inner))

    status = blocking(AsyncStore.status)
    seal = blocking(AsyncStore.seal)
    clean = blocking(AsyncStore.clean)
