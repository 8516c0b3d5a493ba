"""Faults of the folder or the stream: `js.to_parquet` raises one clear error and leaves no partial result."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import (
    DataLossError,
    NotFoundError,
    SinkError,
    SinkSchemaError,
    StreamRecreatedError,
)
from jetarrow.server import NatsServer

from ..tools import fill_sync
from .tools import SCHEMA, fill, names, record_of, records, seqs


async def test_a_stream_that_was_created_again(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 4)
    async with js.to_parquet(stream, tmp_path, follow=True, rows=3) as sink:
        await sink.step()
        await js.delete_stream(stream)
        await js.add_stream(name=stream, subjects=[f"{stream}.>"])
        await fill(js, stream, 9)
        with pytest.raises(StreamRecreatedError):
            await sink.step()
    with pytest.raises(StreamRecreatedError, match="another place"):
        await js.to_parquet(stream, tmp_path).run()
    assert seqs(tmp_path) == [1, 2, 3]


async def test_a_purge_beyond_the_position(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 4)
    await js.to_parquet(stream, tmp_path, subjects=f"{stream}.>").run()
    await js.purge_stream(stream)
    # All that went was archived.
    assert (await js.to_parquet(stream, tmp_path).run()).rows == 0
    await fill(js, stream, 9)
    await js.purge_stream(stream, keep=2)
    with pytest.raises(DataLossError) as lost:
        await js.to_parquet(stream, tmp_path, subjects=f"{stream}.>").run()
    assert (lost.value.asked, lost.value.available) == (4, 10)
    assert (await js.to_parquet(stream, tmp_path, on_data_loss="warn").run()).first_seq == 10
    assert seqs(tmp_path) == [1, 2, 3, 10, 11]


async def test_another_stream_or_none(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 4)
    await js.to_parquet(stream, tmp_path).run()
    await js.add_stream(name=f"{stream}X", subjects=[f"{stream}X"])
    with pytest.raises(SinkError, match=f"archive stream '{stream}X' in .*: it is the archive of stream '{stream}'"):
        await js.to_parquet(f"{stream}X", tmp_path).run()
    await js.delete_stream(f"{stream}X")
    with pytest.raises(NotFoundError, match=stream):
        await js.to_parquet(f"{stream}Y", tmp_path).run()
    assert (await js.to_parquet(stream, tmp_path).run()).rows == 0


async def test_other_columns(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 4)
    await js.to_parquet(stream, tmp_path, schema=SCHEMA).run()
    await fill(js, stream, 6, start=4)
    before = names(tmp_path)
    for schema, said in (
        ({"id": str, "region": str}, "id was int64 and is string"),
        ({"id": int}, "region is missing"),
        ({**SCHEMA, "more": int}, "more is new"),
        (None, "data is new, id is missing"),
        ({"seq": int}, "the rows have columns of the same names: seq"),
    ):
        with pytest.raises(SinkSchemaError, match=said):
            await js.to_parquet(stream, tmp_path, schema=schema).run()
    with pytest.raises(SinkSchemaError, match=r"by town: there is no such column; use .*region, date, hour"):
        await js.to_parquet(stream, tmp_path / "new", schema=SCHEMA, partition_by="town").run()
    (tmp_path / "new" / "_jetarrow" / "staging").rmdir()
    with pytest.raises(SinkSchemaError, match="partitioned by nothing"):
        await js.to_parquet(stream, tmp_path, schema=SCHEMA, partition_by="region").run()
    assert names(tmp_path) == before
    assert (await js.to_parquet(stream, tmp_path, schema=SCHEMA).run()).rows == 2


CHILD = """
import resource, sys, jetarrow.sync
with jetarrow.sync.connect(sys.argv[1]) as nc:
    sink = nc.jetstream().to_parquet(sys.argv[2], sys.argv[3], rows=1000, compression="none")
    with sink:
        print(sink.step().rows)
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        try:
            sink.step()
        except jetarrow.js.errors.SinkError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(sink.step().rows)
