"""Shows where the CPU time of a message goes: in the loop's thread, in the other threads of the client, in the server.

    python benches/profile.py [--svg benches/profile.svg] [WORK ...]

Each work runs in a process of its own with a server of its own, and Linux `perf` samples both. The samples are split by
thread and by library; the CPU time per message comes from the processes' own clocks. Prints a table and draws it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from harness import cpu_seconds

PAYLOAD = bytes(128)
TASKS = 100
FREQUENCY = "1999"
# Parts of a bar: name, colour on a light page, colour on a dark page.
PARTS = {
    "interpreter": ("#e8590c", "#ff922b"),
    "core, loop's thread": ("#f4a261", "#d9701b"),
    "kernel, loop's thread": ("#ffd8a8", "#8f4a10"),
    "core, other threads": ("#4263eb", "#748ffc"),
    "kernel, other threads": ("#bac8ff", "#364fc7"),
    "server": ("#b6bfc9", "#59636e"),
}


async def publish_batch(js: Any, count: int) -> None:
    """`publish_batch` of a list."""
    (await js.publish_batch("p.a", [PAYLOAD] * count)).raise_for_errors()


async def publisher(js: Any, count: int) -> None:
    """A publisher, each message queued, acks awaited at the end."""
    async with js.publisher("p.a") as out:
        for _ in range(count):
            await out.publish(PAYLOAD)


async def publish_tasks(js: Any, count: int) -> None:
    """100 tasks that await each ack."""

    async def publish() -> None:
        for _ in range(count // TASKS):
            await js.publish("p.a", PAYLOAD)

    await asyncio.gather(*(publish() for _ in range(TASKS)))


async def publish(js: Any, count: int) -> None:
    """One awaited publish after another."""
    for _ in range(count):
        await js.publish("p.a", PAYLOAD)


async def read(js: Any, count: int) -> None:
    """`js.read` of the stream, batch by batch."""
    rows = 0
    async with js.read("R") as reader:
        async for batch in reader:
            rows += len(batch)
            if rows >= count:
                break


async def fetch_batch(js: Any, count: int) -> None:
    """`fetch_batch(10_000)`, one after another."""
    sub, rows = await js.pull_subscribe("r.>", ack_policy="none"), 0
    while rows < count:
        rows += len(await sub.fetch_batch(10_000))


async def fetch_and_ack(js: Any, count: int) -> None:
    """`fetch(1_000)`, each message acknowledged."""
    sub, rows = await js.pull_subscribe("r.>", max_ack_pending=1_000_000), 0
    while rows < count:
        for message in await sub.fetch(1_000):
            await message.ack()
            rows += 1


WORK: dict[str, tuple[Callable[[Any, int], Coroutine[Any, Any, None]], int]] = {
    "publish_batch": (publish_batch, 2_000_000),
    "publisher": (publisher, 1_000_000),
    "publish, 100 tasks": (publish_tasks, 400_000),
    "publish, one after another": (publish, 20_000),
    "read": (read, 2_000_000),
    "fetch_batch(10_000)": (fetch_batch, 2_000_000),
    "fetch(1_000) and ack": (fetch_and_ack, 500_000),
}


@contextmanager
def sampled(pids: list[int], data: str) -> Iterator[None]:
    """Samples the processes while the block runs; perf reports through a pipe that it has begun."""
    control, answer = f"{data}.control", f"{data}.answer"
    os.mkfifo(control)
    os.mkfifo(answer)
    options = ["-q", "-F", FREQUENCY, "-D", "-1", f"--control=fifo:{control},{answer}", "-o", data]
    perf = subprocess.Popen(["perf", "record", *options, "-p", ",".join(map(str, pids))], stderr=subprocess.DEVNULL)
    try:
        with open(control, "w") as orders, open(answer) as answers:
            orders.write("enable\n")
            orders.flush()
            answers.readline()
            yield
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait()


async def child(name: str, folder: str) -> None:
    """Does one work under perf, and prints seconds and CPU time."""
    import jetarrow
    from jetarrow.server import NatsServer

    work, count = WORK[name]
    with NatsServer(store_dir=folder) as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="P", subjects=["p.>"])
            if work in (read, fetch_batch, fetch_and_ack):
                await js.add_stream(name="R", subjects=["r.>"])
                await js.publish_batch("r.a", [PAYLOAD] * count)
            else:
                await work(js, count // 20)
            data = str(Path(folder, "perf.data"))
            with sampled([os.getpid(), server.pid], data):
                server_cpu, cpu, begin = cpu_seconds(server.pid) or 0.0, time.process_time(), time.perf_counter()
                await work(js, count)
                seconds, used = time.perf_counter() - begin, time.process_time() - cpu
                server_used = (cpu_seconds(server.pid) or 0.0) - server_cpu
    found = {"count": count, "seconds": seconds, "client": used, "server": server_used}
    print(json.dumps({**found, "shares": shares(data, os.getpid())}))


def shares(data: str, pid: int) -> dict[str, float]:
    """Samples of each part of the client."""
    report = subprocess.run(
        ["perf", "script", "-i", data, "-F", "pid,tid,dso,ip", "--no-inline"],
        capture_output=True,
        text=True,
        check=True,
    )
    parts: dict[str, float] = defaultdict(float)
    for line in report.stdout.splitlines():
        words = line.split()
        process, _, thread = words[0].partition("/")
        if process != str(pid):
            continue
        library = words[-1].strip("()")
        where = "loop's thread" if thread == process else "other threads"
        if "kernel" in library or library == "[unknown]":
            parts[f"kernel, {where}"] += 1
        elif where == "other threads" or "_jetarrow" in library:
            parts[f"core, {where}"] += 1
        else:
            parts["interpreter"] += 1
    return parts


def measure(name: str) -> dict[str, Any]:
    """Runs one work; microseconds per message, by part."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, __file__, "--child", name, folder],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    if ran.returncode:
        raise RuntimeError(f"{name}: {ran.stderr}")
    found = json.loads(ran.stdout.splitlines()[-1])
    total, micro = sum(found["shares"].values()), 1e6 / found["count"]
    row = {part: found["client"] * micro * found["shares"].get(part, 0) / total for part in PARTS}
    return {"name": name, "wall": found["seconds"] * micro, **row, "server": found["server"] * micro}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    head = ["microseconds per message", "time", *PARTS]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        figures = [f"{row[part]:.2f}" for part in ("wall", *PARTS)]
        lines += ["| " + " | ".join([row["name"], *figures]) + " |"]
    return "\n".join(lines)


