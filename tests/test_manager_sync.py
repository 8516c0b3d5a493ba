"""Management without `await`: every verb of the manager and of the handles, on the sync twin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import jetarrow.sync
import pytest
from jetarrow.js import api
from jetarrow.js.errors import BadRequestError, NotFoundError, ServiceUnavailableError
from jetarrow.server import NatsServer
from jetarrow.sync import JetStream, JetStreamManager, Stream

from .tools import fill_sync, in_threads


def test_sync_manager_manages_streams(own_sync: JetStream) -> None:
    assert own_sync.account_info().streams == 0
    made = own_sync.add_stream(name="A", subjects=["a.>"], storage="memory", max_age=timedelta(hours=1))
    assert (made.config.max_age, own_sync.stream_info("A").config) == (3600, made.config)
    changed = own_sync.update_stream(made.config, max_msgs=100)
    assert (changed.config.max_msgs, changed.config.max_age) == (100, 3600)
    assert own_sync.find_stream_name_by_subject("a.b") == "A"
    with pytest.raises(BadRequestError):
        own_sync.add_stream(name="A", subjects=["other"])
    fill_sync(own_sync, "a", 5)
    assert own_sync.stream_info("A", "a.>").state.subjects == {"a.a": 5}
    assert own_sync.purge_stream("A", keep=2).success is True
    assert own_sync.stream_info("A").state.messages == 2
    assert own_sync.delete_stream("A") is True
    with pytest.raises(NotFoundError):
        own_sync.stream_info("A")
    with pytest.raises(ValueError, match=r"^nats: invalid \w+ name"):
        own_sync.stream_info("a b")


def test_sync_lists_return_all_pages(own_sync: JetStream) -> None:
    assert (list(own_sync.stream_names()), list(own_sync.streams()), own_sync.streams_info()) == ([], [], [])
    wanted = [f"S{number:03}" for number in range(520)]
    for name in wanted:
        own_sync.add_stream(name=name, subjects=[f"{name}.>"], storage="memory")
    assert list(own_sync.stream_names()) == wanted
    assert [info.config.name for info in own_sync.streams()] == wanted
    assert list(own_sync.stream_names(subject="S007.x")) == ["S007"]
    assert [info.config.name for info in own_sync.streams_info(512)] == wanted[512:]
    assert [info.config.name for info in own_sync.streams_info_iterator(offset=512)] == wanted[512:]
    assert own_sync.account_info().streams == len(wanted)
    # Only the pages that are iterated are requested.
    before = own_sync.account_info(totals=False).api.total
    streams = own_sync.streams()
    assert next(streams).config.name == "S000"
    assert own_sync.account_info(totals=False).api.total == before + 2


def test_sync_manager_reads_and_deletes_messages(sync_js: JetStream, stream: str) -> None:
    config = sync_js.stream_info(stream).config
    sync_js.update_stream(config, allow_direct=True)
    fill_sync(sync_js, stream, 4)
    assert sync_js.get_msg(stream, 2).data == b"2"
    assert sync_js.get_msg(stream, seq=2, subject=f"{stream}.a", next=True, direct=True).seq == 2
    assert sync_js.get_last_msg(stream, f"{stream}.a").seq == 4
    assert sync_js.get_last_msg(stream, f"{stream}.a", direct=True).data == b"4"
    assert sync_js.delete_msg(stream, 2) is True
    assert sync_js.delete_msg(stream, 3, erase=False) is True
    with pytest.raises(NotFoundError):
        sync_js.get_msg(stream, 2, direct=True)


def test_sync_manager_manages_consumers(sync_js: JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 3)
    made = sync_js.add_consumer(stream, api.ConsumerConfig(durable_name="c"), max_deliver=3)
    assert (made.num_pending, sync_js.consumer_info(stream, "c").config) == (3, made.config)
    assert sync_js.update_consumer(stream, name="c", ack_wait=5).config.max_deliver == 3
    assert [info.name for info in sync_js.consumers_info(stream)] == ["c"]
    assert sync_js.pause_consumer(stream, "c", datetime.now(UTC) + timedelta(hours=1)).paused
    assert not sync_js.resume_consumer(stream, "c").paused
    assert sync_js.reset_consumer(stream, "c", seq=2).reset_seq == 2
    assert sync_js.delete_consumer(stream, "c") is True
    with pytest.raises(NotFoundError):
        sync_js.consumer_info(stream, "c")


def test_sync_stream_handle_manages_stream(sync_js: JetStream, stream: str) -> None:
    name = f"{stream}H"
    handle = sync_js.get_or_create_stream(name=name, subjects=[f"{name}.>"], allow_direct=True)
    assert isinstance(handle, Stream)
    assert handle.cached_info is not None
    assert handle.cached_info.config == sync_js.get_stream(name).info().config
    updated = sync_js.create_or_update_stream(name=name, subjects=[f"{name}.>"], allow_direct=True, max_msgs=50)
    assert updated.cached_info is not None
    assert updated.cached_info.config.max_msgs == 50
    plain = sync_js.stream(name)
    assert (plain.name, plain.cached_info, repr(plain)) == (name, None, f"<Stream {name}>")

    fill_sync(sync_js, name, 6)
    assert handle.info(f"{name}.>").state.subjects == {f"{name}.a": 6}
    assert handle.get_msg(3).data == b"3"
    assert handle.get_last_msg(f"{name}.>").seq == 6
    assert handle.direct_get(2).data == b"2"
    assert handle.direct_get_last_for_subject(f"{name}.a").data == b"6"
    assert handle.delete_msg(2) is True
    assert handle.purge(seq=4) == 2
    assert handle.purge() == 3

    assert handle.create_consumer(durable_name="c").name == "c"
    assert handle.get_or_create_consumer("d", max_deliver=2).cached_info is not None
    changed = handle.update_consumer(name="c", max_deliver=7).cached_info
    assert changed is not None
    assert changed.config.max_deliver == 7
    assert handle.get_consumer("c").info().config == changed.config
    assert list(handle.consumer_names()) == ["c", "d"] == [info.name for info in handle.consumers()]
    assert handle.delete_consumer("d") is True
    assert list(handle.consumer_names()) == ["c"]
    sync_js.delete_stream(name)


def test_sync_consumer_handle_manages_consumer(sync_js: JetStream, stream: str) -> None:
    reader = sync_js.stream(stream).create_consumer(durable_name="c", max_ack_pending=-1)
    assert (reader.name, reader.stream_name, repr(reader)) == ("c", stream, f"<Consumer c of {stream}>")
    fill_sync(sync_js, stream, 30)
    assert [msg.seq for msg in reader.fetch(3)] == [1, 2, 3]
    assert reader.fetch_batch(4).seqs.to_pylist() == [4, 5, 6, 7]
    seqs = []
    for msg in reader.messages():
        msg.ack_sync(timeout=20)
        seqs.append(msg.seq)
        if msg.seq == 10:
            break
    assert seqs == [8, 9, 10]
    rows: list[int | None] = []
    for batch in reader.batches(10, columns=["seq"], timeout=5):
        batch.ack_sync()
        rows += batch.seqs.to_pylist()
        if len(rows) == 20:
            break
    assert sorted(seq for seq in rows if seq) == list(range(11, 31))
    assert reader.info().num_pending == 0
    assert reader.cached_info is not None
    assert reader.pause((datetime.now(UTC) + timedelta(hours=1)).isoformat()).paused
    assert not reader.resume().paused


def test_sync_connection_creates_managers(own_server: NatsServer) -> None:
    with jetarrow.sync.connect(own_server.url) as nc:
        jsm = nc.jsm(timeout=2)
        assert type(jsm) is JetStreamManager
        assert jsm.account_info().streams == 0
        assert isinstance(nc.jetstream_manager(), JetStream)
        with pytest.raises(ServiceUnavailableError):
            nc.jetstream_manager(domain="nowhere")
        assert nc.jetstream_manager(check_api=False, domain="nowhere").stream("A").name == "A"


def test_threads_share_sync_manager(sync_js: JetStream, stream: str) -> None:
    names: list[str] = []

    def work(number: int) -> None:
        handle = sync_js.stream(stream)
        for turn in range(10):
            handle.get_or_create_consumer(f"c{number}_{turn}", inactive_threshold=60)
        names.extend(name for name in handle.consumer_names() if name.startswith(f"c{number}_"))

    in_threads(work, 8)
    assert sorted(names) == sorted(f"c{number}_{turn}" for number in range(8) for turn in range(10))
