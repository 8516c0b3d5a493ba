"""Ctrl-C in every blocking call of the sync twin, with the server frozen."""

from __future__ import annotations

import copy
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.js.api import AckKind
from jetarrow.server import NatsServer

from ..forks import Forks
from ..tools import time_without_processor, wait_until_blocked
from .calls import CALLS, COVERED, Setting

# Arrow's C stream interface carries no Python exceptions: pyarrow raises its own error, whose text names it.
OTHERWISE = {"read_arrow_stream": "ArrowInvalid:KeyboardInterrupt"}


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks("tests.survive.calls") as forks:
        yield forks


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c(server: NatsServer, forks: Forks, name: str) -> None:
    """SIGINT interrupts every blocking call within 0.5 s, and the process then exits with 0."""
    program = "import sys; from tests.survive.calls import main; main(*sys.argv[1:])"
    child = forks.start(program, name, server.url, str(server.pid))
    try:
        assert child.stdout.readline() == "go\n", child.stderr.read()
        # The signal must arrive inside the call: other code would be interrupted as well.
        wait_until_blocked(child.pid)
        pressed, waited = time.monotonic(), time_without_processor(child.pid)
        os.kill(child.pid, signal.SIGINT)
        line = child.stdout.readline()
        waited = max(time_without_processor(child.pid) - waited, 0.0)
        assert len(line.split()) == 2, line
        outcome, at = line.split()
        assert (outcome, float(at) > pressed) == (OTHERWISE.get(name, "KeyboardInterrupt"), True)
        assert float(at) - pressed - waited < 0.5
        assert child.stdout.readline() == f"{name}\n"
        # The interrupted call does not delay the exit.
        assert child.wait(10) == 0
    finally:
        server.resume()
        child.kill()


def named(text: str) -> set[str]:
    """Parses lines of the form "Class: member member" into the names of calls."""
    lines = (line.split(": ") for line in text.strip().splitlines())
    return {f"{kind.strip()}.{member}" for kind, members in lines for member in members.split()}


