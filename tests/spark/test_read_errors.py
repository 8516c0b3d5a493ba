"""Errors that a user of `spark.read.format("jetstream")` sees if a stream cannot be read."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import jetarrow.sync
import pytest
from jetarrow.errors import NoServersError
from jetarrow.server import NatsServer
from jetarrow.spark import connection
from jetarrow.spark.schema import SCHEMA
from jetarrow.spark.source import partition_reader
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from .tools import Streams

if TYPE_CHECKING:
    from .tools import Here

    Load = Callable[..., DataFrame]

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def cause(error: pytest.ExceptionInfo[PySparkException]) -> str:
    """The error as a user sees it; our own errors have no traceback in front."""
    text = str(error.value)
    assert "Traceback" not in text
    assert "Py4J" not in text
    return text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"servers": "127.0.0.1:4222"}, "ValueError: jetstream option 'stream': is required"),
        ({"stream": "A"}, "ValueError: jetstream option 'servers': is required"),
        (
            {"servers": "127.0.0.1:4222", "stream": "A", "minPartitions": "x"},
            "ValueError: jetstream option 'minPartitions': 'x' is not a count; valid: a whole number from 1",
        ),
        (
            {"servers": "127.0.0.1:4222", "stream": "A", "streamPattern": "A.*"},
            "ValueError: jetstream option 'streamPattern': does not go with 'stream'; valid: one of the two",
        ),
        (
            {"servers": "127.0.0.1:4222", "stream": "A", "startingOffsets": "{A: 1}"},
            "ValueError: jetstream option 'startingOffsets': '{A: 1}' cannot be used; valid: earliest",
        ),
    ],
)
def test_bad_options_are_refused_by_load(spark: SparkSession, options: dict[str, str], said: str) -> None:
    with pytest.raises(PySparkException) as error:
        spark.read.format("jetstream").options(**options).load()
    assert said in cause(error)


def test_bad_schema_lists_the_columns(load: Load, streams: Streams) -> None:
    with pytest.raises(PySparkException) as error:
        load(streams.new(), schema="seq int").count()
    assert "column 'seq' is bigint, not int; a schema selects from these columns: stream string" in cause(error)


def test_unknown_stream(load: Load, streams: Streams) -> None:
    with pytest.raises(PySparkException) as error:
        load("NOWHERE").count()
    assert f"NotFoundError: nats: jetstream: there is no stream 'NOWHERE' at {streams.url}" in cause(error)


def test_unreachable_server(spark: SparkSession, closed_port: int) -> None:
    servers = f"127.0.0.1:{closed_port}"
    with pytest.raises(PySparkException) as error:
        spark.read.format("jetstream").option("servers", servers).option("stream", "A").load().count()
    text = cause(error)
    assert "NoServersError" in text
    assert servers in text


def test_a_server_that_does_not_answer(here: Here) -> None:
    # In this process: a JVM would add seconds of its own.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        here.url = f"127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(NoServersError, match=r"no answer within 0\.5 s"):
            here.plan("A", connectTimeoutMs=500)
        with pytest.raises(NoServersError, match=r"no answer within 0\.5 s"):
            here.stream("A", connectTimeoutMs=500).initialOffset()
        # The default is 2 s, twice.
        assert time.monotonic() - begin < 3.9


def test_credentials(spark: SparkSession) -> None:
    with NatsServer(config="authorization { user: joe, password: sesame }") as server:
        with jetarrow.sync.connect(server.url, user="joe", password="sesame") as client:
            client.jetstream().add_stream(name="A", subjects=["a"])
            client.jetstream().publish("a", b"1")

        def count(**options: str) -> int:
            return spark.read.format("jetstream").options(servers=server.url, stream="A", **options).load().count()

        for wrong in ({"user": "joe", "password": "hunter2"}, {"authToken": "hunter2"}, {}):
            with pytest.raises(PySparkException) as error:
                count(**wrong)
            assert "AuthorizationError: nats: " in cause(error)
            assert "hunter2" not in cause(error)
        assert count(user="joe", password="sesame") == 1


def test_a_server_that_is_away_longer_than_a_request(
    here: Here, own_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task begins while the server is down: the request that opens its read fails, and is sent again."""
    here.url = own_server.url
    streams = Streams(own_server.url)
    name = streams.new()
    streams.publish(name, [b"x"] * 10)
    reader = here.source(name).reader(SCHEMA)
    planned = reader.partitions()
    assert here.table(SCHEMA, reader, planned).num_rows == 10  # the worker is connected
    failures: list[Exception] = []
    failed = threading.Event()

    def observed(work: Callable[[], Any], **options: float) -> Any:
        def once() -> Any:
            try:
                return work()
            except Exception as error:
                failures.append(error)
                failed.set()
                raise

        return connection.retry_transient(once, **options)

    monkeypatch.setattr(partition_reader, "retry_transient", observed)
    own_server.kill()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(here.table, SCHEMA, reader, planned)
        assert failed.wait(20)
        own_server.restart()
        assert done.result(30).num_rows == 10
    assert failures


def test_unknown_option_fails_the_read(load: Load, streams: Streams) -> None:
    with pytest.raises(
        PySparkException, match=r"ValueError: jetstream: unknown options: subject; did you mean subjects\?"
    ):
        load(streams.new(), subject="a").count()


@pytest.mark.needs_spark("4.1", "one range per DataFrame")
def test_recreated_stream(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"old"] * 10)
    frame = load(name)
    assert frame.count() == 10
    streams.delete(name)
    streams.create(name)
    streams.publish(name, [b"new"] * 10)
    with pytest.raises(PySparkException) as error:
        frame.count()
    assert f"StreamRecreatedError: nats: stream '{name}' of " in cause(error)
    assert {bytes(row.data) for row in load(name).collect()} == {b"new"}


def test_deleted_stream(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"old"])
    frame = load(name)
    assert frame.count() == 1
    streams.delete(name)
    with pytest.raises(PySparkException) as error:
        frame.count()
    assert f"NotFoundError: nats: jetstream: there is no stream '{name}'" in cause(error)


def test_a_start_that_is_gone_when_planning(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 20)
    streams.purge(name, before=6)
    with pytest.raises(PySparkException) as error:
        load(name, startingOffsets=f'{{"{name}": 5}}').count()
    assert f"DataLossError: nats: jetstream option 'startingOffsets': sequence 5 of stream '{name}'" in cause(error)
    assert load(name, startingOffsets=f'{{"{name}": 6}}').count() == 15


@pytest.mark.needs_spark("4.1", "one range per DataFrame")
@pytest.mark.slow
def test_head_that_goes_after_planning(load: Load, streams: Streams) -> None:
    name = streams.new()
    streams.publish(name, [b"x"] * 20)
    named = load(name, startingOffsets=f'{{"{name}": 1}}', minPartitions=4)
    earliest = load(name, minPartitions=4)
    assert (named.count(), earliest.count()) == (20, 20)
    # Partitions are [1, 6), [6, 11), ...: messages purged from the first one before it starts are not an error.
    streams.purge(name, before=4)
    assert sorted(row.seq for row in earliest.select("seq").collect()) == list(range(4, 21))
    streams.purge(name, before=8)
    with pytest.raises(PySparkException) as error:
        earliest.select("seq").collect()
    assert "messages 6 to 7" in cause(error)
    with pytest.raises(PySparkException) as error:
        named.count()
    assert "DataLossError" in cause(error)
