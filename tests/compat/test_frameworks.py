"""Applications of frameworks based on nats-py give the same results with nats-py and through `jetarrow.as_nats`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import jetarrow
import pytest

APPS = Path(__file__).parent / "apps"
THROUGH = {"nats": [], "jetarrow": ["-m", "jetarrow.as_nats"]}
PATIENCE = 100


def run(client: str, *program: str, url: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    package = str(Path(jetarrow.__file__).parents[1])
    env = {**os.environ, "NATS_URL": url, "PYTHONPATH": package, **more}
    call = [sys.executable, *THROUGH[client], *program]
    return subprocess.run(call, env=env, capture_output=True, text=True, timeout=PATIENCE)


def told(client: str, app: str, url: str, name: str) -> Any:
    """Run an application, and return the JSON of its last line."""
    done = run(client, str(APPS / f"{app}.py"), name, url=url)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result.pop("client") == client
    return result


@pytest.fixture
def name() -> str:
    return f"a{uuid.uuid4().hex[:10]}"


@pytest.mark.parametrize("client", THROUGH)
def test_faststream(client: str, nats_url: str, name: str) -> None:
    pytest.importorskip("faststream")
    told_by = told(client, "faststream_app", nats_url, name)
    stream = name.upper()
    assert told_by == {
        "tested": {"doubled": 8},
        "answer": {"doubled": 42},
        "connected": True,
        "seen": {
            "core": [[{"n": 1}, "t-1", ".core"], [{"n": 21}, None, ".core"]],
            "reply": [{"doubled": 2}, {"doubled": 42}],
            "queue": [0, 1, 2, 3],
            "level": [["error", "disk full"]],
            "push": [[n, stream, "push", 1] for n in range(4)],
            "again": [7, 7],
            "batch": [0, 1, 2, 3],
            "pull": [0, 1, 2, 3],
            "kv": ["value"],
            "object": ["a.txt"],
        },
    }


@pytest.mark.parametrize("client", THROUGH)
def test_taskiq(client: str, nats_url: str, name: str) -> None:
    pytest.importorskip("taskiq_nats")
    done = [[10, 11, 12, 13, 14], True, "on purpose"]
    assert told(client, "taskiq_app", nats_url, name) == {
        "tasks": {"core": done, "pull": done, "push": done},
        "schedules": [[], [["s0", [0]], ["s2", [2]]]],
    }