# Calls of one request and its answer, like add_stream.
REQUESTS = named("""
    JetStreamManager: account_info find_stream_name_by_subject
    JetStreamManager: create_or_update_stream delete_stream get_or_create_stream get_stream purge_stream stream_info
    JetStreamManager: stream_names streams streams_info streams_info_iterator update_stream
    JetStreamManager: add_consumer consumer_info consumers_info delete_consumer pause_consumer reset_consumer
    JetStreamManager: resume_consumer update_consumer
    JetStreamManager: delete_msg get_last_msg get_msg backup_stream counter restore_stream unpin_consumer
    Stream: delete_msg direct_get direct_get_last_for_subject get_last_msg get_msg info purge
    Stream: consumer_names consumers create_consumer delete_consumer get_consumer get_or_create_consumer update_consumer
    Stream: backup counter delete remove_peer step_down update
    Consumer: delete info pause reset resume step_down unpin
    PullSubscription: consumer_info destroy
    PushSubscription: consumer_info destroy
    JetStream: keep_dead_letters pull_subscribe_bind subscribe_bind
    JetStream: create_key_value delete_key_value key_value key_value_names key_values update_key_value
    KeyValue: create delete get history keys purge purge_deletes put status update watch watchall
    JetStream: create_object_store delete_object_store object_store object_store_names object_stores
    ObjectStore: add_bucket_link add_link clean delete get_info seal status update_meta watch
    JetStream: consumer_groups create_consumer_group open_consumer_group
    ConsumerGroup: add_member delete info members remove_member set_mappings step_down
    GroupMember: __enter__ __exit__ close open step_down
    Advisories: __enter__
""")
# Calls that block like another call, which is tested with the server frozen.
THE_SAME = {
    "Advisories.__next__": "Advisories.__iter__",
    "MessageBatch.nak": "MessageBatch.ack",
    "MessageBatch.term": "MessageBatch.ack",
    "MessageBatch.in_progress": "MessageBatch.ack",
    "PullSubscription.batches": "Consumer.batches",
    "PullSubscription.consume": "PullSubscription.messages",
    "Reader.to_polars": "Reader.read_all",
    "Reader.to_pandas": "Reader.read_all",
    "Reader.to_duckdb": "Reader.read_all",
    "Consumer.messages": "PullSubscription.messages",
    "JetStream.consume": "PullSubscription.messages",
    "JetStream.fetch": "PullSubscription.fetch",
    "JetStream.increment": "JetStream.publish",
    "JetStream.publish_table": "JetStream.publish_batch",
    "JetStreamManager.get_batch": "Client.request_many",
    "JetStreamManager.get_last_msgs_for": "Client.request_many",
    "Stream.get_batch": "Client.request_many",
    "Stream.get_last_msgs_for": "Client.request_many",
    "Stream.ordered_consumer": "JetStream.ordered_consumer",
    "DeadLetters.read_all": "Reader.read_all",
    "DeadLetters.to_polars": "Reader.read_all",
    "DeadLetters.to_pandas": "Reader.read_all",
    "DeadLetters.replay": "JetStream.publish_batch",
    "Sink.compact": "Sink.run",
    "Sink.step": "Sink.run",
    "Sink.close": "Sink.run",
    "Sink.__exit__": "Sink.run",
    # Fetches of a pull consumer.
    "GroupMember.batches": "PullSubscription.fetch_batch",
    "Pipe.step": "Pipe.run",
    "Pipe.close": "Pipe.run",
    "Pipe.__exit__": "Pipe.run",
    "Subscription.messages": "Subscription.__iter__",
    **dict.fromkeys(named("System: accountz connz gatewayz healthz jsz leafz ping routez subsz"), "System.varz"),
    # Binding to a consumer; then the fetches of a thread, and the flush of the acks.
    "Worker.__enter__": "JetStream.pull_subscribe",
    "Worker.run": "JetStream.pull_subscribe",
    "Worker.__exit__": "Client.flush",
    # Their __exit__ is their close().
    "Advisories.__exit__": "Advisories.close",
    "KeyWatcher.__exit__": "KeyWatcher.stop",
    # A publish_batch, and a read.
    "KeyValue.put_batch": "JetStream.publish_batch",
    "KeyValue.to_table": "Reader.read_all",
    "ObjectStore.list": "Reader.read_all",
    "ObjectStore.put_file": "ObjectStore.put",
    "ObjectStore.get_file": "ObjectStore.get",
    "ObjectWatcher.__exit__": "ObjectWatcher.stop",
}
# Calls that send to the server, which does not answer.
TOLD = named("""
    Client: force_reconnect subscribe
    Subscription: unsubscribe
    Advisories: close
    KeyWatcher: stop
    ObjectWatcher: stop
    Msg: ack ack_with in_progress nak respond term working
""")
# Calls that make no request.
LOCAL = named("""
    Msg: __delattr__ __eq__ __getstate__ __reduce_ex__ __setattr__ __setstate__
    Client: __enter__ ack_latency metrics metrics_by_verb msg_class jetstream jsm new_inbox set_server_pool system
    JetStream: is_status_msg latest publish_async_pending publisher read
    JetStreamManager: advisories get_options jetstream stream
    Stream: consumer
    MessageBatch: __arrow_c_array__ __arrow_c_schema__ __getitem__ __iter__ __len__
    MessageBatch: decode to_pandas to_polars to_pyarrow
    Publisher: __enter__
    PullSubscription: drain pull unsubscribe
    Reader: __enter__ __iter__
    JetStream: consumer_group dead_letters pipe to_delta to_iceberg to_parquet
    Sink: __enter__
    Pipe: __enter__
    ConsumerGroup: consumer_of
    KeyValue: read
    KeyWatcher: __enter__ __iter__
    ObjectWatcher: __enter__ __iter__
    Worker: metrics stop
""")
# Members that Python calls itself, and constructors: users do not call them by name.
IMPLICIT = {"__init__", "__new__", "__repr__", "__reduce__", "__module__", "__doc__"}


