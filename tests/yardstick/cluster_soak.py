"""CLUSTER-SOAK: all ways to publish and to read, on a cluster of three whose servers are killed, frozen and cut off.

`python -m tests.yardstick.cluster_soak [SECONDS [SEED]]` runs it for as long as asked. After a failure the servers'
logs are kept in `.yardstick/`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import jetarrow
import pyarrow.dataset as ds
from jetarrow import errors
from jetarrow.cli.archive_check import verify_archive
from jetarrow.js.client import JetStreamContext

from ..tools import until
from .figures import Figure, said
from .rollback import patiently
from .soak_faults import Cluster, Faults, proxied_cluster

FULL: dict[str, Any] = {"seconds": 600, "spark": True}
SHORT: dict[str, Any] = {"seconds": 1, "spark": False}
STREAM = "S"
LOGS = Path(".yardstick")
QUERY = Path(__file__).with_name("soak_query.py")
# Rows of a call, callers of a publisher, and seconds between the calls of one publisher: a few thousand rows a second.
BLOCK, CALLERS, PACE = 200, 32, 0.1
# Seconds that readers have to catch up with the stream.
CATCH_UP = 180.0
# MiB that a JVM needs beside the servers.
FOR_SPARK = 6_000
MODES = ("window", "atomic", "fast", "publisher", "durable", "single")


class Ledger:
    """The rows of the publishers, and their results."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        # Row to sequence, if it is acknowledged; mode fast has no sequences.
        self.acked: dict[str, int | None] = {}
        # Rows that may be stored, or not.
        self.unknown: set[str] = set()
        self.calls_failed: Counter[str] = Counter()

    def took(self, texts: Sequence[str], seqs: Iterable[int | None]) -> list[str]:
        """Notes the result of rows; returns those without a sequence."""
        found = list(zip(texts, seqs, strict=True))
        self.acked.update((text, seq) for text, seq in found if seq is not None)
        return [text for text, seq in found if seq is None]

    async def with_ids(self, name: str, js: JetStreamContext, **options: Any) -> None:
        """Publishes blocks, again until all of a block is acknowledged."""
        number = 0
        while not self.over.is_set():
            texts = [f"{name} {n}" for n in range(number, number + BLOCK)]
            while texts:
                try:
                    result = await js.publish_batch(f"s.{name}", texts, msg_ids=texts, timeout=10, **options)
                except errors.Error as error:
                    self.calls_failed[type(error).__name__] += 1
                    await asyncio.sleep(PACE)
                    continue
                texts = self.took(texts, result.seqs.to_pylist())
            number += BLOCK
            await asyncio.sleep(PACE)

    async def fast(self, js: JetStreamContext) -> None:
        """Publishes each row once: mode fast has no ids, so no row may be sent again."""
        number = 0
        while not self.over.is_set():
            texts = [f"fast {n}" for n in range(number, number + BLOCK)]
            try:
                result = await js.publish_batch("s.fast", texts, mode="fast", timeout=10)
            except errors.Error as error:
                self.calls_failed[type(error).__name__] += 1
                self.unknown.update(texts)
            else:
                failed = {texts[row] for row, _ in result.errors}
                self.unknown |= failed
                self.acked.update((text, None) for text in texts if text not in failed)
            number += BLOCK
            await asyncio.sleep(PACE)

    async def one_by_one(self, mode: str, publish: Callable[[str], Awaitable[int]]) -> None:
        """Callers that wait for each ack, and try again until they have it."""

        async def caller(first: int) -> None:
            number = first
            while not self.over.is_set():
                text = f"{mode} {number}"
                while text not in self.acked:
                    try:
                        self.acked[text] = await publish(text)
                    except errors.Error as error:
                        self.calls_failed[type(error).__name__] += 1
                        await asyncio.sleep(PACE)
                number += CALLERS
                await asyncio.sleep(PACE)

        await asyncio.gather(*map(caller, range(CALLERS)))

    async def publisher(self, mode: str, js: JetStreamContext, durable: bool) -> None:
        publisher = js.publisher(f"s.{mode}", durable=durable, ack_timeout=10)

        async def publish(text: str) -> int:
            return (await (await publisher.publish(text, msg_id=text))).seq

        await self.one_by_one(mode, publish)

    async def single(self, js: JetStreamContext) -> None:
        async def publish(text: str) -> int:
            return (await js.publish("s.single", text.encode(), msg_id=text, timeout=10)).seq

        await self.one_by_one("single", publish)


