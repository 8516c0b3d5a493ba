"""`jetarrow server` and `jetarrow trace` on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.server import NatsServer
from jetarrow.system import trace_request
from jetarrow.system.system import System

from tests.cli.tools import SYSTEM_ACCOUNT, SYSTEM_USER, Command
from tests.tools import cluster, wait_until


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, NatsServer]]:
    with cluster(more=SYSTEM_ACCOUNT) as servers:
        with jetarrow.sync.connect(servers["n0"].url, user="admin", password="x") as nc:
            wait_until(lambda: [answer.data.active_servers for answer in nc.system().ping()] == [3, 3, 3], 60)
            wait_until(lambda: nc.system(timeout=20).jsz(leader_only=True), 60)
        yield servers


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may pause a server for longer than the half second between two answers."""
    monkeypatch.setitem(System.__init__.__kwdefaults__, "stall", 30.0)
    monkeypatch.setattr(trace_request, "_STALL", 30.0)


@pytest.fixture
def at_n0(servers: dict[str, NatsServer], away: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, NatsServer]:
    (away / "admin.txt").write_text("x", "utf-8")
    monkeypatch.setenv("NATS_URL", servers["n0"].url)
    return servers


def test_ls_lists_every_server(at_n0: dict[str, NatsServer], cli: Command) -> None:
    rows = cli("server", "ls", *SYSTEM_USER, "--json").json
    assert [(row["name"], row["cluster"], row["jetstream"]) for row in rows] == [
        (name, "C", True) for name in ("n0", "n1", "n2")
    ]
    assert all(row["uptime"] > 0 and 0 < row["rtt"] < 30 and row["mem"] > 0 for row in rows)
    done = cli("server", "ls", *SYSTEM_USER)
    assert (done.code, done.err) == (0, "")
    assert all(name in done.out for name in at_n0)


def test_info_shows_one_server(at_n0: dict[str, NatsServer], cli: Command) -> None:
    assert cli("server", "info", *SYSTEM_USER, "--json").json["name"] == "n0"
    found = cli("server", "info", "n2", *SYSTEM_USER, "--json").json
    assert (found["name"], found["varz"]["server_name"]) == ("n2", "n2")
    assert "every 2m" in cli("server", "info", found["id"], *SYSTEM_USER).out
    done = cli("server", "info", "n22", *SYSTEM_USER)
    assert (done.code, done.out) == (1, "")
    assert "none of 3 servers has the name 'n22'" in done.err
    assert "did you mean 'n2'" in done.err


def test_report_lists_connections_by_traffic_and_jetstream_by_server(
    at_n0: dict[str, NatsServer], cli: Command
) -> None:
    with (
        jetarrow.sync.connect(at_n0["n1"].url, name="busy") as busy,
        jetarrow.sync.connect(at_n0["n2"].url, name="idle"),
    ):
        js = busy.jetstream(timeout=20)
        js.add_stream(name="REPORTED", subjects=["reported"], num_replicas=3)
        js.publish_batch("reported", [b"x" * 10_000] * 100).raise_for_errors()
        # More than the requests of this command.
        found = cli("server", "report", *SYSTEM_USER, "--top", "1", "--json").json
        assert [(one["server"], one["name"]) for one in found["connections"]] == [("n1", "busy")]
        assert found["connections"][0]["in_bytes"] > 1_000_000
        assert [one["server"] for one in found["jetstream"]] == ["n0", "n1", "n2"]
        assert sum(one["leader"] for one in found["jetstream"]) == 1
        assert all(one["enabled"] for one in found["jetstream"])
        named = cli("server", "report", *SYSTEM_USER, "--account", "$G", "--json").json["connections"]
        assert {one["name"] for one in named} >= {"busy", "idle"}
        assert {one["account"] for one in named} <= {"$G", None}
        shown = cli("server", "report", *SYSTEM_USER).out
        assert "busy" in shown
        assert "Healthy" in shown
        js.delete_stream("REPORTED")


def test_servers_need_the_system_account(at_n0: dict[str, NatsServer], cli: Command) -> None:
    for words in (["ls"], ["info"], ["info", "n1"], ["report"]):
        done = cli("server", *words)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), words
        assert "connect with a user of the system account" in done.err


def test_a_silent_server_is_a_warning(at_n0: dict[str, NatsServer], cli: Command) -> None:
    at_n0["n2"].pause()
    try:
        done = cli("server", "ls", *SYSTEM_USER, "--json")
    finally:
        at_n0["n2"].resume()
    assert [row["name"] for row in done.json] == ["n0", "n1"]
    assert done.err == "warning: 1 known server did not answer\n"


def test_trace_lists_the_way_of_a_message(at_n0: dict[str, NatsServer], cli: Command) -> None:
    with jetarrow.sync.connect(at_n0["n2"].url) as nc:
        sub = nc.subscribe("way")
        nc.flush()

        def has_reached_n2() -> bool:
            return [row["server"] for row in cli("trace", "way", "--json").json] == ["n0", "n0", "n2", "n2"]

        wait_until(has_reached_n2)
        rows = cli("trace", "way", "text", "--header", "Note: a", "--json").json
        assert [(row["hop"], row["kind"], row["event"]) for row in rows] == [
            ("", "client", "ingress"),
            ("", "router", "egress"),
            ("1", "router", "ingress"),
            ("1", "client", "egress"),
        ]
        assert sub.pending_msgs == 0
        assert "subscription 'way'" in cli("trace", "way", "text", "--deliver").out
        assert sub.next_msg(timeout=5).data == b"text"
    assert cli("trace", "a b").code == 1
    assert cli("trace", "a", "--header", "none").code == 2
