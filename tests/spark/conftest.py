"""One local Spark per test process, and the fixtures that its tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jetarrow.sync
import pyspark
import pytest
from jetarrow.spark import connection
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from .tools import Here, Stored, Streams, release

# In the environment of every worker.
PASSWORD = "hunter2-of-the-environment"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raises the timeout: a test aborted in a call to Spark leaves its response to the tests after it."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test of a feature that this Spark does not have."""
    for marker in item.iter_markers("needs_spark"):
        version, feature = marker.args
        if release(pyspark.__version__) < release(version):
            pytest.skip(f"{feature} needs Spark {version}, this is {pyspark.__version__}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    # Without this, executors use the `python3` on the PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["JETARROW_TEST_PASSWORD"] = PASSWORD
    os.environ["JETARROW_SECRET_DIRS"] = str(tmp_path_factory.getbasetemp())
    session = (
        # A task that is killed is tried again, as in a cluster.
        SparkSession.builder.master("local[2,2]")
        .appName("jetarrow-tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        # Compiling a plan takes longer than these few rows; an idle query asks for new messages 100 times a second.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.streaming.pollingDelay", "50")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", scratch.as_uri())
        .config("spark.eventLog.compress", "false")
        .getOrCreate()
    )
    # Many tests make tasks fail; the JVM's log of these would hide a real failure.
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def password() -> str:
    """The value that `env:JETARROW_TEST_PASSWORD` refers to."""
    return PASSWORD


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
def here(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    clients: dict[Any, Any] = {}
    monkeypatch.setattr(connection, "_clients", clients)
    yield Here(nats_url)
    for client in clients.values():
        client.close()


@pytest.fixture
def write(nats_url: str) -> Callable[..., None]:
    """`write(frame, stream, **options)` appends to a stream on the test's server, or on `servers`."""

    def write(frame: DataFrame, stream: str, **options: object) -> None:
        given = {"servers": nats_url, "stream": stream, **{name: str(value) for name, value in options.items()}}
        frame.write.format("jetstream").options(**given).mode("append").save()

    return write


@pytest.fixture
def stored(nats_url: str) -> Callable[..., list[Stored]]:
    """`stored(stream, url=)` returns all messages in order, and checks the expected stream in their headers."""

    def stored(stream: str, *, url: str = nats_url) -> list[Stored]:
        with jetarrow.sync.connect(url) as nc:
            rows = nc.jetstream().read(stream).read_all().to_pylist()
        found = []
        for row in rows:
            headers = dict(row["headers"] or [])
            assert headers.pop("Nats-Expected-Stream") == [stream]
            ids = headers.pop("Nats-Msg-Id", [None])
            found.append(Stored(row["subject"], row["data"], ids[0], headers))
        return found

    return stored