class Readers:
    """Workers of a consumer, and an archive; each is started again after an error."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.over = asyncio.Event()
        self.seen: set[int] = set()
        self.starts: Counter[str] = Counter()

    async def work(self, js: JetStreamContext) -> None:
        while not self.over.is_set():
            self.starts["worker"] += 1
            try:
                sub = await js.pull_subscribe_bind("d", STREAM)
                while not self.over.is_set():
                    try:
                        batch = await sub.fetch_batch(2_000, timeout=1)
                    except errors.TimeoutError:
                        continue
                    self.seen.update(batch.seqs.to_pylist())
                    await batch.ack()
            except errors.Error:
                await asyncio.sleep(PACE)

    async def archive(self, js: JetStreamContext) -> None:
        while not self.over.is_set():
            self.starts["archive"] += 1
            try:
                async with js.to_parquet(STREAM, self.folder, rows=20_000, seconds=5, follow=True) as sink:
                    while not self.over.is_set():
                        await sink.step()
            except errors.Error:
                await asyncio.sleep(PACE)


async def stored_rows(js: JetStreamContext) -> dict[int, str]:
    async def read() -> dict[int, str]:
        table = await js.read(STREAM, columns=["seq", "data"]).read_all()
        texts = (data.decode() for data in table.column("data").to_pylist())
        return dict(zip(table.column("seq").to_pylist(), texts, strict=True))

    found: dict[int, str] = await patiently(read)
    return found


def has_room_for_spark() -> bool:
    available = next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line)
    return int(available.split()[1]) >> 10 >= FOR_SPARK


async def measure(seconds: float, spark: bool, seed: int | None = None) -> list[Figure]:
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    spark = spark and has_room_for_spark()
    async with proxied_cluster() as cluster:
        with tempfile.TemporaryDirectory() as folder:
            try:
                figures = await _soaked(cluster, Path(folder), seconds, spark, seed)
            except BaseException as error:
                _keep_logs(cluster, seed, repr(error))
                raise
            failed = [str(figure) for figure in figures if not figure.passed]
            if failed:
                _keep_logs(cluster, seed, "; ".join(failed))
    return [said("seed", seed), *figures]


def _keep_logs(cluster: Cluster, seed: int, why: str) -> None:
    folder = LOGS / f"cluster-soak-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    for server in cluster.servers:
        (folder / f"{server.port}.log").write_text(server.log)
    print(f"CLUSTER-SOAK failed with seed {seed} ({why}); the servers' logs are in {folder}", file=sys.stderr)


async def _soaked(cluster: Cluster, folder: Path, seconds: float, spark: bool, seed: int) -> list[Figure]:
    ledger, readers = Ledger(), Readers(folder / "archive")
    async with AsyncExitStack() as stack:

        async def context(timeout: float) -> JetStreamContext:
            nc = await jetarrow.connect(
                cluster.urls, ping_interval=1, max_reconnect_attempts=0, reconnect_time_wait=0.2
            )
            return (await stack.enter_async_context(nc)).jetstream(timeout=timeout)

        js = await context(2)
        await patiently(
            lambda: js.add_stream(
                name=STREAM,
                subjects=["s.>"],
                num_replicas=3,
                allow_atomic=True,
                allow_batched=True,
                duplicate_window=max(600.0, seconds),
            )
        )
        await patiently(
            lambda: js.add_consumer(
                STREAM, durable_name="d", ack_policy="explicit", ack_wait=10, max_ack_pending=20_000, num_replicas=3
            )
        )
        query = stack.enter_context(_query(cluster.urls, folder)) if spark else None
        publishers = [
            asyncio.create_task(work)
            for work in (
                ledger.with_ids("window", await context(10)),
                ledger.with_ids("atomic", await context(10), mode="atomic", chunk=50),
                ledger.fast(await context(10)),
                ledger.publisher("publisher", await context(10), durable=False),
                ledger.publisher("durable", await context(10), durable=True),
                ledger.single(await context(10)),
            )
        ]
        reading = [asyncio.create_task(readers.work(await context(5))) for _ in range(2)]
        reading.append(asyncio.create_task(readers.archive(await context(5))))
        faults = Faults(cluster, js, STREAM, seed)
        await faults.run(seconds)
        ledger.over.set()
        await asyncio.gather(*publishers)
        stored = await stored_rows(js)
        with suppress(AssertionError):
            await until(lambda: stored.keys() <= readers.seen, CATCH_UP)
        readers.over.set()
        await asyncio.gather(*reading)
        await patiently(lambda: js.to_parquet(STREAM, readers.folder).run())
        archive = await asyncio.to_thread(_compare_archive, cluster.urls, readers.folder)
        of_query = [] if query is None else await asyncio.to_thread(_end_query, query, folder)
    figures = _figures(ledger, readers, faults, stored)
    figures.append(Figure("archive: rows missing, twice or misplaced", archive, 0))
    if spark:
        figures.append(Figure("query: rows missing or twice", _differences(stored, of_query), 0))
    return figures


def _figures(ledger: Ledger, readers: Readers, faults: Faults, stored: dict[int, str]) -> list[Figure]:
    rows = Counter(text.partition(" ")[0] for text in ledger.acked)
    there = set(stored.values())
    wrong = sum(text not in there if seq is None else stored.get(seq) != text for text, seq in ledger.acked.items())
    return [
        *(said(f"acknowledged {mode}", count) for mode, count in sorted(rows.items())),
        *(Figure(f"too few of {mode}", int(rows[mode] == 0), 0) for mode in MODES),
        *(said(f"faults {kind}", count) for kind, count in sorted(faults.kinds.items())),
        said("whole again after", faults.recovery, "s"),
        Figure("acknowledged and lost, or elsewhere", wrong, 0),
        Figure("stored twice", len(stored) - len(there), 0),
        Figure("stored, neither acknowledged nor unknown", len(there - ledger.acked.keys() - ledger.unknown), 0),
        said("rows of mode fast that failed, or are unknown", len(ledger.unknown)),
        said("calls that failed and were repeated", ledger.calls_failed.total()),
        Figure("not fetched", len(stored.keys() - readers.seen), 0),
        said("starts of workers", readers.starts["worker"]),
        said("starts of the archive", readers.starts["archive"]),
    ]


def _compare_archive(urls: list[str], folder: Path) -> int:
    with jetarrow.sync.connect(urls) as nc:
        found = verify_archive(nc.jetstream(timeout=30), str(folder))
    return int(found.misplaced) + int(found.missing) + int(found.twice)


def _differences(stored: dict[int, str], seqs: list[int]) -> int:
    return len(seqs) - len(set(seqs)) + len(stored.keys() ^ set(seqs))


@contextmanager
def _query(urls: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a Spark query that appends each sequence to a folder of Parquet files."""
    command = [sys.executable, str(QUERY), ",".join(urls), STREAM, str(folder)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    with (folder / "query.log").open("wb") as log:
        query = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        yield query
    finally:
        query.kill()
        query.wait()


def _end_query(query: subprocess.Popen[bytes], folder: Path) -> list[int]:
    """Has the query read the rest; returns the sequences that it wrote."""
    (folder / "stop").touch()
    if query.wait(2 * CATCH_UP):
        LOGS.mkdir(exist_ok=True)
        shutil.copy(folder / "query.log", LOGS / "query.log")
        raise RuntimeError(f"the query failed; its output is in {LOGS / 'query.log'}")
    # Spark's own reader would leave out the files that no commit names.
    found: list[int] = ds.dataset(_committed(folder / "rows"), format="parquet").to_table().column("seq").to_pylist()
    return found


def _committed(folder: Path) -> list[str]:
    """The files of the commits of a streaming query."""
    names = []
    for log in sorted((folder / "_spark_metadata").iterdir()):
        lines = log.read_text().splitlines()[1:] if log.name[0] != "." else []
        names += [json.loads(line)["path"].removeprefix("file://") for line in lines]
    return sorted(set(names))


if __name__ == "__main__":
    arguments = [float(word) for word in sys.argv[1:]]
    found = asyncio.run(
        measure(arguments[0] if arguments else FULL["seconds"], True, int(arguments[1]) if arguments[1:] else None)
    )
    print("\n".join(map(str, found)))
    sys.exit(any(not figure.passed for figure in found))
