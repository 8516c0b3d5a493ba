"""Rows of nats-core and nats-jetstream, the successors of nats-py. Each run is a process: they need Python 3.13.

The process (this file, as a program) measures the work alone, without connecting, and prints a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness import Run

# Made by `make .stamps/successors`.
PYTHON = str(Path(__file__).parents[1] / ".venv-successors" / "bin" / "python")
TASKS = 100
FETCH = 1_000


def publish(run: Run) -> int:
    """Publish one message after another."""
    return measured(run, "publish")


def publish_tasks(run: Run) -> int:
    """Publish in 100 tasks, each awaiting every ack."""
    return measured(run, "publish_tasks")


def fetch(run: Run) -> int:
    """Fetch 1,000 messages at a time."""
    return measured(run, "fetch")


def measured(run: Run, work: str) -> int:
    task = json.dumps(
        {"url": run.url, "stream": run.stream, "subject": run.subject, "count": run.count, "size": run.size}
    )
    with run.clock():  # for the server's CPU
        ran = subprocess.run(
            [PYTHON, __file__, work, task],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    result = json.loads(ran.stdout)
    run.seconds, run.client_cpu = result["seconds"], result["cpu"]
    done: int = result["done"]
    return done


async def main(work: str, task: dict[str, Any]) -> None:
    import nats.client
    import nats.jetstream

    payloads = [b"%08d" % number + bytes(task["size"] - 8) for number in range(task["count"])]
    async with await nats.client.connect(task["url"]) as client:
        js = nats.jetstream.new(client)
        stream = await js.get_stream(task["stream"])
        consumer = await stream.create_consumer(name="peer", ack_policy="none") if work == "fetch" else None
        begin, cpu = time.perf_counter(), time.process_time()
        if work == "publish":
            done = await one_by_one(js, task["subject"], payloads)
        elif work == "publish_tasks":
            parts = [one_by_one(js, task["subject"], payloads[part::TASKS]) for part in range(TASKS)]
            done = sum(await asyncio.gather(*parts))
        else:
            done = 0
            while done < task["count"]:
                async for message in await consumer.fetch(max_messages=FETCH, max_wait=5):
                    done += len(message.data) == task["size"]
        result = {"done": done, "seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
        if consumer is not None:
            await stream.delete_consumer("peer")
    print(json.dumps(result))


async def one_by_one(js: Any, subject: str, payloads: list[bytes]) -> int:
    for payload in payloads:
        await js.publish(subject, payload)
    return len(payloads)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
