"""A plain import makes these names available, each tested in its own interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jetarrow
import pytest

# Paths that are available in nats-py after `import nats`, without further imports.
PATHS = [
    "NATS",
    "connect",
    "errors.TimeoutError",
    "nuid.NUID",
    "aio.client.Client",
    "aio.msg.Msg",
    "aio.subscription.Subscription",
    "js.JetStreamContext",
    "js.JetStreamManager",
    "js.api.StreamConfig",
    "js.client.JetStreamContext",
    "js.errors.NotFoundError",
    "js.manager.JetStreamManager",
]


def run(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(Path(jetarrow.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["nats", "jetarrow"])
def test_paths_after_a_plain_import(name: str) -> None:
    lines = "\n".join(f"import {name} as nats; print(nats.{path}.__name__)" for path in PATHS)
    assert run(lines).split() == [path.rpartition(".")[2].replace("NATS", "Client") for path in PATHS]


@pytest.mark.parametrize("path", PATHS)
def test_each_path_by_itself(path: str) -> None:
    # Modules that import each other can be imported in any order.
    assert run(f"import jetarrow as nats; print(nats.{path}.__name__)")


@pytest.mark.parametrize("module", ["aio.client", "aio.msg", "aio.subscription", "js.api", "js.client", "js.errors"])
def test_each_module_first(module: str) -> None:
    assert run(f"import jetarrow.{module} as module; print(module.__name__)") == f"jetarrow.{module}"


def test_unknown_names_raise_attribute_error() -> None:
    code = "import jetarrow\nfor at in (jetarrow, jetarrow.aio, jetarrow.js): print(hasattr(at, 'nothing_of_the_kind'))"
    assert run(code).split() == ["False"] * 3


def test_a_plain_import_starts_nothing() -> None:
    code = "import sys, threading, jetarrow; print('jetarrow._jetarrow' in sys.modules, threading.active_count())"
    assert run(code) == "False 1"
