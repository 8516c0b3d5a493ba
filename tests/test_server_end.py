"""A NatsServer never outlives its Python process, however that ends; and the pytest plugin."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from importlib import metadata
from pathlib import Path

import pytest
from jetarrow.server import NatsServer

from .tools import alive

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def gone(pid, deadline=20.0):
    """Wait until the process has ended (or is a zombie that another process must reap)."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def test_collected_server_stops():
    server = NatsServer().start()
    pid, folder = server.pid, server.store_dir.parent
    del server
    gc.collect()
    assert not alive(pid)
    assert not folder.exists()


def python(code, **options):
    """Starts a Python process with the same jetarrow; its `say` prints a server's pid and folder."""
    head = f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
    head += "import os, signal, threading, time\nfrom jetarrow.server import NatsServer\n"
    head += "def say(s): print(s.pid, s.store_dir.parent, flush=True)\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, **options
    )


def said(process):
    pid, folder = process.stdout.readline().split()
    return int(pid), Path(folder)


def finish(process):
    """Returns the rest of the process's output and its exit code; waits at most 60 s."""
    try:
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    return rest, process.returncode


@linux
@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "raise ValueError"])
def test_ends_with_python(end):
    process = python(f"s = NatsServer().start()\nsay(s)\n{end}", stderr=subprocess.DEVNULL)
    pid, folder = said(process)
    finish(process)
    assert not alive(pid), "stopped before Python ended, hence reaped"
    assert not folder.exists()


@linux
def test_ends_on_ctrl_c():
    code = """
        with NatsServer() as s:
            try:
                say(s)
                while True:  # A pause() that begins just after the signal waits for ever.
                    time.sleep(0.05)
            except KeyboardInterrupt:
                print("running" if s.running else "gone", os.getsid(s.pid) != os.getsid(0), flush=True)
    """
    process = python(code, start_new_session=True)
    pid, folder = said(process)
    os.killpg(process.pid, signal.SIGINT)  # what the terminal does; the group is the one made above
    assert finish(process) == ("running True\n", 0)
    assert not alive(pid)
    assert not folder.exists()


@linux
@pytest.mark.parametrize("where", ["main thread", "thread that ended"])
def test_ends_when_python_is_killed(where):
    code = """
        s = NatsServer()
        if %r == "main thread":
            s.start()
        else:
            t = threading.Thread(target=s.start)
            t.start()
            t.join()
        say(s)
        signal.pause()
    """
    process = python(code % where)
    pid, folder = said(process)
    try:
        assert alive(pid)
        process.kill()
        process.wait(60)
        assert gone(pid)
    finally:
        finish(process)
        for path in sorted(folder.rglob("*"), reverse=True):  # the killed process could not do it
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()


@linux
def test_forked_child_leaves_the_server_alone():
    code = """
        s = NatsServer().start()
        say(s)
        child = os.fork()
        if child == 0:
            del s
            import gc; gc.collect()
            sys.exit(0)  # runs the exit handlers
        os.waitpid(child, 0)
        print(s.running, s.store_dir.is_dir(), flush=True)
    """
    process = python(code)
    pid, _ = said(process)
    assert finish(process) == ("True True\n", 0)
    assert not alive(pid)


@linux
def test_forked_child_can_have_its_own():
    code = """
        first = NatsServer().start()
        say(first)
        child = os.fork()
        if child == 0:
            with NatsServer() as own:
                code = 0 if own.port != first.port else 1
            sys.exit(code)
        print(os.waitpid(child, 0)[1], first.running, flush=True)
    """
    process = python(code)
    said(process)
    assert finish(process) == ("0 True\n", 0)


PLUGIN_TEST = """
def test_url(nats_server, nats_url):
    assert nats_url == nats_server.url
    assert nats_server.running
    print("PID", nats_server.pid)

def test_same(nats_server):
    print("PID", nats_server.pid)
"""


def run_pytest(folder, *args):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-s", "-q", "-c", os.devnull]
    path = os.pathsep.join(p for p in sys.path if p)
    # The plugin is loaded by its name if there is no entry point, because jetarrow is not installed.
    if not any(e.name == "jetarrow" for e in metadata.entry_points(group="pytest11")):
        command += ["-p", "jetarrow._pytest"]
    return subprocess.run(
        [*command, *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_plugin(tmp_path):
    (tmp_path / "test_it.py").write_text(PLUGIN_TEST)
    run = run_pytest(tmp_path, "-p", "no:xdist", "test_it.py")
    assert "2 passed" in run.stdout, run.stdout + run.stderr
    pids = {line.split()[-1] for line in run.stdout.splitlines() if "PID" in line}
    assert len(pids) == 1, "one server per session"
    assert not alive(int(pids.pop()))


@pytest.mark.parametrize(
    "module",
    [
        "jetarrow.server",
        "jetarrow._jetarrow",
    ],
)
def test_unused_plugin_loads_nothing(tmp_path, module):
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert 'jetarrow._pytest' in sys.modules\n"
        f"    assert {module!r} not in sys.modules\n"
    )
    run = run_pytest(tmp_path, "-p", "no:xdist", "test_it.py")
    assert "1 passed" in run.stdout, run.stdout + run.stderr
