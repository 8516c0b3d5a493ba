"""One local Spark per test process, and NATS streams made with nats-py, which is not what is tested here."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import socket
import sys
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import jetarrow.sync
import nats
import pyarrow as pa
import pytest
from jetarrow.spark import connection
from jetarrow.spark.datasource import JetStreamSource
from jetarrow.spark.source.partitioning import StreamRange
from jetarrow.spark.source.stream_reader import JetStreamStreamReader
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

T = TypeVar("T")
# In the environment of every worker.
PASSWORD = "hunter2-of-the-environment"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    # Executors take whatever `python3` is on the PATH if nobody tells them otherwise.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["JETARROW_TEST_PASSWORD"] = PASSWORD
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
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", scratch.as_uri())
        .config("spark.eventLog.compress", "false")
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

    def new(self, **config: Any) -> str:
        """Make a stream that no other test has; it takes `<its name>.>`. `config` are fields of its configuration."""
        name = f"S{uuid.uuid4().hex[:12]}"
        self.create(name, **config)
        return name

    def create(self, name: str, **config: Any) -> None:
        self.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **config})

    def update(self, name: str, **config: Any) -> None:
        now = self.request(f"STREAM.INFO.{name}")["config"]
        self.request(f"STREAM.UPDATE.{name}", {**now, **config})

    def messages(self, name: str) -> int:
        return int(self.request(f"STREAM.INFO.{name}")["state"]["messages"])

    def request(self, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request to the API: nats-py does not know all fields of a stream."""

        async def work(js: JetStreamContext) -> dict[str, Any]:
            payload = json.dumps(body).encode() if body else b""
            answer: dict[str, Any] = json.loads((await js._nc.request(f"$JS.API.{what}", payload)).data)
            assert "error" not in answer, answer["error"]
            return answer

        return self.run(work)

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

    def left(self, name: str) -> list[int]:
        """The sequences that the stream still has."""

        async def work(js: JetStreamContext) -> list[int]:
            state = (await js.stream_info(name)).state
            found = []
            for seq in range(max(1, state.first_seq), state.last_seq + 1):
                with contextlib.suppress(NotFoundError):
                    found.append((await js.get_msg(name, seq)).seq or 0)
            return found

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
def password() -> str:
    """What `env:JETARROW_TEST_PASSWORD` refers to."""
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


class Here:
    """The source without Spark's JVM: planned and read in this process, as Spark does it in several."""

    def __init__(self, url: str) -> None:
        self.url = url

    def source(self, stream: str | None = None, **options: object) -> JetStreamSource:
        given = {"servers": self.url} | ({} if stream is None else {"stream": stream})
        return JetStreamSource(given | {name: str(value) for name, value in options.items()})

    def plan(self, stream: str | None = None, **options: object) -> list[StreamRange]:
        source = self.source(stream, **options)
        schema = source.schema()
        assert isinstance(schema, StructType)
        return list(source.reader(schema).partitions())

    def read(self, stream: str | None = None, schema: StructType | None = None, **options: object) -> pa.Table:
        source = self.source(stream, **options)
        columns = schema or source.schema()
        assert isinstance(columns, StructType)
        reader = source.reader(columns)
        return self.table(columns, reader, reader.partitions())

    def stream(self, stream: str | None = None, **options: object) -> JetStreamStreamReader:
        """A streaming reader as a new process of the driver has it."""
        source = self.source(stream, **options)
        schema = source.schema()
        assert isinstance(schema, StructType)
        reader = source.streamReader(schema)
        assert isinstance(reader, JetStreamStreamReader)
        return reader

    def batch(self, reader: JetStreamStreamReader, start: Any, end: Any) -> pa.Table:
        return self.table(reader._schema, reader, reader.partitions(start, end))

    def table(self, schema: StructType, reader: Any, partitions: Sequence[InputPartition]) -> pa.Table:
        # Spark pickles them too, and demands exactly this schema.
        parts = pickle.loads(pickle.dumps(list(partitions)))
        batches = [batch for part in parts for batch in reader.read(part)]
        return pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC"))


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


class Stored(NamedTuple):
    """A message after a write; `headers` without its id and the expected stream."""

    subject: str
    data: bytes
    id: str | None
    headers: dict[str, list[str]]


@pytest.fixture
def stored(nats_url: str) -> Callable[..., list[Stored]]:
    """`stored(stream, url=)`: all messages in their order; each says which stream it was meant for."""

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


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses connections: bound, so that nobody else gets it, but not listening."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
