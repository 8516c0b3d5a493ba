"""Workers that are members of a consumer group."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import jetarrow.sync
import pytest
from jetarrow import Backoff, Reject

from ..tools import wait_until
from .faces import FACES, running

QUICK = Backoff(initial=0.02, factor=1, attempts=3)
each_face = pytest.mark.parametrize("face", FACES)


@pytest.fixture
def group(sync_js: jetarrow.sync.JetStream, stream: str) -> Iterator[jetarrow.sync.groups.ConsumerGroup]:
    made = sync_js.create_consumer_group(stream, "G", partitions=4, filter=f"{stream}.*", members=["m1", "m2"])
    sync_js.add_stream(name=f"{stream}_DEAD", subjects=[f"dead.{stream}"])
    yield made
    made.delete()
    sync_js.delete_stream(f"{stream}_DEAD")


def publish(js: jetarrow.sync.JetStream, stream: str, count: int, keys: int = 8) -> None:
    subjects = [f"{stream}.k{number % keys}" for number in range(count)]
    js.publish_batch(subjects, [str(number) for number in range(count)]).raise_for_errors()


class Seen:
    """The handled messages: numbers by key."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[int]] = defaultdict(list)
        self.lock = threading.Lock()

    def add(self, subject: str, data: bytes) -> None:
        with self.lock:
            self.numbers[subject].append(int(data))

    def total(self) -> int:
        return sum(map(len, self.numbers.values()))


@each_face
def test_members_handle_all_in_the_order_of_each_key(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str, group: Any
) -> None:
    publish(sync_js, stream, 200)
    seen = Seen()
    failed: set[bytes] = set()

    def handle(message: Any) -> None:
        if message.data == b"17" and message.data not in failed:
            failed.add(message.data)
            raise ValueError("once")
        seen.add(message.subject, message.data)

    options: dict[str, Any] = {"durable": None, "group": "G", "ack_wait": 10.0, "dead_letter": f"dead.{stream}"}
    with (
        running(face, nats_url, stream, handler=handle, member="m1", retry=QUICK, **options),
        running(face, nats_url, stream, handler=handle, member="m2", retry=QUICK, **options),
    ):
        wait_until(lambda: seen.total() >= 200, 60)
        wait_until(lambda: sync_js.stream_info(f"{stream}-G").state.messages == 0, 30)
    assert failed == {b"17"}
    assert {key.rpartition(".")[2]: numbers for key, numbers in seen.numbers.items()} == {
        f"k{key}": list(range(key, 200, 8)) for key in range(8)
    }


@each_face
def test_rejected_messages_are_dead_letters(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str, group: Any
) -> None:
    publish(sync_js, stream, 20)

    def handle(message: Any) -> None:
        if message.data == b"5":
            raise Reject("five")

    options: dict[str, Any] = {"durable": None, "group": "G", "ack_wait": 10.0, "dead_letter": f"dead.{stream}"}
    with (
        running(face, nats_url, stream, handler=handle, member="m1", **options),
        running(face, nats_url, stream, handler=handle, member="m2", **options),
    ):
        wait_until(lambda: sync_js.stream_info(f"{stream}_DEAD").state.messages == 1, 60)
        wait_until(lambda: sync_js.stream_info(f"{stream}-G").state.messages == 0, 30)
    letter = sync_js.get_last_msg(f"{stream}_DEAD", f"dead.{stream}")
    assert letter.data == b"5"


@each_face
def test_batches_belong_to_one_partition(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str, group: Any
) -> None:
    publish(sync_js, stream, 200)
    seen = Seen()
    partitions: dict[str, set[int]] = defaultdict(set)

    def handle(batch: Any) -> None:
        rows = batch.to_pyarrow()
        for subject, data in zip(rows["subject"].to_pylist(), rows["data"].to_pylist(), strict=True):
            seen.add(subject, data)
            partitions[subject].add(batch.partition)

    options: dict[str, Any] = {"durable": None, "group": "G", "ack_wait": 10.0, "dead_letter": f"dead.{stream}"}
    with (
        running(face, nats_url, stream, batch_handler=handle, member="m1", seconds=0.1, **options),
        running(face, nats_url, stream, batch_handler=handle, member="m2", seconds=0.1, **options),
    ):
        wait_until(lambda: seen.total() >= 200, 60)
        wait_until(lambda: sync_js.stream_info(f"{stream}-G").state.messages == 0, 30)
    assert seen.total() == 200
    assert all(len(found) == 1 for found in partitions.values())
    for key, numbers in seen.numbers.items():
        assert numbers == sorted(numbers), key


