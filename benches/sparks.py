"""One local Spark for the rows of test_spark.py, and what its processes use."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Run
from wire import WireError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@cache
def scratch() -> Path:
    """A folder that goes with the session."""
    return Path(tempfile.mkdtemp(prefix="jetarrow-bench-"))


@cache
def session() -> SparkSession:
    """Two task slots, as there are two cores."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("jetarrow-bench")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", str(scratch()))
        .config("spark.sql.warehouse.dir", str(scratch() / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")

    def end() -> None:
        spark.stop()
        shutil.rmtree(scratch(), ignore_errors=True)

    atexit.register(end)
    return spark


@contextmanager
def clock(run: Run) -> Iterator[None]:
    """As `run.clock()`, with the CPU of the JVM and its Python workers as the client's."""
    before = _cpu()
    with run.clock():
        yield
    run.client_cpu = _cpu() - before


def read_to_nowhere(frame: DataFrame, run: Run) -> int:
    """Reads all of it, and returns how many rows came out of the source: counting in the query would be more work."""
    context = session().sparkContext
    group = uuid.uuid4().hex
    context.setJobGroup(group, "bench")
    with clock(run):
        frame.write.format("noop").mode("overwrite").save()
    scala: Any = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    tracker = context.statusTracker()
    stages = [stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds]  # type: ignore[union-attr]
    return int(sum(scala.statusStore().lastStageAttempt(stage).inputRecords() for stage in stages))


def family() -> set[int]:
    """The processes that this one has started, and theirs."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    found, grown = {os.getpid()}, -1
    while grown != len(found):
        grown = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {os.getpid()}


def workers() -> list[int]:
    """Spark's Python workers and their daemons."""
    found = []
    for pid in family():
        try:
            if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


@contextmanager
def peak_memory(run: Run) -> Iterator[None]:
    """Notes the most memory that one Python worker had meanwhile."""
    for pid in workers():
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    yield
    peaks = [_status(pid, "VmHWM") for pid in workers()]
    if not peaks:
        raise WireError("there is no Python worker")
    run.notes["worker's peak RSS, MiB"] = max(peaks)


def _status(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu() -> float:
    """User and system time so far of Spark's processes, also of those that have ended."""
    total = 0.0
    for pid in family():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            name = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"nats-server" not in name:
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")
