"""Bytes that leave the server for actions that need few rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from jetarrow.server import NatsServer
from pyspark.sql import DataFrame, SparkSession

from ..tools import free_port
from .tools import Streams, bytes_out

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MESSAGES, SIZE = 12_000, 1_000


class Source(NamedTuple):
    server: NatsServer
    monitor: int
    stream: str

    def load(self, spark: SparkSession, **options: object) -> DataFrame:
        given = {"servers": self.server.url, "stream": self.stream, **options}
        return spark.read.format("jetstream").options(**given).load()


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    """A stream of 12 MB on a server of its own."""
    monitor = free_port()
    with NatsServer(config=f"http: 127.0.0.1:{monitor}\n") as server:
        streams = Streams(server.url)
        name = streams.new()
        streams.publish(name, [b"x" * SIZE] * MESSAGES)
        yield Source(server, monitor, name)


def test_limit_and_show_read_little(spark: SparkSession, source: Source) -> None:
    frame = source.load(spark)
    for action in (lambda: frame.limit(10).collect(), lambda: frame.take(20), frame.first, frame.show):
        before = bytes_out(source.monitor)
        action()
        assert 10 * SIZE < bytes_out(source.monitor) - before < 200_000
    before = bytes_out(source.monitor)
    assert frame.count() == MESSAGES
    assert bytes_out(source.monitor) - before > MESSAGES * SIZE


def test_options_select_at_the_server(spark: SparkSession, source: Source) -> None:
    """In place of filters, which Spark up to 4.3 cannot push down correctly, and of pruned columns."""
    name = source.stream
    one = {"startingOffsets": json.dumps({name: 5}), "endingOffsets": json.dumps({name: 6})}
    for options, rows in ((one, 1), ({"subjects": f"{name}.none"}, 0)):
        before = bytes_out(source.monitor)
        assert source.load(spark, **options).count() == rows
        assert bytes_out(source.monitor) - before < 50_000
