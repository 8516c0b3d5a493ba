"""What only Unix or only Linux has is used where it is, and nowhere without a look."""

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
# The one file that may name it, and how it is brought in.
UNIX = {"python/src/bridge/unix.rs": ("python/src/bridge.rs", '#[cfg_attr(unix, path = "bridge/unix.rs")]')}


def test_a_python_that_has_what_windows_has(nats_url: str, stream: str, tmp_path: Path) -> None:
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


def test_a_writer_that_cannot_be_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows' `os.kill` would end it: its lock ends by time."""
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


def test_what_only_unix_has_lies_in_files_for_unix() -> None:
    named = re.compile(r"\bstd::os::|\bos::fd\b|\bio::unix\b|\bnet::Unix|\blibc::|\bsignal::unix\b|/proc/|/dev/")
    found = {str(path.relative_to(RUST)) for path in RUST.rglob("*.rs") if named.search(path.read_text("utf-8"))}
    assert found == set(UNIX)
    for parent, brought_in in UNIX.values():
        assert brought_in in (RUST / parent).read_text("utf-8")


def test_no_module_that_only_unix_has_is_imported_with_its_file() -> None:
    """Where one is used it is imported there; `tests.as_windows` imports every file without them."""
    only_unix = re.compile(r"^(?:import|from) (?:fcntl|grp|posix|pty|pwd|resource|syslog|termios|tty)\b", re.MULTILINE)
    packages = (ROOT / "python").rglob("*.py")
    assert [str(path) for path in packages if only_unix.search(path.read_text("utf-8"))] == []


def test_both_faces_have_a_bridge_made_in_one_place() -> None:
    """Whoever makes one himself would watch a descriptor."""
    made = {
        path.relative_to(ROOT / "python").as_posix()
        for path in (ROOT / "python").rglob("*.py")
        if re.search(r"\bBridge\(", path.read_text("utf-8"))
    }
    assert made == {"jetarrow/core/bridges.py"}
