"""Damaged backups and failed restores: no partial stream is left, and the error reports what remains."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import stat
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.aio.msg import Msg
from jetarrow.core.subscription import Subscription
from jetarrow.errors import Error
from jetarrow.jetstream.manage import restore
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import APIError, BadRequestError, DigestMismatchError, NotFoundError, ServerError
from jetarrow.server import NatsServer

from .conftest import NEWEST, server_version
from .tools import delete_stream, until

FILES = ["backup.json", "stream.tar.s2"]
# The server compresses blocks of 1 MiB: a backup is cut between two blocks.
COUNT, SIZE = 3000, 1000


@pytest.fixture
async def kept(own: JetStreamContext) -> JetStreamContext:
    """A context whose stream KEPT has 3 MB of hardly compressible messages; the first 500 are purged."""
    await own.add_stream(name="KEPT", subjects=["kept.>"], storage="file")
    payloads = [b"%d " % number + os.urandom(SIZE) for number in range(COUNT + 500)]
    (await own.publish_batch("kept.a", payloads)).raise_for_errors()
    await own.purge_stream("KEPT", keep=COUNT)
    return own


def without_hash(folder: Path) -> None:
    """Removes the hash, which backups of the `nats` tool and of older versions of jetarrow lack."""
    meta = json.loads((folder / "backup.json").read_text("utf-8"))
    del meta["sha256"]
    (folder / "backup.json").write_text(json.dumps(meta), "utf-8")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def flipped(data: bytes) -> bytes:
    place = len(data) * 2 // 3
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


DAMAGE = pytest.mark.parametrize("damage", [cut, flipped], ids=["cut", "flipped"])


async def test_backup_is_private_and_has_the_hash_of_its_data(kept: JetStreamContext, tmp_path: Path) -> None:
    (tmp_path / "stream.tar.s2.part").write_bytes(b"x" * 10_000_000)
    (tmp_path / "backup.json.part").write_bytes(b"{")
    for part in ("stream.tar.s2.part", "backup.json.part"):
        (tmp_path / part).chmod(0o644)
    backup = await kept.backup_stream("KEPT", tmp_path)
    assert sorted(os.listdir(tmp_path)) == FILES
    data = (tmp_path / "stream.tar.s2").read_bytes()
    meta = json.loads((tmp_path / "backup.json").read_text("utf-8"))
    assert hashlib.sha256(data).hexdigest() == meta["sha256"] == backup.sha256
    assert sorted(meta) == ["config", "sha256", "state"]
    if sys.platform != "win32":
        assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in FILES] == [0o600, 0o600]


@DAMAGE
async def test_damaged_backup_is_refused_before_anything_is_sent(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    data = tmp_path / "stream.tar.s2"
    good = data.read_bytes()
    data.write_bytes(damage(good))
    sent: list[Any] = []
    # While the stream exists, the server would refuse the restore for that reason.
    with pytest.raises(DigestMismatchError, match="nothing was restored"):
        await kept.restore_stream(tmp_path, progress=lambda *done: sent.append(done))
    await delete_stream(kept, own_server, "KEPT")
    with pytest.raises(DigestMismatchError):
        await kept.restore_stream(tmp_path)
    with pytest.raises(NotFoundError):
        await kept.stream_info("KEPT")
    assert sent == []
    data.write_bytes(good)
    # The server removes the files of the part later.
    await until(lambda: not list(own_server.store_dir.glob("jetstream/*/streams/*KEPT")))
    assert (await kept.restore_stream(tmp_path)).state.messages == COUNT


async def test_metadata_of_another_backup_is_refused(kept: JetStreamContext, tmp_path: Path) -> None:
    for name in ("one", "two"):
        await kept.backup_stream("KEPT", tmp_path / name)
        await kept.publish("kept.a", b"more")
    (tmp_path / "one" / "backup.json").replace(tmp_path / "two" / "backup.json")
    with pytest.raises(DigestMismatchError, match=r"stream\.tar\.s2 has the SHA-256 [0-9a-f]{64}, and backup\.json"):
        await kept.restore_stream(tmp_path / "two")


@pytest.mark.parametrize("sha256", [5, ["x"], {}, True])
async def test_hash_that_is_no_text_is_refused(kept: JetStreamContext, tmp_path: Path, sha256: Any) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    meta = json.loads((tmp_path / "backup.json").read_text("utf-8"))
    (tmp_path / "backup.json").write_text(json.dumps({**meta, "sha256": sha256}), "utf-8")
    with pytest.raises(ValueError, match="not the metadata of a backup"):
        await kept.restore_stream(tmp_path)


async def test_backup_without_a_hash_is_restored(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path
) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    without_hash(tmp_path)
    await delete_stream(kept, own_server, "KEPT")
    assert (await kept.restore_stream(tmp_path)).state.messages == COUNT


@DAMAGE
async def test_part_that_a_failed_restore_made_is_removed(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    without_hash(tmp_path)
    await delete_stream(kept, own_server, "KEPT")
    data = tmp_path / "stream.tar.s2"
    good = data.read_bytes()
    data.write_bytes(damage(good))
    with pytest.raises(ServerError):
        await kept.restore_stream(tmp_path)
    with pytest.raises(NotFoundError):
        await kept.stream_info("KEPT")
    data.write_bytes(good)
    # The server removes the files of the part later.
    await until(lambda: not list(own_server.store_dir.glob("jetstream/*/streams/*KEPT")))
    assert (await kept.restore_stream(tmp_path)).state.messages == COUNT


def test_part_that_a_failed_restore_made_is_removed_blocking(own_sync: jetarrow.sync.JetStream, tmp_path: Path) -> None:
    own_sync.add_stream(name="KEPT", subjects=["kept.>"], storage="file")
    own_sync.publish_batch("kept.a", [os.urandom(SIZE) for _ in range(COUNT)]).raise_for_errors()
    own_sync.backup_stream("KEPT", tmp_path)
    own_sync.delete_stream("KEPT")
    data = tmp_path / "stream.tar.s2"
    data.write_bytes(cut(data.read_bytes()))
    with pytest.raises(DigestMismatchError):
        own_sync.restore_stream(tmp_path)
    without_hash(tmp_path)
    with pytest.raises(ServerError):
        own_sync.restore_stream(tmp_path)
    with pytest.raises(NotFoundError):
        own_sync.stream_info("KEPT")


async def test_stream_that_is_shorter_than_its_backup_is_removed(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path
) -> None:
    """Simulates a server that reports no missing messages, like one that reads a truncated archive to its end."""
    await kept.backup_stream("KEPT", tmp_path)
    meta = json.loads((tmp_path / "backup.json").read_text("utf-8"))
    meta["state"]["last_seq"] += 10
    (tmp_path / "backup.json").write_text(json.dumps(meta), "utf-8")
    await delete_stream(kept, own_server, "KEPT")
    with pytest.raises(APIError, match=f"up to sequence {COUNT + 500}, and the backup was made at sequence"):
        await kept.restore_stream(tmp_path)
    with pytest.raises(NotFoundError):
        await kept.stream_info("KEPT")


async def test_stream_that_another_client_made_meanwhile_is_left_and_named(
    kept: JetStreamContext, tmp_path: Path, own_server: NatsServer
) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    await delete_stream(kept, own_server, "KEPT")
    made = False

    def progress(done: int, total: int | None) -> None:
        nonlocal made
        if not made:
            made = True
            with jetarrow.sync.connect(own_server.url) as nc:
                nc.jetstream().add_stream(name="KEPT", subjects=["kept.>"])
                nc.jetstream().publish("kept.a", b"another one's")

    with pytest.raises(Error, match="KEPT' exists with 1 messages up to sequence 1; it was not removed"):
        await kept.restore_stream(tmp_path, progress=progress)
    assert (await kept.get_msg("KEPT", 1)).data == b"another one's"


@pytest.mark.parametrize("part", [1, 17, 40])
async def test_restore_whose_progress_callback_raises_leaves_no_stream(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path, part: int
) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    await delete_stream(kept, own_server, "KEPT")
    parts = 0

    def fail(done: int, total: int | None) -> None:
        nonlocal parts
        parts += 1
        if parts == part:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        await kept.restore_stream(tmp_path, progress=fail)
    with pytest.raises(NotFoundError):
        await kept.stream_info("KEPT")
    # The server removes the files of the part later.
    await until(lambda: not list(own_server.store_dir.glob("jetstream/*/streams/*KEPT")))
    assert (await kept.restore_stream(tmp_path)).state.messages == COUNT


@pytest.mark.parametrize("cancelled_at", ["parts", "end"])
async def test_cancelled_restore_leaves_no_part(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path, cancelled_at: str
) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    await delete_stream(kept, own_server, "KEPT")
    reached = asyncio.Event()
    limit = (tmp_path / "stream.tar.s2").stat().st_size if cancelled_at == "end" else 1

    def progress(done: int, total: int | None) -> None:
        if done >= limit:
            reached.set()

    task = asyncio.ensure_future(kept.restore_stream(tmp_path, progress=progress))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def is_whole() -> bool:
        """The server may have received the whole backup: then it restores the stream."""
        if await stored(kept) == COUNT:
            return True
        try:
            return (await kept.restore_stream(tmp_path)).state.messages == COUNT
        except APIError:
            return False

    await until(is_whole)


async def stored(js: JetStreamContext) -> int | None:
    try:
        return (await js.stream_info("KEPT")).state.messages
    except NotFoundError:
        return None


async def test_part_of_a_process_that_ended_is_named_by_the_next_restore(
    own_server: NatsServer, kept: JetStreamContext, tmp_path: Path
) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    await delete_stream(kept, own_server, "KEPT")
    code = f"""
        import sys; sys.path[:0] = {[each for each in sys.path if each]!r}
        import os, signal, jetarrow.sync
        done = []
        def end(*_):
            done.append(1)
            if len(done) == 40:
                os.kill(os.getpid(), signal.SIGKILL)
        jetarrow.sync.connect({own_server.url!r}).jetstream().restore_stream({str(tmp_path)!r}, progress=end)
    """
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(code))
    assert await process.wait() == -signal.SIGKILL
    if server_version() < NEWEST:
        # Older servers create the stream after they have received the whole backup.
        assert await stored(kept) is None
        return
    await until(lambda: stored(kept))
    with pytest.raises(BadRequestError, match=r"a part of this backup, up to sequence \d+ of 3500"):
        await kept.restore_stream(tmp_path)
    await delete_stream(kept, own_server, "KEPT")
    assert (await kept.restore_stream(tmp_path)).state.messages == COUNT


async def test_restore_on_a_closed_connection_reports_that_a_part_may_remain(
    own_server: NatsServer, kept: JetStreamContext, tmp_path: Path
) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    await delete_stream(kept, own_server, "KEPT")
    async with await jetarrow.connect(own_server.url, max_reconnect_attempts=1) as nc:

        def end(done: int, total: int | None) -> None:
            task.append(asyncio.ensure_future(nc.close()))

        task: list[Any] = []
        with pytest.raises(Error, match=r"a part of stream 'KEPT' may remain .* stream_info"):
            await nc.jetstream().restore_stream(tmp_path, progress=end)
        await asyncio.gather(*task)
    assert await stored(kept) is None


async def test_second_backup_into_a_folder_is_refused_while_the_first_one_is_written(
    kept: JetStreamContext, tmp_path: Path
) -> None:
    await kept.backup_stream("KEPT", tmp_path)
    refused: list[str] = []

    def progress(done: int, total: int | None) -> None:
        if not refused:
            task = asyncio.ensure_future(kept.backup_stream("KEPT", tmp_path))
            task.add_done_callback(lambda done: refused.append(str(done.exception())))
            refused.append("")

    backup = await kept.backup_stream("KEPT", tmp_path, progress=progress)
    await until(lambda: len(refused) == 2)
    assert "another backup is being written there" in refused[1]
    assert sorted(os.listdir(tmp_path)) == FILES
    assert json.loads((tmp_path / "backup.json").read_text("utf-8"))["sha256"] == backup.sha256


@pytest.mark.parametrize("lost", ["chunk", "link"])
async def test_backup_that_lacks_a_part_does_not_replace_the_former_one(
    kept: JetStreamContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """The server sends the rest of the chunks, and the end, after a disconnect too."""
    await kept.backup_stream("KEPT", tmp_path)
    before = contents(tmp_path)
    next_msg = Subscription.next_msg
    chunks = 0

    async def lossy(self: Subscription, *arguments: Any, **options: Any) -> Msg:
        nonlocal chunks
        chunks += 1
        msg = await next_msg(self, *arguments, **options)
        if lost == "chunk" and chunks == 3:
            return await next_msg(self, *arguments, **options)
        if lost == "link" and not msg.data:
            await kept._nc.force_reconnect()  # type: ignore[attr-defined]
        return msg

    monkeypatch.setattr(Subscription, "next_msg", lossy)
    with pytest.raises(Error, match=r"could not back up stream 'KEPT': a part was lost on the way"):
        await kept.backup_stream("KEPT", tmp_path)
    assert contents(tmp_path) == before


def test_cleanup_is_bounded() -> None:
    assert restore._CLEANUP <= 5