def test_a_worker_takes_over_after_another_one(
    nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str, group: Any
) -> None:
    """The first worker of a member ends while messages are left; a second one under its name continues in order."""
    publish(sync_js, stream, 100)
    seen = Seen()

    def handle(message: Any) -> None:
        time.sleep(0.005)
        seen.add(message.subject, message.data)

    options: dict[str, Any] = {"durable": None, "group": "G", "ack_wait": 2.0, "dead_letter": f"dead.{stream}"}
    with running("sync", nats_url, stream, handler=handle, member="m2", **options):
        with running("sync", nats_url, stream, handler=handle, member="m1", concurrency=1, **options):
            wait_until(lambda: seen.total() >= 20, 60)
        with running("sync", nats_url, stream, handler=handle, member="m1", **options):
            wait_until(lambda: seen.total() >= 100, 60)
            wait_until(lambda: sync_js.stream_info(f"{stream}-G").state.messages == 0, 30)
    for key, numbers in seen.numbers.items():
        assert sorted(set(numbers)) == list(range(int(key.rpartition("k")[2]), 100, 8)), key
        assert numbers == sorted(numbers), key


def test_options_that_exclude_each_other(sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    with pytest.raises(TypeError, match="go together"):
        jetarrow.sync.worker(sync_js, stream, handler=print, group="G")
    with pytest.raises(TypeError, match=r"pass durable=.* or group="):
        jetarrow.sync.worker(sync_js, stream, handler=print)
    with pytest.raises(TypeError, match="durable, filter and group= exclude"):
        jetarrow.sync.worker(sync_js, stream, durable="d", filter="x", handler=print, group="G", member="m1")


def test_a_handlers_own_nak_has_the_message_delivered_again(
    nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str, group: Any
) -> None:
    publish(sync_js, stream, 20)
    seen = Seen()

    def handle(message: Any) -> None:
        seen.add(message.subject, message.data)
        if message.data == b"5" and message.metadata.num_delivered == 1:
            message.nak()

    options: dict[str, Any] = {"durable": None, "group": "G", "ack_wait": 10.0, "dead_letter": None}
    with (
        running("sync", nats_url, stream, handler=handle, member="m1", **options),
        running("sync", nats_url, stream, handler=handle, member="m2", **options),
    ):
        wait_until(lambda: seen.numbers[f"{stream}.k5"].count(5) == 2, 30)
        wait_until(lambda: sync_js.stream_info(f"{stream}-G").state.messages == 0, 30)


@each_face
def test_a_worker_ends_with_its_group(face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    made = sync_js.create_consumer_group(stream, "E", partitions=2, filter=f"{stream}.*", members=["m1"])
    publish(sync_js, stream, 5)
    seen = Seen()

    def handle(message: Any) -> None:
        seen.add(message.subject, message.data)

    options: dict[str, Any] = {"durable": None, "group": "E", "ack_wait": 10.0, "dead_letter": None}
    with running(face, nats_url, stream, handler=handle, member="m1", **options) as run:
        wait_until(lambda: seen.total() == 5, 30)
        made.delete()
        run.thread.join(30)
        assert not run.thread.is_alive()
    assert "has ended its member" in str(run.error)


@each_face
@pytest.mark.parametrize("fetches", [1, 3])
def test_rows_that_a_batch_handler_rejects_are_dead_letters(
    face: str, nats_url: str, sync_js: jetarrow.sync.JetStream, stream: str, group: Any, fetches: int
) -> None:
    """Also if a batch was collected in several fetches. The others are handled, in the order of their keys."""
    seen = Seen()

    def handle(batch: Any) -> None:
        rows = batch.to_pyarrow()
        data = rows["data"].to_pylist()
        if b"5" in data:
            raise Reject("five", rows=[data.index(b"5")])
        if b"13" in data:
            raise ValueError("always")
        for subject, value in zip(rows["subject"].to_pylist(), data, strict=True):
            seen.add(subject, value)

    options: dict[str, Any] = {"durable": None, "group": "G", "ack_wait": 10.0, "dead_letter": f"dead.{stream}"}
    with (
        running(face, nats_url, stream, batch_handler=handle, member="m1", seconds=1.0, retry=QUICK, **options) as one,
        running(face, nats_url, stream, batch_handler=handle, member="m2", seconds=1.0, retry=QUICK, **options) as two,
    ):
        for number in range(fetches):
            subjects = [f"{stream}.k{row % 8}" for row in range(40 // fetches)]
            rows = [str(row + number * len(subjects)) for row in range(len(subjects))]
            sync_js.publish_batch(subjects, rows).raise_for_errors()
            time.sleep(0.3 if number + 1 < fetches else 0)
        wait_until(lambda: sync_js.stream_info(f"{stream}_DEAD").state.messages == 2, 30)
        wait_until(lambda: sync_js.stream_info(f"{stream}-G").state.messages == 0, 30)
    assert (one.error, two.error) == (None, None)
    letters = sync_js.read(f"{stream}_DEAD", columns=["data"]).read_all().column(0).to_pylist()
    assert sorted(letters) == [b"13", b"5"]
    assert seen.total() == 40 // fetches * fetches - 2
