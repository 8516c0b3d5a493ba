"""The example from orders to totals, dead letters and a Delta table: its driver is killed at several moments."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from .standalone import PATIENCE, Process, kill, spark_environment, start
from .tools import children, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark_end_to_end.py"
# Runs the example, and stops for good after the Delta commit of this number.
DRIVER = """
import itertools, runpy, sys, threading
from pathlib import Path

import deltalake

last, marker, *sys.argv = sys.argv[1:]
write, commits = deltalake.write_deltalake, itertools.count(1)


def write_deltalake(*arguments, **options):
    write(*arguments, **options)
    if next(commits) == int(last):
        Path(marker).touch()
        threading.Event().wait()


deltalake.write_deltalake = write_deltalake
runpy.run_path(sys.argv[0], run_name="__main__")
"""
NEVER = 0
Row = tuple[str, datetime, int, int]


class Runs:
    """The example, as often as it is started, with one server and one folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.log, self.marker = folder / "driver.log", folder / "stopped"

    @contextlib.contextmanager
    def driver(self, stop_after: int = NEVER) -> Iterator[Process]:
        """A running driver, which is killed at the end with its JVM."""
        command = [sys.executable, "-c", DRIVER, stop_after, self.marker, EXAMPLE, self.url, self.folder]
        environment = spark_environment(self.folder, sys.executable)
        driver = start(list(map(str, command)), log=self.log, environment=environment, cwd=self.folder)
        try:
            yield driver
            if driver.poll() is None:
                jvms = [pid for pid, command in children()[driver.pid] if "java" in command]
                assert jvms
                assert {os.getpgid(jvm) for jvm in jvms} == {driver.pid}
        finally:
            kill(driver)

    def wait(self, driver: Process, event: Callable[[], object]) -> None:
        def happened() -> object:
            assert driver.poll() is None, self.log.read_text(errors="replace")[-4000:]
            return event()

        wait_until(happened, patience=PATIENCE)

    def batches(self, query: str) -> tuple[int, int]:
        """The numbers of batches of a query that have begun, and that are committed."""
        folder = self.folder / "checkpoints" / query
        begun, committed = (
            sum(file.name.isdigit() for file in (folder / log).glob("*")) for log in ("offsets", "commits")
        )
        return begun, committed


def expected(js: jetarrow.sync.JetStream) -> tuple[list[Row], list[tuple[bytes, str]]]:
    """The totals of the closed windows and the malformed orders, without Spark."""
    windows: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    dead, latest = [], datetime.min.replace(tzinfo=UTC)
    for message in js.read("ORDERS").read_all().to_pylist():
        try:
            order = json.loads(message["data"])
        except json.JSONDecodeError:
            dead.append((message["data"], f"ORDERS:{message['seq']}"))
            continue
        time = datetime.fromisoformat(order["time"])
        latest = max(latest, time)
        windows[order["shop"], time - timedelta(minutes=time.minute % 5, seconds=time.second)].append(order["cents"])
    closed = latest - timedelta(minutes=10)
    totals = [
        (shop, begin, len(cents), sum(cents))
        for (shop, begin), cents in windows.items()
        if begin + timedelta(minutes=5) <= closed
    ]
    return sorted(totals), dead


def row(total: dict[str, Any]) -> Row:
    start = total["start"]
    return (
        total["shop"],
        datetime.fromisoformat(start) if isinstance(start, str) else start,
        total["orders"],
        total["cents"],
    )


@pytest.mark.needs_spark("4.2", "limits per micro-batch")
@pytest.mark.spark
@pytest.mark.xdist_group("spark_processes")
@pytest.mark.timeout(900)
@pytest.mark.slow
def test_every_result_is_stored_once_after_kills_of_the_driver(tmp_path: Path) -> None:
    runs = Runs("", tmp_path)
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        runs.url = server.url
        with runs.driver() as driver:  # a batch has begun
            runs.wait(driver, lambda: runs.batches("TOTALS")[0] == 2)
        begun, committed = runs.batches("TOTALS")
        assert begun > committed
        before = js.stream_info("TOTALS").state.messages
        with runs.driver() as driver:  # rows of a batch are stored, which is not committed
            runs.wait(driver, lambda: js.stream_info("TOTALS").state.messages > before)
        begun, committed = runs.batches("TOTALS")
        assert begun > committed
        with runs.driver(stop_after=2) as driver:  # between the commit of Delta and that of Spark
            runs.wait(driver, runs.marker.exists)
        assert runs.batches("delta") == (2, 1)
        with runs.driver() as driver:
            assert driver.wait(PATIENCE) == 0, runs.log.read_text(errors="replace")[-4000:]
        totals, dead = expected(js)
        stored = js.read("TOTALS").read_all().to_pylist()
        letters = js.read("DEAD_LETTERS").read_all().to_pylist()
    table = deltalake.DeltaTable(str(tmp_path / "totals")).to_pyarrow_table().to_pylist()
    assert len(totals) == 78
    assert len(dead) == 30
    assert sorted(row(json.loads(message["data"])) for message in stored) == totals
    assert sorted(map(row, table)) == totals
    assert sorted((letter["data"], dict(letter["headers"])["Origin"][0]) for letter in letters) == sorted(dead)
