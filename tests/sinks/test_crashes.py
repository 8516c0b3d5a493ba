"""A sink that fails at any of its requests, or whose file system hangs, writes each row once all the same."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import jetarrow
import pytest
from jetarrow.jetstream.sinks import durable_source
from jetarrow.jetstream.sinks import lock as lock_module
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import SinkLockedError
from pyarrow.fs import FileSelector, PyFileSystem

from ..crash_points import Point, at_each_request
from .iceberg_tools import NAME, sql_catalog
from .iceberg_tools import seqs as iceberg_seqs
from .kill import Deadly
from .tools import SCHEMA, fill, readings, seqs


@pytest.mark.parametrize("durable", [None, "archive"])
async def test_at_each_request(
    js: JetStreamContext, nats_url: str, tmp_path: Path, durable: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row that the stream had is in the archive once the sink is run again; none of a work queue is lost."""
    # The end of a queue is found by a fetch that gets nothing for this time, in each of the runs.
    monkeypatch.setattr(durable_source, "POLL", 0.05)
    folder = tmp_path / "archive"
    name = f"CRASH{'QUEUE' if durable else 'ROWS'}"
    retention = "workqueue" if durable else "limits"
    options: dict[str, Any] = {"schema": SCHEMA, "rows": 5, "durable": durable}

    async with await jetarrow.connect(nats_url) as failing:
        sinks = failing.jetstream()

        async def prepare() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            await js.delete_stream(name) if name in [each async for each in js.stream_names()] else None
            await js.add_stream(name=name, subjects=[f"{name}.>"], retention=retention)
            if durable:
                # Messages that a failed run fetched are redelivered after 0.2 s.
                await js.add_consumer(name, durable_name=durable, ack_policy="explicit", ack_wait=0.2)
            await fill(js, name, 13)

        async def verb() -> None:
            await sinks.to_parquet(name, folder, **options).run()

        async def check(point: Point, error: BaseException | None) -> None:
            # The lock of a writer in this process is valid until it is released.
            (folder / "_jetarrow" / "lock.json").unlink(missing_ok=True)
            await js.to_parquet(name, folder, **options).run()
            assert seqs(folder) == list(range(1, 13)), (str(point), error)
            if durable:
                assert (await js.stream_info(name)).state.messages == 0, str(point)

        try:
            assert await at_each_request(failing, verb, prepare=prepare, check=check) > 1
        finally:
            await js.delete_stream(name)


async def test_iceberg_at_each_request(js: JetStreamContext, nats_url: str, tmp_path: Path) -> None:
    """A sink of Iceberg whose requests to the server fail writes each row once."""
    name, folder = "CRASHICE", tmp_path / "tables"
    options: dict[str, Any] = {"schema": SCHEMA, "rows": 5}

    async with await jetarrow.connect(nats_url) as failing:

        async def prepare() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            await js.delete_stream(name) if name in [each async for each in js.stream_names()] else None
            await js.add_stream(name=name, subjects=[f"{name}.>"])
            await fill(js, name, 13)

        async def verb() -> None:
            await failing.jetstream().to_iceberg(name, NAME, catalog=sql_catalog(folder), **options).run()

        async def check(point: Point, error: BaseException | None) -> None:
            await js.to_iceberg(name, NAME, catalog=sql_catalog(folder), **options).run()
            assert iceberg_seqs(sql_catalog(folder)) == list(range(1, 13)), (str(point), error)

        try:
            assert await at_each_request(failing, verb, prepare=prepare, check=check) > 1
        finally:
            await js.delete_stream(name)


class Hanging(Deadly):
    """One operation, of those that read too, hangs until it is let go."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.hangs, self.go_on = threading.Event(), threading.Event()

    def step(self) -> None:
        if threading.current_thread().name == "jetarrow-sink-lock":
            return
        self.steps += 1
        if self.steps == self.last:
            self.hangs.set()
            assert self.go_on.wait(60)

    def get_file_info(self, paths: list[str]) -> Any:
        self.step()
        return super().get_file_info(paths)

    def get_file_info_selector(self, selector: FileSelector) -> Any:
        self.step()
        return super().get_file_info_selector(selector)

    def open_input_stream(self, path: str) -> Any:
        self.step()
        return super().open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        self.step()
        return super().open_input_file(path)


def test_a_file_system_that_hangs(
    sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each of its operations in turn, for longer than the lock; meanwhile another writer takes the folder over."""
    monkeypatch.setattr(lock_module, "EXPIRES", 0.0)
    # A file system that hangs renews no lock.
    monkeypatch.setattr(lock_module.Lock, "_renew", lambda *_: None)
    sync_js.publish_batch(f"{stream}.a", readings(1, 13)).raise_for_errors()
    outcomes: set[str] = set()
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        handler = Hanging(number)
        ended: list[str] = []

        def write(handler: Hanging = handler, folder: Path = folder, ended: list[str] = ended) -> None:
            try:
                sync_js.to_parquet(stream, folder, rows=5, filesystem=PyFileSystem(handler)).run()
                ended.append("done")
            except SinkLockedError:
                ended.append("locked")

        writer = threading.Thread(target=write)
        writer.start()
        while not handler.hangs.wait(0.005) and writer.is_alive():
            pass
        hung = handler.hangs.is_set()
        if hung:
            sync_js.to_parquet(stream, folder, rows=4, filesystem=PyFileSystem(Hanging(0))).run()
        handler.go_on.set()
        writer.join(60)
        assert ended, number
        outcomes.add(ended[0])
        # The next writer repairs nothing and adds nothing.
        sync_js.to_parquet(stream, folder, rows=5, filesystem=PyFileSystem(Hanging(0))).run()
        assert seqs(folder) == list(range(1, 13)), number
        if not hung:
            break
    assert number > 20
    assert outcomes == {"done", "locked"}
