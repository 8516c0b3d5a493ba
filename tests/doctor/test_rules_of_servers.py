"""The rules of `js.doctor` about servers, at their thresholds; and the response that their facts are read from."""

from __future__ import annotations

from datetime import timedelta

import pytest
from jetarrow.jetstream.doctor.finding import error, info, sorted_findings, warning
from jetarrow.jetstream.doctor.snapshot import Clock, ServerFacts, Usage
from jetarrow.jetstream.doctor.system import clock_of

from .facts import NOW, all_of, found, of_servers, snapshot


def server(name: str = "n0", **facts: object) -> ServerFacts:
    return ServerFacts(name, **{"version": "2.15.1", **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (-0.5, 0.5, None),
        (0.99, 1.2, None),
        (1.0, 1.2, "1s behind that of server n0"),
        (-1.2, -1.0, "1s ahead of that of server n0"),
        (-1.5, 1.5, None),
    ],
)
def test_the_clock_of_the_client(low: float, high: float, text: str | None) -> None:
    findings = all_of(snapshot(clock=Clock(low, high)))
    assert [one.object for one in findings] == ["client"] * (text is not None)
    assert all(text is not None and text in one.problem for one in findings)


def test_clocks_of_servers_that_differ() -> None:
    exact, late, slow = (server(f"n{at}", clock=Clock(by, by + 0.1)) for at, by in enumerate((0.0, -2.0, -0.5)))
    assert found(of_servers(exact, slow)) == []
    (finding,) = all_of(of_servers(exact, late, slow))
    assert (finding.object, finding.evidence) == ("servers n1, n0", "n0 is at least 1.9s ahead of n1")
    # Both are ahead of the client by more than a second, and agree.
    ahead = [server(f"n{at}", clock=Clock(60.0, 60.1)) for at in range(2)]
    assert found(of_servers(*ahead)) == [("warning", "client")]


def test_clock_bounds_are_the_times_of_request_and_response() -> None:
    clock = clock_of(NOW, NOW - timedelta(seconds=3), NOW + timedelta(seconds=1))
    assert clock == Clock(-1.0, 3.0)
    assert clock_of(None, NOW, NOW) == Clock(0.0, 0.0)


def test_servers_of_different_versions() -> None:
    assert found(of_servers(server("n0"), server("n1"))) == []
    (finding,) = all_of(of_servers(server("n0"), server("n1", version="2.14.6")))
    assert finding.evidence == "2.14.6: n1; 2.15.1: n0"


@pytest.mark.parametrize(("slow", "count"), [({}, 0), ({"clients": 0, "routes": 0}, 0), ({"clients": 1}, 1)])
def test_slow_consumers(slow: dict[str, int], count: int) -> None:
    assert found(of_servers(server(slow=slow))) == [("warning", "server n0")] * count


@pytest.mark.parametrize(
    ("usage", "severity"),
    [
        (Usage(79, 0, 100), []),
        (Usage(80, 0, 100), ["warning"]),
        (Usage(100, 0, 100), ["error"]),
        (Usage(0, 80, 100), ["warning"]),
        (Usage(0, 100, 100), ["warning"]),
        (Usage(80, 80, 0), []),
    ],
)
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_storage_of_a_server(kind: str, usage: Usage, severity: list[str]) -> None:
    assert found(of_servers(server(**{kind: usage}))) == [(one, "server n0") for one in severity]


@pytest.mark.parametrize(
    ("left", "severity"), [(timedelta(days=30), []), (timedelta(days=29), ["warning"]), (timedelta(0), ["error"])]
)
def test_certificates(left: timedelta, severity: list[str]) -> None:
    assert found(of_servers(server(certificates={"clients": NOW + left}))) == [(one, "server n0") for one in severity]


def test_peers_that_are_offline_and_a_cluster_without_a_leader() -> None:
    gone = frozenset({"n9"})
    assert found(of_servers(server("n0", late_peers=gone), server("n1", late_peers=gone))) == [("warning", "server n9")]
    # A server that answers is not offline.
    assert found(of_servers(server("n0", late_peers=frozenset({"n1"})), server("n1"))) == []
    assert found(of_servers(server("n0", has_meta_leader=False), server("n1"))) == []
    assert found(of_servers(server("n0", has_meta_leader=False))) == [("error", "servers")]


def test_findings_are_sorted_by_severity_and_object() -> None:
    given = [
        make(name, "p", evidence="e", remedy="r")
        for make, name in ((info, "a"), (warning, "c"), (error, "d"), (warning, "b"))
    ]
    findings = sorted_findings(given, ["x"])
    assert [one.object for one in findings] == ["d", "b", "c", "a"]
    assert (findings.worst, len(findings), findings.not_checked) == ("error", 4, ("x",))
    assert sorted_findings([], []).worst is None
