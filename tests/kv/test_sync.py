"""Key-value buckets with the blocking API."""

from __future__ import annotations

import threading

import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow.js import errors as js_errors


def test_every_verb(sync_js: jetarrow.sync.JetStream, bucket: str) -> None:
    kv = sync_js.create_key_value(bucket=bucket, history=3)
    assert (kv.put("a", b"1"), kv.create("b", b"2"), kv.update("a", b"3", 1)) == (1, 2, 3)
    entry = kv.get("a")
    assert (entry.value, entry.revision, kv.get("a", 1).value) == (b"3", 3, b"1")
    assert isinstance(entry, kv.Entry)
    for wrong in (kv.create, kv.update):
        with pytest.raises(js_errors.KeyWrongLastSequenceError):
            wrong("a", b"")
    assert kv.delete("b", 2)
    assert kv.purge("c")
    with pytest.raises(js_errors.KeyNotFoundError):
        kv.get("b")
    assert kv.keys() == ["a"]
    assert [entry.operation for entry in kv.history("b")] == [None, "DEL"]
    kv.put_batch(["d.e", "f"], [b"4", b"5"]).raise_for_errors()
    assert kv.to_table()["key"].to_pylist() == ["a", "d.e", "f"]
    assert kv.to_table("d.*").num_rows == 1
    with kv.read() as reader:
        assert [len(batch) for batch in reader] == [3]
        assert reader.position == 8
    assert kv.read().read_all().num_rows == 3
    assert kv.purge_deletes()
    assert kv.status().history == 3
    assert sync_js.update_key_value(bucket=bucket, history=4).status().history == 4
    assert sync_js.key_value(bucket).get("f").value == b"5"
    assert bucket in list(sync_js.key_value_names())
    assert bucket in [status.bucket for status in sync_js.key_values()]
    assert sync_js.delete_key_value(bucket)
    with pytest.raises(js_errors.BucketNotFoundError):
        kv.get("a")
    assert bucket in repr(kv)


def test_watching(sync_js: jetarrow.sync.JetStream, bucket: str) -> None:
    kv = sync_js.create_key_value(bucket=bucket)
    kv.put("a", b"1")
    with kv.watchall() as watcher:
        seen = []
        for entry in watcher:
            seen.append(entry and entry.value)
            if entry is None:
                kv.put("a", b"2")
            elif entry.value == b"2":
                break
        assert seen == [b"1", None, b"2"]
        with pytest.raises(errors.TimeoutError):
            watcher.updates(timeout=0.1)
    assert list(watcher) == []
    assert watcher.updates() is watcher.STOP_ITER
    with pytest.raises(errors.BadSubscriptionError):
        watcher.updates(None)


def test_another_thread_ends_a_wait(sync_js: jetarrow.sync.JetStream, bucket: str) -> None:
    watcher = sync_js.create_key_value(bucket=bucket).watchall()
    seen: list[object] = []

    def follow() -> None:
        seen.extend(watcher)

    thread = threading.Thread(target=follow)
    thread.start()
    while not seen:
        thread.join(0.005)
        if "watching" in repr(watcher):
            break
    watcher.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert seen == [None]