def calls_of(kind: type) -> dict[str, str]:
    """Returns each callable member of a class's objects, with the name of the class that defines it."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("jetarrow"):
            continue
        # Members of a private base class count as members of the first public class that has it.
        public = [one for one in kind.__mro__ if getattr(jetarrow.sync, one.__name__, None) is one]
        name = [one for one in public if base in one.__mro__][-1].__name__
        for member, value in vars(base).items():
            hidden = member.startswith("_") and not member.startswith("__")
            if (
                not hidden
                and member not in IMPLICIT
                and callable(getattr(kind, member))
                and not isinstance(value, type)
            ):
                found[member] = name
    return found


def properties(kind: type) -> set[str]:
    names = {name for name in dir(kind) if isinstance(getattr(kind, name), property) and not name.startswith("_")}
    return {f"{kind.__name__}.{name}" for name in names}


def test_every_public_method_is_listed_once() -> None:
    """Every public method is in exactly one list, which states whether it blocks.

    A blocking method has a call in `calls.py`, or is listed as similar to another one.
    """
    kinds = [kind for name in jetarrow.sync.__all__ if isinstance(kind := getattr(jetarrow.sync, name), type)]
    found = {f"{owner}.{member}" for kind in kinds for member, owner in calls_of(kind).items()}
    found |= {name for kind in kinds for name in properties(kind)} & COVERED
    assert len(kinds) > 10
    assert len(found) > 100
    lists = {"covered": COVERED, "requests": REQUESTS, "the same": set(THE_SAME), "told": TOLD, "local": LOCAL}
    known = [call for names in lists.values() for call in names]
    assert found - set(known) == set(), "in none of the lists"
    assert set(known) - found == set(), "no longer there"
    assert len(known) == len(set(known)), "in two of the lists"
    assert set(THE_SAME.values()) <= COVERED | TOLD


@pytest.mark.timeout(120)
def test_calls_listed_as_non_blocking_return_from_a_frozen_server(server: NatsServer) -> None:
    """Each call returns within 0.5 s with the server frozen."""
    at = Setting("LOCAL", server.url, server.pid)
    nc, js, stream = at.nc, at.js, at.stream
    messages = at.sub.fetch(8)
    batch = at.sub.fetch_batch(2, min_messages=2, timeout=10)
    assert len(batch.to_pandas()) == len(batch.to_polars()) == 2  # Importing the libraries takes long.
    core, events, reader = nc.subscribe("a"), js.advisories().__enter__(), js.read(stream)
    kv = js.create_key_value(bucket="LOCAL")
    group = js.create_consumer_group(stream, "LOCAL", partitions=2)
    watcher = kv.watchall()
    objects = js.create_object_store("LOCAL").watch()
    calls: dict[str, Callable[[], object]] = {
        "Client.__enter__": nc.__enter__,
        "Client.ack_latency": nc.ack_latency,
        "Client.metrics_by_verb": nc.metrics_by_verb,
        "Client.jetstream": nc.jetstream,
        "Client.jsm": nc.jsm,
        "Client.new_inbox": nc.new_inbox,
        "Client.system": nc.system,
        "Client.set_server_pool": lambda: nc.set_server_pool([server.url]),
        "Client.subscribe": lambda: nc.subscribe("b"),
        "JetStream.is_status_msg": lambda: js.is_status_msg(None),
        "JetStream.publish_async_pending": js.publish_async_pending,
        "JetStream.publisher": js.publisher,
        "JetStream.read": lambda: js.read(stream),
        "JetStream.latest": lambda: js.latest(stream),
        "JetStreamManager.advisories": js.advisories,
        "JetStreamManager.get_options": js.get_options,
        "JetStreamManager.jetstream": js.jetstream,
        "JetStreamManager.stream": lambda: js.stream(stream),
        "Stream.consumer": lambda: js.stream(stream).consumer("d"),
        "MessageBatch.__arrow_c_array__": batch.__arrow_c_array__,
        "MessageBatch.__arrow_c_schema__": batch.__arrow_c_schema__,
        "MessageBatch.__getitem__": lambda: batch[0],
        "MessageBatch.__iter__": lambda: list(batch),
        "MessageBatch.__len__": lambda: len(batch),
        "MessageBatch.decode": lambda: batch.decode(pa.schema([("id", pa.int64())])),
        "MessageBatch.to_pandas": batch.to_pandas,
        "MessageBatch.to_polars": batch.to_polars,
        "MessageBatch.to_pyarrow": batch.to_pyarrow,
        "Publisher.__enter__": js.publisher().__enter__,
        "PullSubscription.drain": lambda: js.stream(stream).consumer("e").drain(),
        "PullSubscription.pull": at.sub.pull,
        "PullSubscription.unsubscribe": lambda: at.sub.unsubscribe(),
        "Reader.__enter__": reader.__enter__,
        "Reader.__iter__": reader.__iter__,
        "JetStream.dead_letters": lambda: js.dead_letters(stream),
        "JetStream.to_delta": lambda: js.to_delta(stream, "never"),
        "JetStream.to_iceberg": lambda: js.to_iceberg(stream, "db.never"),
        "JetStream.to_parquet": lambda: js.to_parquet(stream, "never"),
        "JetStream.consumer_group": lambda: js.consumer_group(stream, "G", member="m"),
        "ConsumerGroup.consumer_of": lambda: group.consumer_of("m"),
        "JetStream.pipe": lambda: js.pipe(stream, stream, print, name="p"),
        "Pipe.__enter__": js.pipe(stream, stream, print, name="p").__enter__,
        "Worker.metrics": (worker := jetarrow.sync.worker(js, stream, durable="c", handler=print)).metrics,
        "Worker.stop": worker.stop,
        "Sink.__enter__": js.to_parquet(stream, "never").__enter__,
        "KeyValue.read": kv.read,
        "KeyWatcher.__enter__": watcher.__enter__,
        "KeyWatcher.__iter__": watcher.__iter__,
        "KeyWatcher.stop": watcher.stop,
        "ObjectWatcher.__enter__": objects.__enter__,
        "ObjectWatcher.__iter__": objects.__iter__,
        "ObjectWatcher.stop": objects.stop,
        "Client.metrics": nc.metrics,
        "Client.msg_class": lambda: nc.msg_class,
        "Msg.__delattr__": lambda: (setattr(messages[7], "own", 1), delattr(messages[7], "own")),
        "Msg.__eq__": lambda: messages[7] == messages[6],
        "Msg.__getstate__": messages[7].__getstate__,
        "Msg.__reduce_ex__": lambda: copy.copy(messages[7]),
        "Msg.__setattr__": lambda: setattr(messages[7], "subject", "b"),
        "Msg.__setstate__": lambda: copy.copy(messages[7]).subject,
        "Msg.ack": messages[0].ack,
        "Msg.ack_with": lambda: messages[1].ack_with(AckKind.ACK),
        "Msg.in_progress": messages[2].in_progress,
        "Msg.nak": messages[3].nak,
        "Msg.respond": lambda: messages[4].respond(b""),
        "Msg.term": messages[5].term,
        "Msg.working": messages[6].working,
        "Subscription.unsubscribe": core.unsubscribe,
        "Advisories.close": events.close,
        "Client.force_reconnect": nc.force_reconnect,
    }
    assert set(calls) == LOCAL | TOLD
    for held in (nc, js.stream(stream), js.stream(stream).consumer("d"), at.sub, core, batch, js.publisher(), reader):
        for name in properties(type(held)) - COVERED:
            calls[name] = partial(getattr, held, name.partition(".")[2], None)
    assert len(calls) > len(LOCAL | TOLD) + 20
    # These import libraries.
    js.to_delta(stream, "never")
    js.to_iceberg(stream, "db.never")
    slow: dict[str, float] = {}
    at.freeze()
    try:
        for name, call in calls.items():
            begin, waited = time.monotonic(), time_without_processor(os.getpid())
            with suppress(jetarrow.errors.Error):  # Only the duration matters, not the error.
                call()
            waited = time_without_processor(os.getpid()) - waited
            if (took := time.monotonic() - begin - waited) > 0.5:
                slow[name] = took
    finally:
        server.resume()
    nc.close()
    assert slow == {}
