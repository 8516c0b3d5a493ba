"""Writers of one Iceberg table at the same time: users, sinks of other streams, sinks with the same `app_id`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jetarrow.sync
from jetarrow.js.errors import SinkError, SinkLockedError
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy.exc import OperationalError

from ..tools import fill_sync, wait_until
from .iceberg_tools import NAME, append, expire, seqs, sql_catalog


@contextmanager
def repeated(call: Callable[[int], None]) -> Iterator[list[int]]:
    """Calls a function with 1, 2, … until the end of the block; yields the numbers of the calls that succeeded."""
    ended, done = threading.Event(), []

    def loop() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            try:
                call(number)
            except (CommitFailedException, OperationalError, ValueError):
                continue  # the other writer was first
            done.append(number)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(loop)
        try:
            yield done
        finally:
            ended.set()
            running.result()


def test_user_who_appends_and_expires_without_a_pause(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path
) -> None:
    fill_sync(sync_js, stream, 201)
    sync_js.to_iceberg(stream, NAME, catalog=sql_catalog(tmp_path), rows=1).step()

    def disturb(number: int) -> None:
        table = sql_catalog(tmp_path).load_table(NAME)
        if number % 5:
            append(table, -number)
        else:
            expire(table)

    with repeated(disturb) as done:
        for number in range(10):
            # A sink commits all the time, so a slow user might never be the first.
            wait_until(lambda number=number: len(done) >= number)  # type: ignore[misc]
            # Each start reads the position below the commits of the user.
            with sync_js.to_iceberg(stream, NAME, catalog=sql_catalog(tmp_path), rows=10) as sink:
                assert sink.step().rows == 10
                assert sink.step().rows == 10
    found = seqs(sql_catalog(tmp_path))
    assert [seq for seq in found if seq > 0] == list(range(1, 202))
    assert sorted(-seq for seq in found if seq < 0) == [number for number in done if number % 5]
    assert len(done) > 5


def test_sinks_with_the_same_app_id_write_each_row_once(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path
) -> None:
    """One of them gets an error and starts again, as a supervisor starts it."""
    fill_sync(sync_js, stream, 120)
    # Two writers that create the table are another test.
    sync_js.to_iceberg(stream, NAME, catalog=sql_catalog(tmp_path), rows=1).step()
    locked: list[SinkError] = []

    def write(rows: int) -> None:
        with jetarrow.sync.connect(nats_url) as nc:
            while True:
                try:
                    nc.jetstream().to_iceberg(stream, NAME, catalog=sql_catalog(tmp_path), rows=rows).run()
                except SinkLockedError as error:
                    locked.append(error)
                    continue
                return

    with ThreadPoolExecutor(3) as pool:
        for running in [pool.submit(write, rows) for rows in (3, 4, 5)]:
            running.result()
    assert seqs(sql_catalog(tmp_path)) == list(range(1, 121))
    assert locked


def test_sinks_of_two_streams_write_one_table(
    sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path
) -> None:
    other = f"{stream}X"
    sync_js.add_stream(name=other, subjects=[f"{other}.>"])
    for name in (stream, other):
        fill_sync(sync_js, name, 60)
    # Creates the database, which two catalogs cannot do at the same time.
    sql_catalog(tmp_path)

    def write(name: str) -> Any:
        with jetarrow.sync.connect(nats_url) as nc:
            return nc.jetstream().to_iceberg(name, NAME, catalog=sql_catalog(tmp_path), rows=5).run()

    # Both create the table.
    with ThreadPoolExecutor(2) as pool:
        assert [done.rows for done in pool.map(write, (stream, other))] == [60, 60]
    assert seqs(sql_catalog(tmp_path)) == sorted([*range(1, 61)] * 2)
