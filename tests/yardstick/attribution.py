"""ATTRIBUTION: the result of every published row matches the stream, with rejections, duplicates and new streams."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import jetarrow
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import PublishUnconfirmedError
from jetarrow.server import NatsServer

from .figures import Figure, said

FULL: dict[str, Any] = {"rounds": 100, "count": 20_000, "model_seconds": 3_000, "seed": 1}
SHORT: dict[str, Any] = {"rounds": 4, "count": 20_000, "model_seconds": 0, "seed": 1}
MODEL = "no_message_is_credited_with_the_answer_of_another"
ROOT = Path(__file__).parents[2]


async def stored(js: JetStreamContext, stream: str) -> dict[int, str]:
    """The name of each stored row, by sequence."""
    found: dict[int, str] = {}
    async with js.read(stream, columns=("seq", "headers")) as reader:
        async for batch in reader:
            names = ((msg.headers or {})["Row"] for msg in batch)
            found.update(zip(batch.seqs.to_pylist(), names, strict=True))
    return found


def rows_of(dice: random.Random, number: int, count: int) -> tuple[list[str], list[dict[str, str]], list[str | None]]:
    """Subjects, headers and ids: most rows are plain, some fail; all payloads are equal.

    In two of three rounds there are also duplicates, rows of a second stream, and rows that no stream takes.
    """
    mixed = number % 3
    subjects, headers, ids = [], [], []
    for row in range(count):
        header = {"Row": f"{number}.{row}"}
        kind = dice.random()
        if kind < 0.002:
            header["Nats-Expected-Last-Subject-Sequence"] = "999999999"
        elif kind < 0.003:
            header["Nats-Expected-Stream"] = "ELSEWHERE"
        elif kind < 0.004:
            header["Big"] = "x" * 600
        other = "none.x" if 0.004 < kind < 0.0045 else "b.x" if 0.0045 < kind < 0.006 else None
        subjects.append((other or f"a.{row % 3}") if mixed else "a.0")
        headers.append(header)
        duplicate = row > 100 and dice.random() < 0.001
        ids.append(f"{number}.{row - 100 if duplicate else row}" if mixed and row % 2 else None)
    return subjects, headers, ids


async def disturb(js: JetStreamContext, dice: random.Random, ended: asyncio.Event) -> int:
    """Purges stream A repeatedly while rows are published to it; returns the number of purges."""
    times = 0
    while not ended.is_set():
        times += 1
        await js.purge_stream("A", keep=dice.randrange(5_000))
        try:
            await asyncio.wait_for(ended.wait(), dice.uniform(0.01, 0.05))
        except TimeoutError:
            continue
    return times


async def one_round(js: JetStreamContext, dice: random.Random, number: int, count: int, counts: dict[str, int]) -> None:
    if number % 4 == 3:
        # The sequences of a new stream begin at 1.
        await js.delete_stream("A")
        await js.add_stream(name="A", subjects=["a.*"], max_msg_size=500)
    subjects, headers, ids = rows_of(dice, number, count)
    ended = asyncio.Event()
    # A purge with `keep` removes stored rows, so these rounds check only the sequences of the remaining ones.
    disturbing = asyncio.ensure_future(disturb(js, dice, ended)) if number % 4 == 2 else None
    result = await js.publish_batch(
        subjects,
        [b"same"] * count,
        headers=headers,
        msg_ids=ids,
        timeout=20,
        max_inflight=None if number % 2 else 4_000,
    )
    ended.set()
    counts["purges"] += await disturbing if disturbing else 0
    failed = {error.row: error.error for error in result.errors}
    found = {
        **{("a", seq): row for seq, row in (await stored(js, "A")).items()},
        **{("b", seq): row for seq, row in (await stored(js, "B")).items()},
    }
    names = set(found.values())
    for row, seq in enumerate(result.seqs.to_pylist()):
        name = f"{number}.{row}"
        if row in failed:
            unknown = isinstance(failed[row], PublishUnconfirmedError | jetarrow.errors.TimeoutError)
            counts["unknown"] += unknown
            counts["rejected and stored"] += not unknown and name in names
            counts["rejected"] += not unknown
            continue
        counts["stored"] += 1
        there = found.get((subjects[row][0], seq))
        # A duplicate has the sequence of the row with its id; purged rows no longer exist.
        right = there in (name, ids[row]) or (there is None and disturbing is not None)
        counts["stored elsewhere"] += not right


async def model(seconds: int) -> float:
    """Returns the number of steps that the model test makes in `seconds`."""
    command = ["cargo", "test", "--quiet", "--locked", "--no-default-features", MODEL, "--", "--nocapture"]
    env = {**os.environ, "JETARROW_MODEL_SECONDS": str(seconds), "JETARROW_MODEL_SEED": str(1_000_000)}
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    steps = re.search(r"seed \d+, (\d+) steps", done.stdout)
    assert steps, done.stdout
    return float(steps[1])


async def measure(rounds: int, count: int, model_seconds: int, seed: int) -> list[Figure]:
    dice = random.Random(seed)
    counts = dict.fromkeys(("stored", "rejected", "unknown", "purges", "stored elsewhere", "rejected and stored"), 0)
    with NatsServer() as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            for name, subjects in (("A", ["a.*"]), ("B", ["b.*"])):
                await js.add_stream(name=name, subjects=subjects, max_msg_size=500)
            for number in range(rounds):
                await one_round(js, dice, number, count, counts)
    figures = [
        said("rows", rounds * count),
        said("seed", seed),
        Figure("reported as stored, and not there", counts["stored elsewhere"], 0),
        Figure("reported as rejected, and stored", counts["rejected and stored"], 0),
        Figure("unknown", counts["unknown"], 0),
        Figure("no row stored", float(not counts["stored"]), 0),
        Figure("no row rejected", float(not counts["rejected"]), 0),
        said("rejected", counts["rejected"]),
        said("purges", counts["purges"]),
    ]
    if model_seconds:
        figures.append(said("steps of the model without a violation", await model(model_seconds)))
    return figures
