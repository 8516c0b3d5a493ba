"""The import raises an ImportError on interpreters that the native core does not support."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jetarrow
import pytest

SUBINTERPRETER = """
import {module} as interpreters
{first}
made = interpreters.create()
failed = interpreters.run_string(made, '''
try:
    import {name}
except ImportError as error:
    print(error)
else:
    print("imported")
''')
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.mark.parametrize("first", ["", "import jetarrow._jetarrow"], ids=["alone", "after the main one"])
@pytest.mark.parametrize("name", ["jetarrow", "jetarrow.sync", "jetarrow._jetarrow"])
def test_import_fails_in_a_subinterpreter(name: str, first: str) -> None:
    for module in ("_interpreters", "_xxsubinterpreters"):
        try:
            importlib.import_module(module)
        except ImportError:
            continue
        assert "cannot be imported in a subinterpreter" in run(
            SUBINTERPRETER.format(module=module, first=first, name=name)
        )
        return
    pytest.skip("this Python has no subinterpreters")


REFUSED = "has no native core for free-threaded Python"
IMPORT = """
import sys
{first}
try:
    import jetarrow.sync
except ImportError as error:
    print(error)
else:
    print("imported")
"""


@pytest.mark.parametrize("found", ["none", "one of the stable ABI"])
def test_import_fails_on_free_threaded_python_without_its_core(found: str) -> None:
    """Free-threaded Python would load a core of the stable ABI, whose objects have another layout."""
    none = "sys.modules['jetarrow._jetarrow'] = None" if found == "none" else ""
    assert REFUSED in run(IMPORT.format(first=f"sys.abiflags = 't'; {none}"))


def free_threaded() -> list[str]:
    named = [os.environ.get("JETARROW_FREE_THREADED"), *(shutil.which(f"python3.{minor}t") for minor in range(13, 20))]
    # pyenv has shims for versions that are not selected, too.
    return [python for python in named if python and subprocess.run([python, "-c", ""], check=False).returncode == 0]


@pytest.mark.parametrize("name", ["jetarrow", "jetarrow.sync", "jetarrow._jetarrow"])
def test_a_free_threaded_python(name: str) -> None:
    """A core that was built for it is imported; any other core is refused before it is loaded."""
    if not free_threaded():
        pytest.skip("no free-threaded Python is here: none named python3.13t to 3.19t, none in $JETARROW_FREE_THREADED")
    package = Path(jetarrow.__file__).parent
    for python in free_threaded():
        suffix = subprocess.run(
            [python, "-c", "import importlib.machinery; print(importlib.machinery.EXTENSION_SUFFIXES[0])"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        code = IMPORT.format(first="").replace("jetarrow.sync", name)
        environment = {**os.environ, "PYTHONPATH": str(package.parent)}
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=environment, check=True)
        expected = "imported" if (package / f"_jetarrow{suffix}").exists() else REFUSED
        assert expected in done.stdout
