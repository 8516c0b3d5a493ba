"""CPython's private names are used in one module, which works on every Python that is installed here."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import jetarrow
import pytest
from jetarrow.core import cpython
from jetarrow.core.bridges import bridge_of

PACKAGE = Path(jetarrow.__file__).parent
MODULE = PACKAGE / "core" / "cpython.py"
PRIVATE = re.compile(
    r"concurrent\.futures\._|asyncio\.\w+\._|threading\._|\bopmap\b"
    r"|\"_(?:selector|ready|scheduled|run_once)\"|\b_(?:invoke_callbacks|done_callbacks|waiters|log_traceback)\b"
)

# Run by each Python with the module's path, without jetarrow: it prints the version after all assertions.
PROGRAM = """
import asyncio, concurrent.futures, importlib.util, sys, threading

spec = importlib.util.spec_from_file_location("cpython", sys.argv[1])
module = sys.modules["cpython"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
known = module.is_known()
assert known == (sys.version_info[:2] <= module.NEWEST_KNOWN), sys.version
assert module.Future is (module.LazyFuture if known else module.PublicFuture)

loop = asyncio.SelectorEventLoop()
internals = module.loop_internals(loop)
if known and sys.platform == "linux":
    assert internals.selector_fd > 0
    loop.call_later(60, print)
    assert len(internals.scheduled) == 1 and not internals.ready
    loop.call_soon(print)
    assert len(internals.ready) == 1
else:
    assert internals is None
loop.close()

for kind in (module.LazyFuture, module.PublicFuture) if known else (module.PublicFuture,):
    done, failed, cancelled, waited = kind(), kind(), kind(), kind()
    called = []
    done.add_done_callback(called.append)
    done.set_result(1)
    assert (called, done.result(), done.done()) == ([done], 1, True)
    failed.set_exception(KeyError("k"))
    assert not module.is_exception_retrieved(failed)
    assert isinstance(failed.exception(), KeyError) and module.is_exception_retrieved(failed)
    assert cancelled.cancel() and cancelled.cancelled()
    try:
        cancelled.set_result(1)
    except concurrent.futures.InvalidStateError:
        pass
    else:
        raise AssertionError("a cancelled future was resolved")
    threading.Timer(0.01, waited.set_result, (2,)).start()
    assert concurrent.futures.wait([waited], timeout=10).done == {waited} and waited.result() == 2
    later = kind()
    threading.Timer(0.01, later.set_result, (3,)).start()

    async def wait():
        return await asyncio.wrap_future(later)

    assert asyncio.run(wait()) == 3
failing = asyncio.new_event_loop().create_future()
failing.set_exception(KeyError("k"))
assert not module.is_exception_retrieved(failing)
failing.exception()
assert module.is_exception_retrieved(failing)
print(*sys.version_info[:2])
"""


def installed() -> dict[str, str]:
    """Version to executable of the installed Pythons from 3.11 on; a shim of pyenv that fails is left out."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    found: dict[str, str] = {}
    for path in [*sorted(map(str, root.glob("3.*/bin/python"))), *filter(None, named), sys.executable]:
        print_version = [path, "-c", "import sys; print(*sys.version_info[:2])"]
        result = subprocess.run(print_version, capture_output=True, text=True)
        if result.returncode == 0 and tuple(map(int, result.stdout.split())) >= (3, 11):
            found[result.stdout.strip()] = path
    return found


def test_cpython_module_works_on_every_installed_python() -> None:
    pythons = installed()
    passed = set()
    for version, path in pythons.items():
        result = subprocess.run([path, "-c", PROGRAM, str(MODULE)], capture_output=True, text=True)
        assert result.returncode == 0, f"Python {version}: {result.stderr}"
        passed.add(result.stdout.split("\n")[-2])
    assert passed == pythons.keys()
    assert "{} {}".format(*sys.version_info[:2]) in passed


def test_private_names_are_used_in_the_cpython_module_only() -> None:
    using = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if PRIVATE.search(path.read_text())}
    assert using == {"core/cpython.py"}


def test_unknown_version_takes_the_public_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.SelectorEventLoop()
    try:
        assert (cpython.loop_internals(loop) is not None) == (sys.platform == "linux")
        assert cpython._has_known_future()
        monkeypatch.setattr(cpython, "NEWEST_KNOWN", (3, 10))
        assert cpython.loop_internals(loop) is None
        assert not cpython._has_known_future()
        assert not cpython.is_from_import(sys._getframe())
    finally:
        loop.close()


async def test_client_works_without_the_internals_of_its_loop(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpython, "NEWEST_KNOWN", (3, 10))
    bridge_of(asyncio.get_running_loop())
    async with await jetarrow.connect(nats_url) as nc:
        sub = await nc.subscribe("cpython.fallback")
        await nc.publish("cpython.fallback", b"x")
        assert (await sub.next_msg(10)).data == b"x"
        assert await nc.rtt(10) > 0


def test_public_future_reports_a_callback_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    future, called = cpython.PublicFuture(), list[object]()

    def fail(_: object) -> None:
        raise KeyError("of a callback")

    future.add_done_callback(fail)
    future.add_done_callback(called.append)
    future.set_result(1)
    future.add_done_callback(called.append)
    assert called == [future, future]
    assert "of a callback" in caplog.text


@pytest.mark.parametrize("kind", [cpython.LazyFuture, cpython.PublicFuture])
def test_deferred_callbacks_run_when_the_thread_calls_them(kind: type[Any]) -> None:
    future, called, resolved = kind(), list[object](), list[Any]()

    def resolve() -> None:
        cpython.defer_callbacks(resolved)
        future.set_result(1)

    future.add_done_callback(called.append)
    thread = threading.Thread(target=resolve)
    thread.start()
    thread.join()
    assert (resolved, called, future.result(0)) == ([future], [], 1)
    future.run_callbacks()
    assert called == [future]
    assert futures.wait([future], timeout=0).done == {future}
