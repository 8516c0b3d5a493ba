"""Features that only Unix or only Linux has are used only after a check that they exist."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jetarrow.jetstream.errors import SinkLockedError
from jetarrow.jetstream.sinks import folder as folders
from jetarrow.jetstream.sinks import lock as locks
from jetarrow.jetstream.sinks.folder import Folder
from jetarrow.jetstream.sinks.lock import Lock

ROOT = Path(__file__).parents[1]
RUST = ROOT / "rust"
# The only file that may use Unix APIs, the file that includes it, and the line for that.
UNIX = {"python/src/bridge/unix.rs": ("python/src/bridge.rs", '#[cfg_attr(unix, path = "bridge/unix.rs")]')}


def test_package_works_on_a_python_with_windows_modules_only(nats_url: str, stream: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.as_windows", nats_url, stream, str(tmp_path / "lake")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


@pytest.mark.parametrize("windows", [False, True])
def test_a_folder_is_synced(tmp_path: Path, windows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[str, int]] = []
    opened: dict[int, tuple[str, int]] = {}
    real = os.open

    def note(path: str, flags: int) -> int:
        opened[handle := real(path, flags)] = (Path(path).name, flags)
        return handle

    monkeypatch.setattr(folders, "_WINDOWS", windows)
    monkeypatch.setattr("os.open", note)
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(opened[handle]))
    (tmp_path / "file").write_bytes(b"x")
    folder = Folder(tmp_path)
    folder.sync("file")
    folder.sync("")
    if windows:
        assert synced == [("file", os.O_RDWR)]
    else:
        assert synced == [("file", os.O_RDONLY), (tmp_path.name, os.O_RDONLY)]


def test_sink_lock_of_dead_process_expires_by_time_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows `os.kill` would end the other process, so the lock of a dead writer expires by time."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    monkeypatch.setattr(locks, "_WINDOWS", True)
    folder = Folder(tmp_path)
    folder.make("_jetarrow")
    lock = Lock(folder)
    lock.acquire()
    place = tmp_path / locks.NAME
    held = json.loads(place.read_text("utf-8"))
    lock.abandon()
    place.write_text(json.dumps({**held, "pid": dead.pid}), "utf-8")
    with pytest.raises(SinkLockedError):
        Lock(folder).acquire()
    place.write_text(json.dumps({**held, "pid": dead.pid, "renewed": held["renewed"] - locks.EXPIRES}), "utf-8")
    after = Lock(folder)
    after.acquire()
    after.release()


def test_unix_only_rust_apis_are_only_in_unix_files() -> None:
    named = re.compile(r"\bstd::os::|\bos::fd\b|\bio::unix\b|\bnet::Unix|\blibc::|\bsignal::unix\b|/proc/|/dev/")
    found = {str(path.relative_to(RUST)) for path in RUST.rglob("*.rs") if named.search(path.read_text("utf-8"))}
    assert found == set(UNIX)
    for parent, brought_in in UNIX.values():
        assert brought_in in (RUST / parent).read_text("utf-8")


def test_no_module_that_only_unix_has_is_imported_with_its_file() -> None:
    """Unix-only modules are imported where they are used; `tests.as_windows` imports every file without them."""
    only_unix = re.compile(r"^(?:import|from) (?:fcntl|grp|posix|pty|pwd|resource|syslog|termios|tty)\b", re.MULTILINE)
    packages = (ROOT / "python").rglob("*.py")
    assert [str(path) for path in packages if only_unix.search(path.read_text("utf-8"))] == []


def test_bridges_are_created_in_one_module_only() -> None:
    """A bridge created elsewhere would watch a descriptor, which fails on Windows."""
    made = {
        path.relative_to(ROOT / "python").as_posix()
        for path in (ROOT / "python").rglob("*.py")
        if re.search(r"\bBridge\(", path.read_text("utf-8"))
    }
    assert made == {"jetarrow/core/bridges.py"}
