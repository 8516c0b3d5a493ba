"""Each finding of `js.doctor` about a cluster, planted on three real servers."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import jetarrow.sync
import pytest
from jetarrow.errors import Error
from jetarrow.jetstream.doctor.finding import Finding
from jetarrow.jetstream.doctor.thresholds import Thresholds
from jetarrow.server import NatsServer

from ..tools import cluster

_T = TypeVar("_T")


def retried(call: Callable[[], _T], wanted: Callable[[_T], bool] = lambda _: True) -> _T:
    """Repeats the call while the cluster elects leaders, until its result is as wanted."""
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(Error):
            result = call()
            if wanted(result):
                return result
        assert time.monotonic() < deadline, "not within 60 s"
        time.sleep(0.05)


def lead(nc: jetarrow.sync.Client, stream: str, server: str) -> str | None:
    """The leader of a stream; another one steps down in favour of the server."""
    cluster = nc.jetstream().stream_info(stream).cluster
    if cluster is not None and cluster.leader and cluster.leader != server:
        preferred = json.dumps({"placement": {"preferred": server}})
        nc.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{stream}", preferred, timeout=5)
    return cluster.leader if cluster else None


def texts(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(str(one.severity), one.object) for one in findings]


def problems(findings: list[Finding]) -> str:
    return " ".join(one.problem for one in findings)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, NatsServer]]:
    with cluster() as servers:
        yield servers


@pytest.mark.timeout(180)
def test_findings_of_a_cluster(servers: dict[str, NatsServer]) -> None:
    with jetarrow.sync.connect(servers["n0"].url) as nc:
        js = nc.jetstream(timeout=5)
        retried(lambda: js.add_stream(name="R3", subjects=["r3"], num_replicas=3))
        # New replicas become current.
        assert retried(lambda: list(js.doctor("R3")), lambda found: not found) == []
        retried(lambda: js.add_stream(name="R1", subjects=["r1"]))
        (one,) = retried(lambda: list(js.doctor("R1")), lambda found: len(found) == 1)
        assert (one.severity, one.object) == ("warning", "stream R1")
        assert one.problem.startswith("one replica in a cluster")
        retried(lambda: js.add_stream(name="R2", subjects=["r2"], num_replicas=2))
        found = retried(lambda: list(js.doctor("R2")), lambda found: len(found) == 1)
        assert found[0].problem.startswith("two replicas")
        retried(lambda: js.add_consumer("R3", durable_name="C", num_replicas=1))
        (one,) = retried(lambda: list(js.doctor("R3")), lambda found: len(found) == 1)
        assert (one.object, "fewer replicas than its stream" in one.problem) == ("consumer R3 > C", True)
        for name in ("R1", "R2"):
            js.delete_stream(name)
        js.delete_stream("R3")


@pytest.mark.newest_server
@pytest.mark.timeout(180)
def test_one_server_that_leads_all_streams(servers: dict[str, NatsServer]) -> None:
    with jetarrow.sync.connect(servers["n0"].url) as nc:
        js = nc.jetstream(timeout=5)
        for name in ("A", "B", "C"):
            retried(lambda name=name: js.add_stream(name=name, subjects=[name], num_replicas=3))  # type: ignore[misc]
            retried(lambda name=name: lead(nc, name, "n1"), lambda leader: leader == "n1")  # type: ignore[misc]

        def led() -> list[Finding]:
            return [one for one in js.doctor() if "led by one server" in one.problem]

        found = retried(led, lambda found: texts(found) == [("warning", "server n1")])
        assert found[0].evidence.startswith("3 streams, 0 of them")
        assert not any("led by one server" in one.problem for one in js.doctor("A"))
        retried(lambda: lead(nc, "A", "n0"), lambda leader: leader != "n1")
        assert retried(led, lambda found: not found) == []
        for name in ("A", "B", "C"):
            js.delete_stream(name)


@pytest.mark.timeout(180)
@pytest.mark.slow
def test_servers_that_are_down(servers: dict[str, NatsServer]) -> None:
    with jetarrow.sync.connect(servers["n0"].url) as nc:
        js = nc.jetstream(timeout=3)
        retried(lambda: js.add_stream(name="R3", subjects=["r3"], num_replicas=3))
        silent = Thresholds(replica_silence=2)
        retried(lambda: list(js.doctor("R3")), lambda found: not found)
        # A new leader knows of the old one only that it is not current.
        retried(lambda: lead(nc, "R3", "n0"), lambda leader: leader == "n0")
        servers["n2"].kill()
        # It is first not current, then offline.
        offline = "1 replica of 3 offline"
        found = retried(lambda: list(js.doctor("R3", thresholds=silent)), lambda found: offline in problems(found))
        assert texts(found) == [("warning", "stream R3")]
        assert (found[0].problem, found[0].evidence[:11]) == (offline, "offline: n2")
        # Without a majority the cluster has no leader.
        servers["n1"].kill()
        found = retried(lambda: list(js.doctor()), lambda found: texts(found) == [("error", "JetStream")])
        assert "err_code 10008" in found[0].evidence
        for name in ("n1", "n2"):
            servers[name].start()
        assert retried(lambda: list(js.doctor("R3")), lambda found: not found) == []
