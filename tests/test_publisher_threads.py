"""publish_async and publisher() of the sync twin: futures that another thread resolves."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.core.futures import AckFuture
from jetarrow.js import errors as js_errors
from jetarrow.server import NatsServer

from .tools import in_threads


def test_sync_publisher_returns_futures(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    futures = [sync_js.publish_async(f"{stream}.a", b"%d" % i) for i in range(2_000)]
    sync_js.publish_async_completed()
    assert (sync_js.publish_async_pending(), [f.result(20).seq for f in futures]) == (0, list(range(1, 2_001)))
    with pytest.raises(js_errors.NoStreamResponseError):
        sync_js.publish_async("nobody.listens", b"").result(20)
    with sync_js.publisher(f"{stream}.b", max_inflight=10) as publisher:
        later = [publisher.publish(b"x", msg_id=str(i)) for i in range(500)]
        publisher.flush()
        assert publisher.stats == (500, 0, 0, 0, 0)
    assert later[-1].result().seq == 2_500
    with (
        pytest.raises(js_errors.BatchError, match="futures were not awaited"),
        sync_js.publisher("nobody.listens") as publisher,
    ):
        publisher.publish(b"x")


def test_threads_publish_on_one_client(nats_url: str, stream: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        js = nc.jetstream(publish_async_max_pending=100)

        def work(number: int) -> None:
            futures = [js.publish_async(f"{stream}.{number}", b"x") for _ in range(300)]
            js.publish(f"{stream}.{number}", b"x")
            js.publish_batch(f"{stream}.{number}", [b"x"] * 300).raise_for_errors()
            assert len({future.result(10).seq for future in futures}) == 300

        in_threads(work, 6)
        assert js.stream_info(stream).state.messages == 6 * 601


def test_sync_publisher_limit_raises_when_full(own_server: NatsServer) -> None:
    with jetarrow.sync.connect(own_server.url, ping_interval=60) as nc:
        js = nc.jetstream(publish_async_max_pending=2)
        js.add_stream(name="S", subjects=["s.>"])
        own_server.pause()
        futures = [js.publish_async("s.a", b"x") for _ in range(2)]
        with pytest.raises(js_errors.TooManyStalledMsgsError):
            js.publish_async("s.a", b"x", wait_stall=0.1)
        own_server.resume()
        assert [future.result(20).seq for future in futures] == [1, 2]


@pytest.mark.parametrize("looked", [False, True])
def test_unawaited_failures_raise_at_sync_block_end(
    nats_url: str, stream: str, looked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the block ends while another thread sets the error of its last future."""
    asked, given_up = threading.Event(), threading.Event()
    fail, ask = AckFuture.set_exception, AckFuture.exception

    def fail_when_asked(future: AckFuture, error: BaseException | None) -> None:
        while not (asked.wait(0.01) or given_up.is_set()):
            pass
        fail(future, error)

    def seen(future: AckFuture, timeout: float | None = None) -> BaseException | None:
        asked.set()
        return ask(future, timeout)

    monkeypatch.setattr(AckFuture, "set_exception", fail_when_asked)
    monkeypatch.setattr(AckFuture, "exception", seen)
    unseen = nullcontext() if looked else pytest.raises(js_errors.BatchError, match="futures were not awaited")
    with jetarrow.sync.connect(nats_url) as nc:
        try:
            with unseen, nc.jetstream().publisher() as publisher:
                future = publisher.publish(b"x", subject="nobody.listens")
                # A wait that timed out has not retrieved the error.
                with pytest.raises(js_errors.NoStreamResponseError if looked else TimeoutError):
                    future.result(10 if looked else 0)
                asked.clear()
                while publisher.pending:
                    given_up.wait(0.01)
        finally:
            given_up.set()


def test_callback_can_use_client(sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str) -> None:
    """It runs in another thread than the connection, so it may block."""
    seen: list[int] = []
    done = threading.Event()

    def again(future: object) -> None:
        seen.append(sync_js.publish(f"{stream}.b", b"from a callback").seq)
        done.set()

    sync_js.publish_async(f"{stream}.a", b"x").add_done_callback(again)
    assert done.wait(10)
    assert seen == [2]
    # The context is released at once; its futures are resolved nevertheless.
    with jetarrow.sync.connect(nats_url) as nc:
        assert nc.jetstream().publish_async(f"{stream}.a", b"x").result(10).seq == 3


def test_exception_in_callback_leaves_other_futures(
    own_sync: jetarrow.sync.JetStream, own_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(future: object) -> None:
        raise SystemExit

    own_sync.add_stream(name="LEFT", subjects=["left.>"])
    own_sync.publish_async("left.0", b"").result(10)
    for _ in range(3):
        # If its future is resolved, a callback runs at once in this thread.
        own_server.pause()
        futures = [own_sync.publish_async("left.a", b"x") for _ in range(50)]
        futures[0].add_done_callback(leave)
        own_server.resume()
        assert all(future.result(10).stream == "LEFT" for future in futures)
    assert all("callback" in record.message for record in caplog.records)


def test_core_message_behind_unacknowledged_ones_is_sent(nats_url: str, stream: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc, jetarrow.sync.connect(nats_url) as other:
        js, sub = nc.jetstream(), other.subscribe(f"{stream}-core")
        other.flush()
        for number in range(50):
            for _ in range(number):
                js.publish_async(f"{stream}.a", b"x")
            nc.publish(f"{stream}-core", b"%d" % number)
            # Nothing else is published until it has arrived.
            assert sub.next_msg(10).data == b"%d" % number