def picture(rows: list[dict[str, Any]]) -> str:
    """The shares of the CPU time as an SVG: one bar of full length per work."""
    left, width, step = 210, 560, 30
    style = ["text { font: 13px system-ui, sans-serif; fill: #1f2328; } .note { font-size: 12px; fill: #59636e; }"]
    dark = ["text { fill: #f0f6fc; } .note { fill: #9198a1; }"]
    for number, (light, night) in enumerate(PARTS.values()):
        style.append(f".p{number} {{ fill: {light}; }}")
        dark.append(f".p{number} {{ fill: {night}; }}")
    body = []
    for number, part in enumerate(PARTS):
        x, y = left + (number % 3) * 190, 8 + (number // 3) * 20
        body.append(f'<rect class="p{number}" x="{x}" y="{y}" width="12" height="12"/>')
        body.append(f'<text class="note" x="{x + 18}" y="{y + 11}">{escape(part)}</text>')
    for line, row in enumerate(rows):
        y, x, total = 58 + line * step, float(left), sum(row[part] for part in PARTS)
        body.append(f'<text x="{left - 10}" y="{y + 15}" text-anchor="end">{escape(row["name"])}</text>')
        for number, part in enumerate(PARTS):
            size = width * row[part] / total
            body.append(f'<rect class="p{number}" x="{x:.1f}" y="{y}" width="{size:.1f}" height="20"/>')
            x += size
        body.append(f'<text class="note" x="{left + width + 8}" y="{y + 15}">{total:.2f} µs</text>')
    height = 68 + len(rows) * step
    text = "\n".join(body)
    css = "\n".join([*style, "@media (prefers-color-scheme: dark) {", *dark, "}"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 90} {height}" role="img"'
        f' aria-label="CPU time of a message">\n<style>{css}</style>\n{text}\n</svg>\n'
    )


def main() -> None:
    """Measures the works that are given, or all."""
    if sys.argv[1:2] == ["--child"]:
        asyncio.run(child(*sys.argv[2:4]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("work", nargs="*", choices=[[], *WORK])
    given = parser.parse_args()
    rows = [measure(name) for name in given.work or WORK]
    print(table(rows))
    if given.svg:
        given.svg.write_text(picture(rows), "utf-8")


if __name__ == "__main__":
    main()
