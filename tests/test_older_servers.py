"""Features that an older server lacks are refused at once, with the required version; those with a fallback work.

`make test` puts the servers into `.servers`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jetarrow
import jetarrow.server
import jetarrow.sync
import pytest
from jetarrow.errors import UnsupportedError
from jetarrow.js.api import StreamConfig
from jetarrow.js.errors import APIError, ServiceUnavailableError
from jetarrow.server import NatsServer

SERVERS = Path(__file__).parent.parent / ".servers"


@pytest.fixture(params=["2.10.26", "2.12.8"])
def older(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, NatsServer]]:
    """A server, and the second number of its version."""
    version: str = request.param
    found = list((SERVERS / version).rglob("nats-server"))
    if not found:
        pytest.skip(f"nats-server {version} is not in {SERVERS.name}: make .stamps/servers")
    monkeypatch.setattr(jetarrow.server, "find_executable", lambda: found[0])
    with NatsServer() as server:
        yield int(version.split(".")[1]), server


def test_verbs_and_settings(older: tuple[int, NatsServer]) -> None:
    minor, server = older
    with jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s"])
        js.add_consumer("S", durable_name="c")
        until = datetime.now(UTC) + timedelta(hours=1)
        calls = {
            "reset_consumer": (14, lambda: js.reset_consumer("S", "c")),
            "pause_consumer": (11, lambda: js.pause_consumer("S", "c", until)),
            "allow_msg_ttl": (11, lambda: js.add_stream(name="T", subjects=["t"], allow_msg_ttl=True)),
            "allow_atomic": (12, lambda: js.add_stream(name="A", subjects=["a"], allow_atomic=True)),
            "allow_batched": (14, lambda: js.update_stream(name="S", subjects=["s"], allow_batched=True)),
            "priority_groups": (
                11,
                lambda: js.add_consumer("S", name="p", priority_groups=["g"], priority_policy="overflow"),
            ),
        }
        refused = set()
        for name, (since, call) in calls.items():
            if minor >= since:
                call()
                continue
            began = time.monotonic()
            with pytest.raises(UnsupportedError, match=rf"{name}.*nats-server 2\.{since} or newer.*this is 2\.{minor}"):
                call()
            # A request without an answer would last 5 s.
            assert time.monotonic() - began < 2.5
            refused.add(name)
        assert refused == {name for name, (since, _) in calls.items() if minor < since}
        # Streams with options that the server would have ignored silently were not created.
        if minor < 12:
            assert list(js.stream_names()) == ["S"]


def test_trace_is_refused_where_it_would_be_delivered(older: tuple[int, NatsServer]) -> None:
    minor, server = older
    with jetarrow.sync.connect(server.url) as nc:
        sub = nc.subscribe("traced")
        if minor >= 11:
            assert len(nc.trace("traced")) == 2
        else:
            sent = nc.stats["out_msgs"]
            with pytest.raises(UnsupportedError, match=r"trace.*nats-server 2\.11 or newer.*this is 2\.10"):
                nc.trace("traced")
            assert nc.stats["out_msgs"] == sent
        nc.flush()
        assert sub.pending_msgs == 0


def test_preferred_leader(older: tuple[int, NatsServer]) -> None:
    minor, server = older
    with jetarrow.sync.connect(server.url) as nc:
        stream = nc.jetstream().stream("S")
        expected = ServiceUnavailableError if minor >= 11 else UnsupportedError
        for call in (stream.step_down, stream.consumer("c").step_down):
            with pytest.raises(expected):
                call("n1")
            with pytest.raises(ServiceUnavailableError, match="it needs a cluster"):
                call()


@pytest.mark.parametrize("version", ["2.10.26", "2.11.11", "2.12.8"])
def test_servers_answer_every_verb(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list((SERVERS / version).rglob("nats-server"))
    if not found:
        pytest.skip(f"nats-server {version} is not in {SERVERS.name}: make .stamps/servers")
    monkeypatch.setattr(jetarrow.server, "find_executable", lambda: found[0])
    config = "accounts { $SYS { users: [ { user: admin, password: x } ] } }"
    with NatsServer(config=config) as server, jetarrow.sync.connect(server.url, user="admin", password="x") as nc:
        system = nc.system(timeout=60, stall=30)
        for verb in ("ping", "varz", "connz", "jsz", "healthz", "subsz", "routez", "gatewayz", "leafz", "accountz"):
            begin = time.monotonic()
            (answer,) = getattr(system, verb)()
            assert answer.server.version == version
            # Without a stall: the server reports the number of servers.
            assert time.monotonic() - begin < 15


def test_time_to_live(older: tuple[int, NatsServer]) -> None:
    """`msg_ttl` is refused for servers before 2.11, which would silently store the message forever."""
    minor, server = older
    with jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s"], allow_msg_ttl=True if minor >= 11 else None)
        calls = {
            "publish": lambda: js.publish("s", b"x", msg_ttl=60),
            "publish_async": lambda: js.publish_async("s", b"x", msg_ttl=60).result(20),
            "publish_batch": lambda: js.publish_batch("s", [b"x"], msg_ttl=60).raise_for_errors(),
        }
        for call in calls.values():
            if minor >= 11:
                call()
                continue
            sent = nc.stats["out_msgs"]
            with pytest.raises(UnsupportedError, match=rf"msg_ttl.*nats-server 2\.11 or newer.*this is 2\.{minor}"):
                call()
            assert nc.stats["out_msgs"] == sent
        assert js.stream_info("S").state.messages == (3 if minor >= 11 else 0)


def test_requests_with_another_prefix_are_not_refused(older: tuple[int, NatsServer]) -> None:
    """The request is sent, because a leaf node may be older than the hub that answers; here it has no responders."""
    _, server = older
    with jetarrow.sync.connect(server.url) as nc, pytest.raises(ServiceUnavailableError):
        nc.jetstream(prefix="$JS.hub.API").reset_consumer("S", "c")


def test_reading_by_time(older: tuple[int, NatsServer]) -> None:
    """Reading by time works; servers before 2.11 need a bisection, also across deleted messages."""
    _, server = older
    with jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(StreamConfig(name="S", subjects=["s"]))
        for number in range(40):
            js.publish("s", b"%d" % number)
        gone = {1, 2, 3, 10, 11, 12, 13, 30, 40}
        for seq in gone:
            js.delete_msg("S", seq)
        stored = {seq: js.get_msg("S", seq).time for seq in range(1, 41) if seq not in gone}
        assert len(set(stored.values())) == len(stored)
        for seq, moment in stored.items():
            with js.read("S", start_time=moment) as reader:
                assert [found for batch in reader for found in batch.seqs.to_pylist()] == [
                    s for s in stored if s >= seq
                ]
            with js.read("S", end_time=moment) as reader:
                assert [found for batch in reader for found in batch.seqs.to_pylist()] == [s for s in stored if s < seq]
        with js.read("S", start_time=datetime.now(UTC) + timedelta(hours=1)) as reader:
            assert list(reader) == []
        with js.read("S", start_time=datetime.now(UTC) - timedelta(hours=1)) as reader:
            assert sum(len(batch) for batch in reader) == len(stored)


def test_options_of_newer_servers_are_refused(older: tuple[int, NatsServer]) -> None:
    minor, server = older
    with jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s.>"], allow_direct=True)
        js.publish("s.b", b"x")
        calls = {
            "msg_ttl": (11, lambda: js.publish("s.a", msg_ttl="never")),
            "expected_last_subject_seq_subject": (
                11,
                lambda: js.publish("s.c", expected_last_subject_seq=1, expected_last_subject_seq_subject="s.b"),
            ),
            "schedule=": (12, lambda: js.publish("s.a", schedule=datetime.now(UTC), schedule_target="s.t")),
            "schedule='@every": (
                14,
                lambda: js.publish("s.a", schedule=timedelta(minutes=1), schedule_target="s.t"),
            ),
            "schedule_source": (
                14,
                lambda: js.publish("s.a", schedule="@at 2030-01-01T00:00:00Z", schedule_source="s.b"),
            ),
            "increment": (12, lambda: js.increment("s.a")),
            "multi-get": (11, lambda: js.get_batch("S", 1)),
            "unpin_consumer": (11, lambda: js.unpin_consumer("S", "c", "g")),
            "group": (11, lambda: js.fetch("S", "c", group="g")),
            "priority": (12, lambda: js.fetch("S", "c", group="g", priority=1)),
        }
        for name, (since, call) in calls.items():
            if minor >= since:
                # Errors for other reasons do not matter here.
                with suppress(APIError):
                    call()
                continue
            # On the oldest server the option that it depends on is refused first.
            asked = {"priority": "group", "schedule_source": "schedule="}.get(name, name) if minor < 11 else name
            with pytest.raises(UnsupportedError, match=rf"{asked}.*nats-server 2\.\d+ or newer.*this is 2\.{minor}"):
                call()
        # A batch is refused as well, with a TTL for all rows or for some.
        for ttl in ("never", [5, None]):
            if minor < 11:
                with pytest.raises(UnsupportedError, match="msg_ttl"):
                    js.publish_batch("s.a", [b"1", b"2"], msg_ttl=ttl)


def test_backup_and_restore_work_on_older_servers(older: tuple[int, NatsServer], tmp_path: Path) -> None:
    _, server = older
    with jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="S", subjects=["s"])
        js.publish("s", b"x")
        assert js.backup_stream("S", tmp_path).state.messages == 1
        js.delete_stream("S")
        assert js.restore_stream(tmp_path).state.messages == 1
