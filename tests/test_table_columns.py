"""The columns of a table that is published: a misspelt one is refused, not left out."""

from __future__ import annotations

from typing import Any

import jetarrow.sync
import pyarrow as pa
import pytest


def table(stream: str, **columns: Any) -> pa.Table:
    return pa.table({"subject": [f"{stream}.a", f"{stream}.b"], "data": [b"1", b"2"], **columns})


@pytest.mark.parametrize("shape", ["table", "reader", "batch"])
def test_unknown_columns_are_named(sync_js: jetarrow.sync.JetStream, stream: str, shape: str) -> None:
    made = table(stream, msgid=["x", "y"], colour=["red", "blue"])
    rows = {"table": made, "reader": made.to_reader(), "batch": made.to_batches()[0]}[shape]
    with pytest.raises(ValueError, match=r'unknown columns "msgid", "colour": .* msg_id'):
        sync_js.publish_batch(payloads=rows)
    assert sync_js.stream_info(stream).state.messages == 0


def test_extra_lets_them(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    made = table(stream, msgid=["x", "y"])
    assert sync_js.publish_batch(payloads=made, extra="ignore").stored == 2
    with pytest.raises(ValueError, match="extra must be one of error, ignore, not 'drop'"):
        sync_js.publish_batch(payloads=made, extra="drop")


@pytest.mark.parametrize("name", ["msg_id", "msg_ids"])
def test_both_words_for_ids(sync_js: jetarrow.sync.JetStream, stream: str, name: str) -> None:
    made = table(stream, **{name: ["x", "y"]})
    assert sync_js.publish_batch(payloads=made).stored == 2
    assert sync_js.publish_batch(payloads=made).duplicates == 2
    given: Any = {name: ["x", "z"]}
    assert sync_js.publish_batch(f"{stream}.a", [b"1", b"2"], **given).duplicates == 1


def test_not_both_at_once(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    with pytest.raises(ValueError, match="both columns"):
        sync_js.publish_batch(payloads=table(stream, msg_id=["x", "y"], msg_ids=["x", "y"]))
    with pytest.raises(TypeError, match="give one of them"):
        sync_js.publish_batch(f"{stream}.a", [b"1"], msg_ids=["1"], msg_id=["1"])


def test_what_was_read_is_published_again(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    sync_js.publish_batch(f"{stream}.a", [b"1", b"2"]).raise_for_errors()
    read = sync_js.read(
        stream, columns=["stream", "seq", "subject", "timestamp", "headers", "data", "pending"]
    ).read_all()
    assert sync_js.publish_batch(payloads=read).stored == 2
