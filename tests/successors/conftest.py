"""Records of the scenarios: each module runs in a process of its own, once per face and Python."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jetarrow
import pytest

from .material import write_material

ROOT = Path(__file__).parents[2]
REFERENCE_PYTHON = ROOT / ".venv-successors" / "bin" / "python"
Run = Callable[..., Any]
FACES = ("reference", "jetarrow")


@pytest.fixture(scope="session")
def reference_python() -> str:
    """The Python 3.13 with the successors of nats-py."""
    if not REFERENCE_PYTHON.exists():
        pytest.skip("no environment with the successors of nats-py: make .stamps/successors, which needs Python 3.13")
    return str(REFERENCE_PYTHON)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a module of this folder with a Python, and returns the JSON that it prints; each call runs once."""
    paths = tmp_path_factory.mktemp("path")
    # The package alone: other packages beside it are for another Python, and one of them is nats-py.
    (paths / "jetarrow").symlink_to(Path(jetarrow.__file__).parent)
    files = tmp_path_factory.mktemp("files")
    write_material(files)
    environment = {**os.environ, "PYTHONPATH": f"{paths}{os.pathsep}{ROOT}"}

    @functools.cache
    def run(python: str, module: str, *arguments: str) -> Any:
        given = [str(files) if argument == "FILES" else argument for argument in arguments]
        command = [python, "-m", f"tests.successors.{module}", *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr[-4000:]}"
        return json.loads(done.stdout.splitlines()[-1])

    return run


@pytest.fixture(scope="session")
def records(run: Run, reference_python: str) -> Callable[[str], tuple[Any, Any]]:
    """Returns what a module's scenarios recorded with the reference and with ours, both on Python 3.13."""

    def of_module(module: str) -> tuple[Any, Any]:
        # Side by side: scenarios wait most of their time.
        with ThreadPoolExecutor() as pool:
            reference, ours = pool.map(lambda face: run(reference_python, "run", face, module, "FILES"), FACES)
        return reference, ours

    return of_module


@pytest.fixture(scope="session")
def records_here(run: Run) -> Callable[[str], Any]:
    """Returns what a module's scenarios recorded with ours on the Python of the suite."""
    return lambda module: run(sys.executable, "run", "jetarrow", module, "FILES")
