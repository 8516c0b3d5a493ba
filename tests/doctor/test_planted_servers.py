"""Each finding of `js.doctor` that needs the system account, planted on real servers."""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jetarrow.server
import jetarrow.sync
import pytest
from jetarrow.aio.msg import Msg
from jetarrow.errors import Error
from jetarrow.jetstream.doctor.finding import Finding, Findings
from jetarrow.jetstream.doctor.system import VARZ
from jetarrow.server import NatsServer

from ..connect.conftest import Authority
from ..tools import free_ports, wait_for_leader

SERVERS = Path(__file__).parents[2] / ".servers"
ACCOUNTS = """
accounts {
  APP { jetstream: enabled, users: [{user: app, password: pw}] }
  SYS { users: [{user: sys, password: pw}] }
}
system_account: SYS
"""
ALWAYS = f"{ACCOUNTS}\njetstream {{ sync_interval: always }}\n"


@contextlib.contextmanager
def clients(server: NatsServer) -> Iterator[tuple[jetarrow.sync.JetStream, jetarrow.sync.Client]]:
    """A context of the account, and a client of the system account."""
    with (
        jetarrow.sync.connect(server.url, user="app", password="pw") as nc,
        jetarrow.sync.connect(server.url, user="sys", password="pw") as system,
    ):
        yield nc.jetstream(), system


def only(findings: Findings, word: str) -> Finding:
    """The only finding with this word."""
    assert findings.not_checked == ()
    (finding,) = [one for one in findings if word in one.problem]
    return finding


def test_sync_interval() -> None:
    with NatsServer(config=ACCOUNTS) as server, clients(server) as (js, system):
        js.add_stream(name="P", subjects=["p"])
        finding = only(js.doctor(system=system), "flushed to disk")
        assert (finding.severity, finding.evidence) == ("warning", "sync_interval 2m; streams with one replica: P")
        # The client of the account does not see it.
        assert list(js.doctor()) == []
        assert len(js.doctor().not_checked) == 1
    with (
        NatsServer(config=ALWAYS) as server,
        clients(server) as (js, system),
    ):
        js.add_stream(name="P", subjects=["p"])
        assert list(js.doctor(system=system)) == []


def test_slow_consumers() -> None:
    config = f'{ALWAYS}max_pending: 1MB\nwrite_deadline: "1s"'
    with NatsServer(config=config) as server, clients(server) as (js, system):
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            # Subscribes, and reads nothing.
            slow.sendall(b'CONNECT {"user":"app","pass":"pw","verbose":false}\r\nSUB big 1\r\nPING\r\n')
            said = b""
            while b"PONG" not in said:
                said += slow.recv(65_536)
            with jetarrow.sync.connect(server.url, user="app", password="pw") as nc:
                found: list[Finding] = []
                while not found:
                    nc.publish("big", bytes(500_000))
                    nc.flush()
                    found = [one for one in js.doctor(system=system) if "slow consumers" in one.problem]
        assert (found[0].severity, "1 client since the start" in found[0].evidence) == ("warning", True)


def test_storage_of_the_server() -> None:
    config = f"{ACCOUNTS}\njetstream {{ sync_interval: always, max_file_store: 1MB, max_memory_store: 1MB }}"
    with NatsServer(config=config) as server, clients(server) as (js, system):
        js.add_stream(name="P", subjects=["p"])
        assert list(js.doctor(system=system)) == []
        js.publish_batch("p", [bytes(90_000)] * 10)
        finding = only(js.doctor(system=system), "file storage of JetStream")
        assert (finding.severity, finding.object[:7]) == ("warning", "server ")
        assert "% full" in finding.problem
        js.delete_stream("P")
        js.add_stream(name="R", subjects=["r"], max_bytes=900_000)
        assert "reserved" in only(js.doctor(system=system), "file storage of JetStream").problem


@pytest.mark.newest_server
@pytest.mark.parametrize(("days", "count"), [(20, 1), (40, 0)])
def test_certificates(tmp_path: Path, days: int, count: int) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("127.0.0.1", until=datetime.timedelta(days=days))
    config = f'{ALWAYS}tls {{ cert_file: "{files.cert}", key_file: "{files.key}" }}'
    tls = jetarrow.TLS(ca=str(authority.ca.cert))
    with (
        NatsServer(config=config) as server,
        jetarrow.sync.connect(server.url, user="app", password="pw", tls=tls) as nc,
        jetarrow.sync.connect(server.url, user="sys", password="pw", tls=tls) as system,
    ):
        findings = nc.jetstream().doctor(system=system)
        assert findings.not_checked == ()
        assert [one.severity for one in findings] == ["warning"] * count
        assert all("TLS certificate for clients expires in 20d" in one.problem for one in findings)


