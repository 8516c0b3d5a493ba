"""A member of a consumer group as a program: the counterpart of `consume` of tests/groups/pcgroups.

    python -m tests.groups.our_member URL JSON

It writes a line of JSON for each message that it has acknowledged, until stdin ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from typing import Any

import jetarrow
from jetarrow.errors import Error


def write(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def main(url: str, given: dict[str, Any]) -> None:
    async with await jetarrow.connect(url) as nc:
        member: Any = nc.jetstream().consumer_group(
            given["stream"],
            given["group"],
            member=given["member"],
            kind=given["kind"],
            ack_wait=given["ack_wait"],
            max_ack_pending=given["max_ack_pending"],
        )
        async with member:
            write("joined")
            loop = asyncio.get_running_loop()
            consuming = asyncio.create_task(consume(member, given.get("work", 0.0)))
            ended = asyncio.ensure_future(loop.run_in_executor(None, sys.stdin.read))
            await asyncio.wait([consuming, ended], return_when=asyncio.FIRST_COMPLETED)
            consuming.cancel()
            with suppress(asyncio.CancelledError):
                await consuming


async def consume(member: Any, work: float) -> None:
    async for batch in member.batches(rows=100, seconds=0.05):
        started = time.time_ns()
        await asyncio.sleep(work * len(batch))
        error = ""
        try:
            await batch.ack_sync()
        except Error as refused:
            error = f"{type(refused).__name__}: {refused}"
        table = batch.to_pyarrow()
        for subject, data, seq in zip(
            *(table.column(name).to_pylist() for name in ("subject", "data", "seq")), strict=True
        ):
            write(
                {
                    "subject": subject,
                    "data": data.decode(),
                    "seq": seq,
                    "partition": batch.partition,
                    "started": started,
                    "ended": time.time_ns(),
                    "error": error,
                }
            )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