"""


def test_no_room(sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path) -> None:
    """A file that cannot grow is given up; the same sink goes on once there is room."""
    (sync_js.publish_batch(f"{stream}.a", [os.urandom(100) for _ in range(2000)])).raise_for_errors()
    command = [sys.executable, "-c", CHILD, nats_url, stream, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, error, second = done.stdout.splitlines()
    assert (first, second) == ("1000", "1000")
    assert error == (
        f"nats: could not write to {tmp_path}: a file would exceed the size limit; committed rows are kept,"
        " run it again after the repair"
    )
    assert seqs(tmp_path) == list(range(1, 2001))
    assert {name for name in names(tmp_path) if name.startswith("_")} == {record_of(1), record_of(2)}


def test_a_full_disk(sync_js: jetarrow.sync.JetStream, stream: str, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", folder], capture_output=True)
    if mount.returncode:
        pytest.skip("only root may mount")
    try:
        (sync_js.publish_batch(f"{stream}.a", [os.urandom(100) for _ in range(3000)])).raise_for_errors()
        sink = sync_js.to_parquet(stream, folder, rows=1000)
        sink.step()
        with pytest.raises(SinkError, match="the disk is full"):
            sink.step()
        sink.close()
        assert seqs(folder) == list(range(1, 1001))
        assert {name for name in names(folder) if name.startswith("_")} == {record_of(1)}
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="as root, so that another user can be chosen")
def test_no_permission(sync_js: jetarrow.sync.JetStream, nats_url: str, stream: str, tmp_path: Path) -> None:
    fill_sync(sync_js, stream, 3)
    program = """
import os, sys, jetarrow.sync, pyarrow.fs, pyarrow.parquet, pyarrow.compute
with jetarrow.sync.connect(sys.argv[1]) as nc:
    sink = nc.jetstream().to_parquet(sys.argv[2], sys.argv[3])
    os.seteuid(65534)  # after the imports: the other user may not read the interpreter's files
    try:
        sink.run()
    except jetarrow.js.errors.SinkError as error:
        print(error)
"""
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.owner() == "root" and len(parent.parts) > 2:
            parent.chmod(0o755)
    command = [sys.executable, "-c", program, nats_url, stream, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "this user may not write there" in done.stdout, done.stderr
    assert names(tmp_path) == set()


async def test_what_no_record_names_is_removed(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    """Removes the files of a killed writer; foreign files remain."""
    await fill(js, stream, 4)
    await js.to_parquet(stream, tmp_path).run()
    before = names(tmp_path)
    ours = f"{4:020d}-0123abcd.parquet"
    left = [ours, "_jetarrow/staging/x", "_jetarrow/7.json.tmp", f"a=1/{ours}", f"_corrupt/{ours}"]
    for name in [*left, "mine.parquet", "notes.txt"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    await js.to_parquet(stream, tmp_path).run()
    assert names(tmp_path) == before | {"mine.parquet", "notes.txt"}


async def test_records_that_do_not_fit(js: JetStreamContext, stream: str, tmp_path: Path) -> None:
    await fill(js, stream, 4)
    await js.to_parquet(stream, tmp_path).run()
    (record,) = records(tmp_path)
    (tmp_path / "_jetarrow" / "9.json").write_text(json.dumps({**record, "last_seq": 9}))
    with pytest.raises(SinkError, match="two writers have written"):
        await js.to_parquet(stream, tmp_path).run()
    (tmp_path / "_jetarrow" / "9.json").write_text(json.dumps({**record, "last_seq": 9, "number": 2, "format": 2}))
    with pytest.raises(SinkError, match="later version"):
        await js.to_parquet(stream, tmp_path).run()
    for path in ("../other/x.parquet", "/x.parquet", "a/../../x.parquet", ""):
        files = [{"path": path, "rows": 1, "first_seq": 1, "last_seq": 1}]
        (tmp_path / "_jetarrow" / "9.json").write_text(json.dumps({**record, "number": 2, "files": files}))
        with pytest.raises(SinkError, match=r"9.json is not a record"):
            await js.to_parquet(stream, tmp_path).run()
    (tmp_path / "_jetarrow" / "9.json").write_text("{}")
    with pytest.raises(SinkError, match=r"9.json is not a record"):
        await js.to_parquet(stream, tmp_path).run()
    assert not (tmp_path / "_jetarrow" / "lock.json").exists()
    assert seqs(tmp_path) == [1, 2, 3]


def test_no_key_is_shown() -> None:
    from jetarrow.jetstream.sinks.folder import Folder
    from pyarrow.fs import LocalFileSystem

    folder = Folder("s3://KEY:s3cret@bucket/x?secret_key=s3cret", LocalFileSystem())
    assert str(folder) == "s3://bucket/x"


async def test_a_commit_whose_last_word_was_not_heard(
    js: JetStreamContext, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is there, and the write of it failed: it counts, and the same sink goes on after it."""
    await fill(js, stream, 11)
    async with js.to_parquet(stream, tmp_path, rows=5) as sink:
        target: Any = sink._target
        write = target.write_record

        def unheard(*args: Any, **options: Any) -> None:
            write(*args, **options)
            raise SinkError("no answer")

        with monkeypatch.context() as broken:
            broken.setattr(target, "write_record", unheard)
            with pytest.raises(SinkError, match="no answer"):
                await sink.step()
        assert await sink.step() == (5, 1, 6, 10, 0)
    assert seqs(tmp_path) == list(range(1, 11))
    assert [record["number"] for record in records(tmp_path)] == [1, 2]