def executable(version: str) -> Path:
    found = list((SERVERS / version).rglob("nats-server"))
    if not found:
        pytest.skip(f"nats-server {version} is not in {SERVERS.name}: make .stamps/servers")
    return found[0]


@pytest.mark.parametrize(
    ("version", "word"), [("2.14.6", None), ("2.12.8", "keeps it offline"), ("2.10.26", "uses API level 4")]
)
def test_a_server_older_than_a_feature_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, word: str | None
) -> None:
    """A server is replaced by an older one, on the same store."""
    with NatsServer(tmp_path) as server, jetarrow.sync.connect(server.url) as nc:
        nc.jetstream().add_stream(name="P", subjects=["p"], allow_batched=True)
    older = executable(version)
    monkeypatch.setattr(jetarrow.server, "find_executable", lambda: older)
    with NatsServer(tmp_path) as server, jetarrow.sync.connect(server.url) as nc:
        for found in (nc.jetstream().doctor(), nc.jetstream().doctor("P")):
            assert [(one.severity, one.object) for one in found] == [("error", "stream P")] * (word is not None)
            assert all(str(word) in one.problem for one in found)


@contextlib.contextmanager
def cluster_of(programs: list[Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[NatsServer]]:
    """A cluster with a system account, of a server of each program."""
    ports = free_ports(len(programs))
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    with contextlib.ExitStack() as stack:
        servers = []
        for number, (program, port) in enumerate(zip(programs, ports, strict=True)):
            monkeypatch.setattr(jetarrow.server, "find_executable", lambda program=program: program)
            cluster = f"name: C, listen: 127.0.0.1:{port}, routes: [{routes}], no_advertise: true"
            config = f"server_name: n{number}\n{ALWAYS}cluster {{ {cluster} }}"
            servers.append(stack.enter_context(NatsServer(config=config)))
        wait_for_leader(servers[0].url, user="app", password="pw")
        yield servers


def until_found(
    js: jetarrow.sync.JetStream, system: jetarrow.sync.Client, wanted: Callable[[Finding], bool]
) -> Finding:
    """Repeats the diagnosis until it has the finding."""
    deadline = time.monotonic() + 90
    while True:
        with contextlib.suppress(Error):
            for one in js.doctor(system=system):
                if wanted(one):
                    return one
        assert time.monotonic() < deadline, "not within 90 s"


@pytest.mark.newest_server
def test_servers_of_different_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [jetarrow.server.find_executable(), executable("2.14.6")]
    with cluster_of(programs, monkeypatch) as servers, clients(servers[0]) as (js, system):
        found = until_found(js, system, lambda one: "versions" in one.problem)
        assert (found.object, found.evidence) == ("servers", "2.14.6: n1; 2.15.1: n0")


@pytest.mark.timeout(180)
@pytest.mark.slow
def test_servers_of_a_cluster_that_are_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [jetarrow.server.find_executable()] * 3
    with cluster_of(programs, monkeypatch) as servers, clients(servers[0]) as (js, system):
        while list(js.doctor(system=system)):
            """The cluster elects its leader."""
        servers[2].kill()
        found = until_found(js, system, lambda one: one.object == "server n2")
        assert (found.severity, "offline" in found.problem) == ("warning", True)
        servers[1].kill()
        found = until_found(js, system, lambda one: one.severity == "error")
        assert (found.object, "no leader" in found.problem) == ("JetStream", True)


async def test_clocks_of_servers_that_differ() -> None:
    """A client of the system account answers as a second server, whose clock is an hour ahead."""
    with NatsServer(config=ALWAYS) as server:
        options = {"user": "sys", "password": "pw"}
        async with (
            await jetarrow.connect(server.url, user="app", password="pw") as nc,
            await jetarrow.connect(server.url, **options) as system,
            await jetarrow.connect(server.url, **options) as impostor,
        ):
            answer = json.loads((await system.request(VARZ, timeout=5)).data)
            js = nc.jetstream()
            assert list(await js.doctor(system=system)) == []

            async def respond(msg: Msg) -> None:
                ahead = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
                data = {**answer["data"], "server_name": "n9", "now": ahead.isoformat()}
                await msg.respond(json.dumps({**answer, "data": data}).encode())

            await impostor.subscribe(VARZ, cb=respond)
            await impostor.flush()
            (finding,) = await js.doctor(system=system)
            assert finding.object.endswith(", n9")
            assert finding.problem.startswith("their clocks differ by 1h")
