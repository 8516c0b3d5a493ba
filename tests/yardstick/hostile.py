"""HOSTILE-SERVER: invalid data at connect and later, each case with a client process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from .figures import Figure, said
from .liar import LIES, TIMEOUT, Liar, Lie

FULL: dict[str, Any] = {"names": [lie.name for lie in LIES]}
SHORT: dict[str, Any] = {
    "names": [
        "INFO that is no JSON",
        "nothing, ever",
        "an unknown verb",
        "MSG of a length that is no number",
        "HMSG with more headers than message",
        "MSG of a length near 2^64",
        "an ack cut short",
        "an ack that is not UTF-8",
    ]
}


async def meet(lie: Lie) -> dict[str, Any]:
    async with Liar(lie) as liar:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.yardstick.liar", liar.url),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(child.communicate(), 60)
        except TimeoutError:
            child.kill()
            return {"lie": lie, "crashed": "it hung", "panic": ""}
    panic = next((line for line in err.decode(errors="replace").splitlines() if "panicked" in line), "")
    if child.returncode:
        return {"lie": lie, "crashed": err.decode(errors="replace")[-300:], "panic": panic}
    return {"lie": lie, "crashed": "", "panic": panic, **json.loads(out)}


async def measure(names: list[str]) -> list[Figure]:
    some = asyncio.Semaphore(4)

    async def one(lie: Lie) -> dict[str, Any]:
        async with some:
            return await meet(lie)

    found = await asyncio.gather(*(one(lie) for lie in LIES if lie.name in names))
    crashed = [met for met in found if met["crashed"]]
    alive = [met for met in found if not met["crashed"]]
    kinds = sorted({met["lie"].most for met in alive})
    names_of = lambda mets: ", ".join(met["lie"].name for met in mets)  # noqa: E731
    return [
        said("hostile servers", len(found)),
        Figure("crashes or hangs", len(crashed), 0, names_of(crashed)),
        Figure(
            "errors without a type",
            sum(len(met["untyped"]) for met in alive),
            0,
            names_of([m for m in alive if m["untyped"]]),
        ),
        Figure("longest call", max(met["took"] for met in alive), TIMEOUT + 1, "s"),
        *(
            Figure(
                "growth" if most == kinds[0] else "growth where nothing ends",
                max(met["grew"] for met in alive if met["lie"].most == most),
                most,
                "MiB",
            )
            for most in kinds
        ),
        said(
            "panics printed", sum(bool(met["panic"]) for met in found), names_of([met for met in found if met["panic"]])
        ),
    ]
