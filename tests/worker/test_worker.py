"""Workers of both faces: acks, retries, dead letters, order, concurrency, health, batches."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import Backoff, Reject
from jetarrow.errors import Error
from jetarrow.js.errors import NotFoundError

from ..tools import fill_sync, wait_until
from .faces import FACES, running

QUICK = Backoff(initial=0.02, factor=1, attempts=3)
each_face = pytest.mark.parametrize("face", FACES)


def finished(js: jetarrow.sync.JetStream, stream: str, consumer: str = "w") -> bool:
    info = js.consumer_info(stream, consumer)
    return (info.num_pending, info.num_ack_pending) == (0, 0)


def dead(js: jetarrow.sync.JetStream, stream: str) -> list[dict[str, Any]]:
    return js.dead_letters(stream).read_all().to_pylist()


@each_face
@pytest.mark.parametrize("confirm", [False, True])
def test_worker_handles_each_message_and_acknowledges_it(
    face: str, confirm: bool, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 500)
    seen: list[bytes] = []
    with running(face, nats_url, stream, handler=lambda msg: seen.append(msg.data), confirm=confirm) as run:
        wait_until(lambda: finished(sync_js, stream))
        assert run.worker.is_running
        run.end()
    assert run.error is None
    assert sorted(map(int, seen)) == list(range(1, 501))
    metrics = run.worker.metrics()
    assert (metrics.handled, metrics.failed, metrics.dead, metrics.in_progress) == (500, 0, 0, 0)


@each_face
@pytest.mark.parametrize("key", [None, "subject"])
def test_worker_retries_and_makes_dead_letters(
    face: str, key: str | None, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    attempts: Counter[bytes] = Counter()

    def handle(msg: Any) -> None:
        attempts[msg.data] += 1
        if msg.data == b"never" or (msg.data == b"later" and attempts[msg.data] < 3):
            raise OSError("the database is away")
        if msg.data == b"reject":
            raise Reject("not JSON")

    for payload in (b"good", b"later", b"never", b"reject"):
        sync_js.publish(f"{stream}.{payload.decode()}", payload)
    with running(face, nats_url, stream, handler=handle, retry=QUICK, key=key) as run:
        wait_until(lambda: finished(sync_js, stream))
        wait_until(lambda: run.worker.metrics().dead == 2)
    assert attempts == {b"good": 1, b"later": 3, b"never": 3, b"reject": 1}
    letters = {
        row["data"]: (row["consumer"], row["kind"], row["reason"], row["deliveries"]) for row in dead(sync_js, stream)
    }
    assert letters == {
        b"never": ("w", "terminated", "OSError: the database is away", 3),
        b"reject": ("w", "terminated", "not JSON", 1),
    }
    sync_js.delete_stream(f"{stream}_DEAD_LETTERS")


@each_face
def test_worker_handles_at_most_concurrency_messages_at_a_time_and_keeps_the_order_of_keys(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    lock, busy, most, order, failed = threading.Lock(), Counter[str](), [0], [], set()

    def handle(msg: Any) -> None:
        key = msg.subject
        with lock:
            busy[key] += 1
            most[0] = max(most[0], sum(busy.values()))
            assert busy[key] == 1
        time.sleep(0.001)
        with lock:
            busy[key] -= 1
            if msg.seq % 7 == 0 and msg.seq not in failed:
                failed.add(msg.seq)
                raise OSError("once")
            order.append((key, msg.seq))

    sync_js.publish_batch([f"{stream}.{n % 5}" for n in range(100)], [b""] * 100).raise_for_errors()
    with running(
        face, nats_url, stream, handler=handle, retry=QUICK, key=1, filter=f"{stream}.*", concurrency=3, prefetch=20
    ) as run:
        wait_until(lambda: finished(sync_js, stream))
        assert run.worker.metrics().retried == len(failed) == 14
    for key in {key for key, _ in order}:
        seqs = [seq for one, seq in order if one == key]
        assert seqs == sorted(seqs)
        assert len(seqs) == 20
    assert 1 < most[0] <= 3


@each_face
def test_batch_handler_gets_arrow_batches_and_one_bad_row_takes_no_other(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 300)
    good: set[bytes] = set()

    def handle(batch: Any) -> None:
        rows = batch.to_pyarrow()["data"].to_pylist()
        if b"100" in rows:
            raise ValueError("row 100")
        if b"200" in rows:
            raise Reject("row 200", rows=[rows.index(b"200")])
        good.update(rows)

    with running(face, nats_url, stream, batch_handler=handle, rows=60, seconds=0.2, retry=QUICK) as run:
        wait_until(lambda: run.worker.metrics().dead == 2)
        wait_until(lambda: finished(sync_js, stream))
    assert good == {b"%d" % n for n in range(1, 301)} - {b"100", b"200"}
    assert {row["data"]: row["reason"] for row in dead(sync_js, stream)} == {
        b"100": "ValueError: row 100",
        b"200": "row 200",
    }
    sync_js.delete_stream(f"{stream}_DEAD_LETTERS")


@pytest.mark.parametrize("rows", [[], [10_000], [0, -1]])
def test_a_rejection_of_no_row_is_a_failure(
    nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str, rows: list[int]
) -> None:
    """Not one that is called again at once, without an end."""
    fill_sync(sync_js, stream, 3)
    calls: list[int] = []

    def handle(batch: Any) -> None:
        calls.append(len(batch))
        raise Reject("bad", rows=rows)

    with running("sync", nats_url, stream, batch_handler=handle, rows=60, seconds=0.2, retry=QUICK) as run:
        wait_until(lambda: run.worker.metrics().dead == 3)
        wait_until(lambda: finished(sync_js, stream))
    assert len(calls) <= 3 * 4
    assert all(row["reason"].startswith("ValueError: Reject(rows=") for row in dead(sync_js, stream))
    sync_js.delete_stream(f"{stream}_DEAD_LETTERS")


@each_face
def test_a_message_with_a_long_reason_ends(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 1)

    def handle(message: Any) -> None:
        raise Reject("x" * 2_000_000)

    with running(face, nats_url, stream, handler=handle, dead_letter=None, ack_wait=60.0):
        wait_until(lambda: finished(sync_js, stream))


@each_face
def test_long_handler_is_not_redelivered(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 2)
    seen: list[int] = []

    def handle(msg: Any) -> None:
        seen.append(msg.seq)
        time.sleep(4.5)

    with running(face, nats_url, stream, handler=handle, ack_wait=3, concurrency=1, prefetch=5):
        wait_until(lambda: finished(sync_js, stream))
    # The second one waited for longer than its ack_wait.
    assert seen == [1, 2]


async def test_blocked_loop_keeps_its_messages(nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 2)
    seen: list[int] = []
    async with await jetarrow.connect(nats_url) as nc:

        async def handle(msg: Any) -> None:
            seen.append(msg.seq)
            time.sleep(4.5)  # noqa: ASYNC251  # blocks on purpose
            if len(seen) == 2:
                worker.stop()

        worker = jetarrow.worker(nc.jetstream(), stream, durable="w", handler=handle, ack_wait=3, signals=False)
        await worker.run()
    assert seen == [1, 2]
    assert sync_js.consumer_info(stream, "w").num_redelivered == 0


@each_face
def test_health_endpoint_reports_state_and_metrics(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 5)
    with running(face, nats_url, stream, handler=lambda msg: None, health=":0") as run:
        wait_until(lambda: run.worker.metrics().handled == 5)
        with urllib.request.urlopen(f"{run.worker.health_url}/health", timeout=5) as answer:
            report = json.load(answer)
        assert (report["problem"], report["consumer"], report["handled"]) == (None, "w", 5)
        with urllib.request.urlopen(f"{run.worker.health_url}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        assert f'jetarrow_worker_handled_total{{stream="{stream}",consumer="w"}} 5\n' in text
        assert f'jetarrow_worker_healthy{{stream="{stream}",consumer="w"}} 1\n' in text
        with urllib.request.urlopen(f"{run.worker.health_url}/healthz", timeout=5) as answer:
            assert answer.status == 200
        url = run.worker.health_url
        run.end()
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"{url}/health", timeout=5)


@each_face
def test_exception_that_is_no_exception_ends_the_worker_and_returns_the_message(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 1)

    def handle(msg: Any) -> None:
        raise SystemExit(3)

    with running(face, nats_url, stream, handler=handle) as run:
        run.thread.join(30)
        assert isinstance(run.error, SystemExit)
    # Returned at once, and perhaps once more by the ending worker.
    (message,) = sync_js.pull_subscribe_bind("w", stream).fetch(1)
    assert message.metadata.num_delivered >= 2


@each_face
def test_drain_finishes_handlers_and_returns_the_rest(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 20)
    begun, go, done = threading.Semaphore(0), threading.Event(), []

    def handle(msg: Any) -> None:
        begun.release()
        go.wait(30)
        done.append(msg.seq)

    with running(face, nats_url, stream, handler=handle, concurrency=2, prefetch=5, ack_wait=60) as run:
        assert begun.acquire(timeout=30)
        assert begun.acquire(timeout=30)
        run.worker.stop()
        wait_until(lambda: run.worker.metrics().returned > 0)
        go.set()
        # Not `end`: a second stop would end the drain.
        run.thread.join(60)
    assert sorted(done) == [1, 2]
    # The other messages are redelivered at once, not after ack_wait.
    rest = sync_js.pull_subscribe_bind("w", stream)
    found: set[int] = set()
    while len(found) < 18:
        found |= {message.seq for message in rest.fetch(20, timeout=10)}
    assert found == set(range(3, 21))


@each_face
def test_drain_timeout_returns_messages_of_handlers_that_hang(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 1)
    begun, go = threading.Event(), threading.Event()

    def handle(msg: Any) -> None:
        begun.set()
        go.wait(60)

    with running(face, nats_url, stream, handler=handle, ack_wait=60, drain_timeout=0.2) as run:
        assert begun.wait(30)
        run.worker.stop()
        (message,) = sync_js.pull_subscribe_bind("w", stream).fetch(1, timeout=20)
        assert message.metadata.num_delivered == 2
        go.set()


@each_face
def test_handler_may_acknowledge_its_message_itself(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    fill_sync(sync_js, stream, 2)
    replies: list[str] = []

    def handle(msg: Any) -> None:
        replies.append(msg.reply)
        msg._claim()

    with running(face, nats_url, stream, handler=handle) as run:
        wait_until(lambda: run.worker.metrics().handled == 2)
    # The handler claimed the acks and sent none.
    assert sync_js.consumer_info(stream, "w").num_ack_pending == 2


def test_worker_refuses_options_that_lose_messages(
    nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    def make(**options: Any) -> None:
        jetarrow.sync.worker(sync_js, stream, **{"durable": "w", "handler": print, **options}).run()

    with pytest.raises(ValueError, match="itself"):
        make(dead_letter=f"{stream}.dead")
    with pytest.raises(NotFoundError):
        make(dead_letter="no.stream.has.this")
    with pytest.raises(ValueError, match=r"key=1 .* has 0"):
        make(key=1)
    with pytest.raises(TypeError, match="handler"):
        make(batch_handler=print)
    with pytest.raises(ValueError, match="key= is for handler="):
        make(handler=None, batch_handler=print, key="subject")
    with pytest.raises(ValueError, match="quarter"):
        make(handler=None, batch_handler=print, seconds=20)
    sync_js.add_consumer(stream, name="m", durable_name="m", max_deliver=3, ack_policy="explicit")
    with pytest.raises(Error, match="max_deliver"):
        make(durable="m")

    async def handle(msg: Any) -> None: ...

    with pytest.raises(TypeError, match=r"jetarrow\.worker"):
        make(handler=handle)


def test_work_queue_needs_a_subject_for_dead_letters(sync_js: jetarrow.sync.JetStream) -> None:
    for name in ("WQ", "WQDEAD"):
        sync_js.add_stream(name=name, subjects=[f"{name}.>"], retention="workqueue" if name == "WQ" else "limits")
    try:
        with pytest.raises(ValueError, match="retention is workqueue"):
            jetarrow.sync.worker(sync_js, "WQ", durable="w", handler=print).run()
        sync_js.publish("WQ.a", b"payload", headers={"Nats-Msg-Id": "1", "colour": "red"})

        def handle(msg: Any) -> None:
            raise Reject("two\nlines")

        worker = jetarrow.sync.worker(sync_js, "WQ", durable="w", handler=handle, dead_letter="WQDEAD.x")
        with worker:
            wait_until(lambda: worker.metrics().dead == 1)
        copy = sync_js.get_msg("WQDEAD", 1)
        assert copy.data == b"payload"
        headers = dict(copy.headers or {})
        assert headers["colour"] == "red"
        assert headers["Jetarrow-Dead-Letter-Reason"] == "two lines"
        assert headers["Jetarrow-Dead-Letter-Subject"] == "WQ.a"
        assert sync_js.stream_info("WQ").state.messages == 0
    finally:
        for name in ("WQ", "WQDEAD"):
            sync_js.delete_stream(name)
