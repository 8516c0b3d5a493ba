"""Streams as files, with the `nats` tool as counterpart."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.js.api import ErrorCode
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BadRequestError, DigestMismatchError, NotFoundError
from jetarrow.server import NatsServer

from .tools import delete_stream, wait_until

FILES = ["backup.json", "stream.tar.s2"]


@pytest.fixture
async def kept(own: JetStreamContext) -> JetStreamContext:
    """Its stream KEPT has messages of which little can be compressed, in more than one part."""
    await own.add_stream(name="KEPT", subjects=["kept.>"], storage="file", description="before", max_age=9000)
    (await own.publish_batch("kept.a", [os.urandom(1000) for _ in range(1500)])).raise_for_errors()
    await own.add_consumer("KEPT", durable_name="worker")
    await (await own.fetch("KEPT", "worker", 1))[0].ack_sync()
    return own


async def contents(js: JetStreamContext) -> list[bytes]:
    async with js.read("KEPT") as reader:
        return [msg.data async for batch in reader for msg in batch]


async def test_there_and_back(kept: JetStreamContext, own_server: NatsServer, tmp_path: Path) -> None:
    before = await contents(kept)
    parts: list[tuple[int, int | None]] = []
    folder = tmp_path / "new" / "backup"
    backup = await kept.stream("KEPT").backup(
        folder, consumers=True, check=True, progress=lambda done, total: parts.append((done, total))
    )
    assert sorted(os.listdir(folder)) == FILES
    size = (folder / "stream.tar.s2").stat().st_size
    assert (backup.directory, backup.bytes, backup.state.messages, backup.config.name) == (folder, size, 1500, "KEPT")
    assert len(parts) > 5
    assert parts[-1] == (size, None)

    with pytest.raises(BadRequestError) as info:
        await kept.restore_stream(folder)
    assert info.value.err_code == ErrorCode.STREAM_NAME_EXIST_RESTORE_FAILED
    await delete_stream(kept, own_server, "KEPT")
    sent: list[tuple[int, int | None]] = []
    restored = await kept.restore_stream(
        folder, description="after", progress=lambda done, total: sent.append((done, total))
    )
    assert (restored.state.messages, restored.config.description, restored.config.max_age) == (1500, "after", 9000)
    assert sent[-1] == (size, size)
    assert await contents(kept) == before
    assert (await kept.consumer_info("KEPT", "worker")).ack_floor.stream_seq == 1  # type: ignore[union-attr]
    assert (await kept.publish("kept.a", b"x")).seq == 1501


async def test_the_tool_restores_what_we_saved(kept: JetStreamContext, tmp_path: Path, nats_tool: str) -> None:
    before = await contents(kept)
    await kept.backup_stream("KEPT", tmp_path)
    with NatsServer() as other:
        run(nats_tool, other, "restore", str(tmp_path))
        async with await jetarrow.connect(other.url) as nc:
            js = nc.jetstream()
            assert await contents(js) == before
            # Consumers were not asked for.
            assert [name async for name in js.stream("KEPT").consumer_names()] == []


async def test_we_restore_what_the_tool_saved(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path, nats_tool: str
) -> None:
    before = await contents(kept)
    run(nats_tool, own_server, "backup", "--consumers", "KEPT", str(tmp_path))
    await delete_stream(kept, own_server, "KEPT")
    assert (await kept.restore_stream(tmp_path)).state.messages == 1500
    assert await contents(kept) == before
    assert (await kept.consumer_info("KEPT", "worker")).name == "worker"


def run(tool: str, server: NatsServer, *arguments: str) -> None:
    done = subprocess.run(
        [tool, "--server", server.url, "stream", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def test_what_cannot_be_saved(kept: JetStreamContext, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        await kept.backup_stream("NONE", tmp_path)
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file"):
        await kept.backup_stream("KEPT", tmp_path / "file")


async def test_a_failed_backup_leaves_the_last_one(kept: JetStreamContext, tmp_path: Path) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    saved = (tmp_path / "stream.tar.s2").read_bytes()

    def fail(done: int, total: int | None) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        await kept.backup_stream("KEPT", tmp_path, progress=fail)
    assert sorted(os.listdir(tmp_path)) == FILES
    assert (tmp_path / "stream.tar.s2").read_bytes() == saved


async def test_what_cannot_be_restored(kept: JetStreamContext, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await kept.restore_stream(tmp_path)
    await kept.backup_stream("KEPT", tmp_path)
    with pytest.raises(ValueError, match="could not restore stream 'KEPT' as 'OTHER'"):
        await kept.restore_stream(tmp_path, name="OTHER")
    await kept.delete_stream("KEPT")
    data = tmp_path / "stream.tar.s2"
    good = data.read_bytes()
    data.write_bytes(good[:5000])
    with pytest.raises(DigestMismatchError):
        await kept.restore_stream(tmp_path)
    data.write_bytes(good)
    (tmp_path / "backup.json").write_text(json.dumps({"config": 5}))
    with pytest.raises(ValueError, match="not the metadata of a backup"):
        await kept.restore_stream(tmp_path)


def test_blocking(own_server: NatsServer, own_sync: jetarrow.sync.JetStream, tmp_path: Path) -> None:
    own_sync.add_stream(name="S", subjects=["s"])
    own_sync.publish("s", b"x")
    assert own_sync.stream("S").backup(tmp_path).state.messages == 1
    assert own_sync.backup_stream("S", tmp_path).bytes > 0
    own_sync.delete_stream("S")
    # The server removes the files later.
    wait_until(lambda: not list(own_server.store_dir.glob("jetstream/*/streams/*S")))
    assert own_sync.restore_stream(tmp_path).state.messages == 1
