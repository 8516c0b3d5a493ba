"""Calls of readers, key-value buckets and object stores that block, made while the server is frozen."""

from __future__ import annotations

from collections.abc import Iterator

# pyarrow imports pandas in `pa.table`, which a signal would interrupt in place of the call.
import pandas  # noqa: F401
import pyarrow as pa

from .setting import LONG, Setting, call


@call("Reader.__next__")
def read_opening(at: Setting) -> None:
    reader = at.js.read(at.stream)
    at.freeze()
    next(reader)


@call("Reader.__next__")
def read(at: Setting) -> None:
    reader = at.js.read(at.stream, follow=True)
    next(reader)
    at.freeze()
    next(reader)


@call("Reader.read_all")
def read_all(at: Setting) -> None:
    reader = at.js.read(at.stream, follow=True)
    next(reader)
    at.freeze()
    reader.read_all()


@call("Reader.schema")
def read_schema(at: Setting) -> None:
    reader = at.js.read(at.stream)
    at.freeze()
    _ = reader.schema


@call("Reader.created")
def read_created(at: Setting) -> None:
    reader = at.js.read(at.stream)
    at.freeze()
    _ = reader.created


@call("Reader.__arrow_c_schema__")
def read_arrow_schema(at: Setting) -> None:
    reader = at.js.read(at.stream)
    at.freeze()
    reader.__arrow_c_schema__()


@call("Reader.__arrow_c_stream__")
def read_arrow_stream(at: Setting) -> None:
    reader = at.js.read(at.stream, follow=True)
    next(reader)
    at.freeze()
    pa.table(reader)


@call("Reader.__exit__")
def read_in_a_with(at: Setting) -> None:
    with at.js.read(at.stream, follow=True) as reader:
        next(reader)
        at.freeze()
        next(reader)


@call("Reader.close")
def reader_close(at: Setting) -> None:
    # Each gives the server a quarter of a second to delete its consumer.
    readers = [at.js.read(at.stream, follow=True) for _ in range(40)]
    for reader in readers:
        next(reader)
    at.freeze()
    for reader in readers:
        reader.close()


@call("KeyWatcher.updates")
def watch_updates(at: Setting) -> None:
    watcher = at.js.create_key_value(bucket=at.stream).watchall()
    assert watcher.updates() is None
    at.freeze()
    watcher.updates(timeout=LONG)


@call("KeyWatcher.__next__")
def watch(at: Setting) -> None:
    watcher = at.js.create_key_value(bucket=at.stream).watchall()
    assert next(watcher) is None
    at.freeze()
    next(watcher)


@call("ObjectStore.put")
def put_object(at: Setting) -> None:
    def parts() -> Iterator[bytes]:
        yield bytes(8_000_000)
        at.freeze()
        yield bytes(8_000_000)

    at.js.create_object_store(at.stream).put("a", parts())


@call("ObjectStore.get")
def get_object(at: Setting) -> None:
    class Sink:
        frozen = False

        def write(self, data: bytes) -> None:
            if not self.frozen:
                self.frozen = True
                at.freeze()

    store = at.js.create_object_store(at.stream)
    store.put("a", bytes(40_000_000))
    store.get("a", Sink())


@call("ObjectWatcher.updates")
def watch_objects_updates(at: Setting) -> None:
    watcher = at.js.create_object_store(at.stream).watch()
    assert watcher.updates() is None
    at.freeze()
    watcher.updates(timeout=LONG)


@call("ObjectWatcher.__next__")
def watch_objects(at: Setting) -> None:
    watcher = at.js.create_object_store(at.stream).watch()
    assert next(watcher) is None
    at.freeze()
    next(watcher)
