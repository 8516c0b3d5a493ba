"""Runs the scenarios of one module with one face, and prints their records as JSON.

python -m tests.successors.run FACE MODULE FILES
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

from jetarrow.server import NatsServer

from .case import Case

FOLDER = Path(__file__).parent / "scenarios"


def scenarios(module: str) -> dict[str, Any]:
    """Return the scenarios of a module, its public coroutine functions, by name."""
    loaded = importlib.import_module(f"tests.successors.scenarios.{module}")
    return {
        name: value
        for name, value in vars(loaded).items()
        if inspect.iscoroutinefunction(value) and value.__module__ == loaded.__name__ and name[0] != "_"
    }


def modules() -> list[str]:
    """Return the names of the modules that have scenarios."""
    return sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


def main(face: str, module: str, files: str) -> None:
    """Run the scenarios one after another on one server."""
    with NatsServer() as server:
        records = {
            name: asyncio.run(Case(face, server.url, Path(files)).run(scenario))
            for name, scenario in scenarios(module).items()
        }
    print(json.dumps(records, allow_nan=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
