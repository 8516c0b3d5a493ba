"""Removes functions that Windows lacks from this Python, then uses jetarrow.

python -m tests.as_windows URL STREAM FOLDER

Dependencies of jetarrow are imported first, because they have their own code for Windows.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.abc
import multiprocessing.context
import os
import pkgutil
import select
import selectors
import signal
import sys
import threading
from pathlib import Path
from typing import Any

# Imported so that their own imports are complete.
OTHERS = ("duckdb", "polars", "pyarrow.dataset", "pyarrow.parquet", "rich.live", "typer.testing", "prometheus_client")
OTHERS += ("pyspark.sql.datasource", "pyspark.sql.connect", "nats.aio.client", "opentelemetry.trace", "_pytest.config")

NO_MODULES = {"crypt", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NOT_IN = {
    os: "fork forkpty register_at_fork getuid geteuid getgid setsid killpg waitid chown uname nice mkfifo sched_yield"
    " openpty ttyname WNOHANG fchmod pread pwrite sysconf getloadavg O_NONBLOCK O_CLOEXEC O_NOFOLLOW O_DIRECTORY",
    select: "poll epoll kqueue",
    selectors: "PollSelector EpollSelector KqueueSelector",
    signal: "SIGKILL SIGSTOP SIGCONT SIGUSR1 SIGUSR2 SIGHUP SIGPIPE SIGCHLD SIGQUIT SIGALRM alarm pthread_kill sigwait",
    multiprocessing.context: "ForkProcess ForkServerProcess",
}


class Gone(importlib.abc.MetaPathFinder):
    """Raises ModuleNotFoundError for modules that Windows lacks."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name in NO_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class Proactor(asyncio.SelectorEventLoop):
    """Like the default event loop of Windows: it does not support `add_reader`."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        raise NotImplementedError


def become() -> None:
    """Restrict this Python to the modules and functions of Windows."""
    for name in OTHERS:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"without {name}", file=sys.stderr)
    for name in NO_MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Gone())
    for module, names in NOT_IN.items():
        for name in names.split():
            module.__dict__.pop(name, None)
    sys.platform = "win32"


def kill(pid: int, signum: int) -> None:
    """Fail the test: on Windows `os.kill` ends the process with any signal."""
    raise AssertionError("this would have ended a process")


def main(url: str, stream: str, folder: str) -> None:
    """Import all modules, then use both the async and the blocking API."""
    become()
    os.kill = kill
    import jetarrow
    import jetarrow.sync

    for module in pkgutil.walk_packages(jetarrow.__path__, "jetarrow."):
        if not module.name.endswith(("__main__", "as_nats")):
            importlib.import_module(module.name)

    async def on_a_loop() -> None:
        async with await jetarrow.connect(url) as nc:
            js = nc.jetstream()
            assert (await js.publish_batch(f"{stream}.a", [b"x"] * 1000)).stored == 1000
            assert (await (await js.publish_async(f"{stream}.a", b"x"))).seq == 1001
            assert len(await js.read(stream).read_all()) == 1001

    with asyncio.Runner(loop_factory=Proactor) as runner:
        runner.run(on_a_loop())
    over = threading.Event()
    with jetarrow.sync.connect(url, closed_cb=over.set) as nc:
        js = nc.jetstream()
        assert js.publish_async(f"{stream}.a", b"x").result(60).seq == 1002
        # Twice: the second run finds the files of the first one.
        for _ in range(2):
            js.to_parquet(stream, folder).run()
        # The archive contains a file that is not empty.
        assert next(Path(folder).rglob("*.parquet")).stat().st_size > 0
    assert over.wait(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
    print("done")
