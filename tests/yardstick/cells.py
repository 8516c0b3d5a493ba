"""Experiments whose cells are tests of `make test`: they run as they are there, as often as asked for."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from .figures import Figure, said

ROOT = Path(__file__).parents[2]


async def cells(paths: list[str], least: int, times: int = 1) -> list[Figure]:
    """Runs the tests `times` times; `least` cells must be there, and none may fail."""
    passed = failed = 0
    names: list[str] = []
    begin = time.monotonic()
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"--junit-xml={report}"),
                *paths,
                cwd=ROOT,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            await process.wait()
            for case in ET.parse(report).getroot().iter("testcase"):
                if case.find("skipped") is not None:
                    continue
                wrong = case.find("failure") is not None or case.find("error") is not None
                passed, failed = passed + (not wrong), failed + wrong
                names += [case.get("name", "")] if wrong else []
    return [
        said("cells", passed + failed),
        Figure("cells too few", max(0, least * times - passed - failed), 0),
        Figure("failed", failed, 0, ", ".join(sorted(set(names)))),
        said("took", time.monotonic() - begin, "s"),
    ]
