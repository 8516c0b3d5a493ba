"""Ctrl-C in every blocking call of the sync twin, with the server frozen."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.aio.msg import Msg
from jetarrow.server import NatsServer

from .calls import CALLS, COVERED

# Arrow's stream interface has no word for an exception of Python: pyarrow's own names it in its text.
OTHERWISE = {"read_arrow_stream": "ArrowInvalid:KeyboardInterrupt"}


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


def wait_until_blocked(pid: int) -> None:
    """Returns when the main thread has neither run nor wanted to for a while."""
    schedstat = Path(f"/proc/{pid}/task/{pid}/schedstat")

    def busy() -> int:
        return sum(map(int, schedstat.read_text().split()[:2]))

    while True:
        before = busy()
        time.sleep(0.2)
        if busy() - before < 5_000_000:
            return


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c(server: NatsServer, name: str) -> None:
    """Nothing but the signal can end the call."""
    program = Path(__file__).with_name("calls.py")
    command = [sys.executable, str(program), name, server.url, str(server.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "go\n"
            # Whatever else it does would be interrupted as well.
            wait_until_blocked(child.pid)
            pressed = time.monotonic()
            child.send_signal(signal.SIGINT)
            outcome, at = child.stdout.readline().split()
            assert (outcome, float(at) > pressed) == (OTHERWISE.get(name, "KeyboardInterrupt"), True)
            assert float(at) - pressed < 0.5
            assert child.stdout.readline() == f"{name}\n"
            # What the call left behind does not hold up the end.
            assert child.wait(10) == 0
        finally:
            server.resume()
            child.kill()


def named(text: str) -> set[str]:
    """ "Class: member member" in each line, as the names of calls."""
    lines = (line.split(": ") for line in text.strip().splitlines())
    return {f"{kind.strip()}.{member}" for kind, members in lines for member in members.split()}


# One request and its answer, as add_stream.
REQUESTS = named("""
    JetStreamManager: account_info find_stream_name_by_subject
    JetStreamManager: create_or_update_stream delete_stream get_or_create_stream get_stream purge_stream stream_info
    JetStreamManager: stream_names streams streams_info streams_info_iterator update_stream
    JetStreamManager: add_consumer consumer_info consumers_info delete_consumer pause_consumer reset_consumer
    JetStreamManager: resume_consumer update_consumer
    JetStreamManager: delete_msg get_last_msg get_msg
    Stream: delete_msg direct_get direct_get_last_for_subject get_last_msg get_msg info purge
    Stream: consumer_names consumers create_consumer delete_consumer get_consumer get_or_create_consumer update_consumer
    Consumer: info pause resume
    PullSubscription: consumer_info
    PushSubscription: consumer_info
    JetStream: pull_subscribe_bind subscribe_bind
    Advisories: __enter__
""")
# As the call that is made with the server frozen, by another name.
THE_SAME = {
    "Advisories.__next__": "Advisories.__iter__",
    "MessageBatch.nak": "MessageBatch.ack",
    "MessageBatch.term": "MessageBatch.ack",
    "MessageBatch.in_progress": "MessageBatch.ack",
    "PullSubscription.consume": "PullSubscription.messages",
    "Subscription.messages": "Subscription.__iter__",
    # Their __exit__ is their close().
    "Advisories.__exit__": "Advisories.close",
}
# Told to the server, which does not answer.
TOLD = named("""
    Client: force_reconnect subscribe
    Subscription: unsubscribe
    PullSubscription: unsubscribe
    Advisories: close
    Msg: ack ack_with in_progress nak respond term working
""")
# They do not reach for the server.
LOCAL = named("""
    Client: __enter__ jetstream jsm new_inbox set_server_pool
    JetStream: is_status_msg publish_async_pending publisher read
    JetStreamManager: advisories stream
    Stream: consumer
    MessageBatch: __arrow_c_array__ __arrow_c_schema__ __getitem__ __iter__ __len__
    MessageBatch: decode to_pandas to_polars to_pyarrow
    Publisher: __enter__
    PullSubscription: pull
    Reader: __arrow_c_schema__ __enter__ __iter__
""")
# What Python itself calls, and what makes an object: neither is called by name.
IMPLICIT = {"__init__", "__new__", "__repr__", "__module__", "__doc__"}


def calls_of(kind: type) -> dict[str, str]:
    """Every function that the objects of a class have, however it was made, and the class where it is defined."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("jetarrow"):
            continue
        # A base that only jetarrow knows counts for the class that is public.
        name = base.__name__ if getattr(jetarrow.sync, base.__name__, None) is base else kind.__name__
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


def test_every_call_is_known() -> None:
    """Whoever adds a method says here whether it blocks; if it does, the program `calls.py` makes the call."""
    kinds = [kind for name in jetarrow.sync.__all__ if isinstance(kind := getattr(jetarrow.sync, name), type)]
    # Its verbs block where the client does.
    kinds.append(Msg)
    found = {f"{owner}.{member}" for kind in kinds for member, owner in calls_of(kind).items()}
    assert len(kinds) > 10
    assert len(found) > 100
    lists = {"covered": COVERED, "requests": REQUESTS, "the same": set(THE_SAME), "told": TOLD, "local": LOCAL}
    known = [call for names in lists.values() for call in names]
    assert found - set(known) == set(), "in none of the lists"
    assert set(known) - found == set(), "no longer there"
    assert len(known) == len(set(known)), "in two of the lists"
    assert set(THE_SAME.values()) <= COVERED | TOLD