async def test_over_a_restart_of_the_server(own: JetStreamContext, own_server: NatsServer, tmp_path: Path) -> None:
    await own.add_stream(name="S", subjects=["S.>"])
    await fill(own, "S", 11)
    short = own._nc.jetstream(timeout=2)  # type: ignore[attr-defined]  # its client
    async with short.to_parquet("S", tmp_path, follow=True, seconds=0.2) as sink:
        done = 0
        while done < 10:
            done += (await sink.step()).rows
        own_server.kill()
        assert (await sink.step()).rows == 0
        await asyncio.to_thread(own_server.start)
        await fill(own, "S", 21, start=11)
        done = 0
        while done < 10:
            done += (await sink.step()).rows
    assert seqs(tmp_path) == list(range(1, 21))


async def test_cancelled_while_it_is_opened(
    js: JetStreamContext, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink closes the resources that it opened before the failure."""
    await fill(js, stream, 4)
    sink = js.to_parquet(stream, tmp_path)
    target: Any = sink._target
    opened, entered, leave = target.open, threading.Event(), threading.Event()

    def slow() -> Any:
        entered.set()
        leave.wait(10)
        return opened()

    with monkeypatch.context() as slowed:
        slowed.setattr(target, "open", slow)
        running = asyncio.ensure_future(sink.step())
        await asyncio.to_thread(entered.wait, 10)
        running.cancel()
        leave.set()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert (await js.to_parquet(stream, tmp_path).run()).rows == 3
    await sink.close()


async def test_closed_while_the_server_is_frozen(own: JetStreamContext, own_server: NatsServer, tmp_path: Path) -> None:
    """The wait for more rows ends; those that came are committed."""
    await own.add_stream(name="S", subjects=["S.>"])
    (await own.publish_batch("S.a", [bytes(1000)] * 60_000)).raise_for_errors()
    short = own._nc.jetstream(timeout=3)  # type: ignore[attr-defined]  # its client
    frozen = asyncio.Event()

    def told(*_: object) -> None:
        if not frozen.is_set():
            own_server.pause()
            frozen.set()

    sink = short.to_parquet("S", tmp_path, follow=True, seconds=600, progress=told)
    running = asyncio.ensure_future(sink.run())
    await asyncio.wait_for(frozen.wait(), 30)
    try:
        await asyncio.wait_for(sink.close(), 30)
        result = await running
    finally:
        own_server.resume()
    assert 0 < result.rows < 60_000
    assert (await own.to_parquet("S", tmp_path).run()).first_seq == result.rows + 1
    assert seqs(tmp_path) == list(range(1, 60_001))


async def test_the_probe_for_links_is_not_among_the_data(
    js: JetStreamContext, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader would find a file that is no Parquet, also after a kill."""
    await fill(js, stream, 5)
    link, seen = os.link, []

    def watched(source: Any, target: Any, **options: Any) -> None:
        seen.extend(path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*.tmp"))
        link(source, target, **options)

    monkeypatch.setattr(os, "link", watched)
    await js.to_parquet(stream, tmp_path, schema=SCHEMA).run()
    assert set(seen) == {"_jetarrow"}
    (tmp_path / "_jetarrow" / "12ab34cd.tmp").touch()
    await js.to_parquet(stream, tmp_path, schema=SCHEMA).run()
    assert not list(await asyncio.to_thread(lambda: list(tmp_path.rglob("*.tmp"))))
