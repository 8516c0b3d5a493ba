"""One local Spark per test process, and NATS streams made with nats-py, which is not what is tested here."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import nats
import pytest
from nats.js import JetStreamContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

T = TypeVar("T")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    # Executors take whatever `python3` is on the PATH if nobody tells them otherwise.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        # A task that is killed is tried again, as in a cluster.
        SparkSession.builder.master("local[2,2]")
        .appName("jetarrow-tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .getOrCreate()
    )
    # A failing task is what many tests are about; the JVM's account of it would bury a real failure.
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


class Streams:
    """Makes and changes streams on one server, with nats-py."""

    def __init__(self, url: str) -> None:
        self.url = url

    def new(self) -> str:
        """Make a stream that no other test has; it takes `<its name>.>`."""
        name = f"S{uuid.uuid4().hex[:12]}"
        self.create(name)
        return name

    def create(self, name: str) -> None:
        self.run(lambda js: js.add_stream(name=name, subjects=[f"{name}.>"]))

    def delete(self, name: str) -> None:
        self.run(lambda js: js.delete_stream(name))

    def publish(self, name: str, payloads: list[bytes]) -> None:
        """Publish to `<name>.<0, 1 or 2 in turn>`."""

        async def work(js: JetStreamContext) -> None:
            for i, payload in enumerate(payloads):
                await js.publish_async(f"{name}.{i % 3}", payload, wait_stall=20)
            await js.publish_async_completed()

        self.run(work)

    def delete_messages(self, name: str, seqs: list[int]) -> None:
        async def work(js: JetStreamContext) -> None:
            for seq in seqs:
                await js.delete_msg(name, seq)

        self.run(work)

    def purge(self, name: str, *, before: int) -> None:
        """Remove every message below sequence `before`."""
        self.run(lambda js: js.purge_stream(name, seq=before))

    def consumers(self, name: str) -> int:
        async def work(js: JetStreamContext) -> int:
            return (await js.stream_info(name)).state.consumer_count

        return self.run(work)

    def run(self, work: Callable[[JetStreamContext], Coroutine[Any, Any, T]]) -> T:
        async def connected() -> T:
            client = await nats.connect(self.url)
            try:
                return await work(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(connected())


@pytest.fixture
def streams(nats_url: str) -> Streams:
    return Streams(nats_url)


@pytest.fixture
def load(spark: SparkSession, nats_url: str) -> Callable[..., DataFrame]:
    """`load(stream, schema=None, **options)` on the test's server."""

    def load(stream: str, *, schema: str | StructType | None = None, **options: object) -> DataFrame:
        reader = spark.read.format("jetstream").option("servers", nats_url).option("stream", stream)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return (reader.schema(schema) if schema is not None else reader).load()

    return load


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses connections: bound, so that nobody else gets it, but not listening."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
