"""Where the native core does not run, importing says so."""

from __future__ import annotations

import importlib
import subprocess
import sys

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
def test_a_subinterpreter(name: str, first: str) -> None:
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


def test_a_free_threaded_python_without_a_native_core() -> None:
    """Such a Python is not here: one that says that it is, and finds no core, as it would not."""
    text = run("""
import sys
sys.abiflags = "t"
sys.modules["jetarrow._jetarrow"] = None
try:
    import jetarrow
except ImportError as error:
    print(error)
""")
    assert "has no native core for free-threaded Python" in text


def test_a_free_threaded_python_with_one() -> None:
    assert "imported" in run("import sys; sys.abiflags = 't'; import jetarrow; print('imported')")
