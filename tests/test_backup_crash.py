"""Backup, restore and replay, failed at each of their requests and file operations in turn, then run again."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from jetarrow.errors import Error
from jetarrow.jetstream.manage import backup_files
from jetarrow.jetstream.manage.backup_files import BackupWriter
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import NotFoundError
from jetarrow.server import NatsServer

from .crash_points import Point, at_each_request
from .tools import delete_stream, store, until

FILES = ["backup.json", "stream.tar.s2"]
COUNT = 20


@pytest.fixture
async def kept(own: JetStreamContext) -> JetStreamContext:
    await own.add_stream(name="KEPT", subjects=["kept.>"], storage="file")
    await store(own, "kept.a", [os.urandom(10_000) for _ in range(COUNT)])
    return own


async def stored(js: JetStreamContext) -> int | None:
    try:
        return (await js.stream_info("KEPT")).state.messages
    except NotFoundError:
        return None


async def restored(js: JetStreamContext, server: NatsServer, folder: Path) -> int:
    """Restores the backup in a folder, and returns its number of messages."""
    if await stored(js) is not None:
        await delete_stream(js, server, "KEPT")
    return (await js.restore_stream(folder)).state.messages


class Killed(BaseException):
    """Simulated end of the process: no code of the program runs after it."""


class FileFault:
    """Fails one of the file operations of a backup.

    Attributes:
        number: Number of the operation that fails, from 1.
        error: Type of the exception that it raises.
        is_after: Whether the operation is done before it raises.
        names: Names of the operations so far.
    """

    def __init__(self, number: int, error: type[BaseException], is_after: bool) -> None:
        self.number, self.error, self.is_after = number, error, is_after
        self.names: list[str] = []

    def wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            self.names.append(name)
            if len(self.names) != self.number:
                return call(*args, **options)
            # An open that fails has opened nothing.
            if self.is_after and "open" not in name:
                call(*args, **options)
            raise self.error(28, f"no room for {name}")

        return wrapper

    @contextmanager
    def active(self) -> Iterator[None]:
        places: list[tuple[Any, str]] = [
            (backup_files, "open_locked"),
            (backup_files, "_open_private"),
            (backup_files, "_make_private"),
            (backup_files, "_sync"),
            (backup_files, "_sync_folder"),
            (BackupWriter, "write"),
            (Path, "replace"),
            (Path, "mkdir"),
        ]
        with mock.patch.multiple(
            backup_files, **{name: self.wrapped(name, getattr(backup_files, name)) for _, name in places[:5]}
        ):
            patches = [mock.patch.object(owner, name, self.bound(owner, name)) for owner, name in places[5:]]
            if self.error is Killed:
                patches.append(mock.patch.object(BackupWriter, "close", _closed_by_the_system))
            for patch in patches:
                patch.start()
            try:
                yield
            finally:
                for patch in patches:
                    patch.stop()

    def bound(self, owner: Any, name: str) -> Any:
        call = getattr(owner, name)
        wrapped = self.wrapped(name, call)
        return lambda self, *args, **options: wrapped(self, *args, **options)


def _closed_by_the_system(writer: BackupWriter) -> None:
    for file in (writer._data, writer._meta):
        if file is not None:
            file.close()


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "replaced"])
@pytest.mark.parametrize("error", [OSError, Killed])
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
async def test_backup_failed_at_any_file_operation_is_the_old_one_or_the_new_one(
    kept: JetStreamContext,
    own_server: NatsServer,
    tmp_path: Path,
    is_first: bool,
    error: type[BaseException],
    is_after: bool,
) -> None:
    await kept.backup_stream("KEPT", tmp_path / "safe")
    number = 0
    while True:
        number += 1
        folder = tmp_path / f"{number}"
        assert await restored(kept, own_server, tmp_path / "safe") == COUNT
        if not is_first:
            await kept.backup_stream("KEPT", folder)
        await store(kept, "kept.b", [b"new"])
        fault = FileFault(number, error, is_after)
        failed = False
        with fault.active():
            try:
                await kept.backup_stream("KEPT", folder)
            except (OSError, Killed):
                failed = True
        if len(fault.names) < number:
            break
        assert failed
        try:
            assert await restored(kept, own_server, folder) in ((COUNT + 1,) if is_first else (COUNT, COUNT + 1)), (
                fault.names
            )
        except FileNotFoundError:
            assert is_first, fault.names
        if error is OSError:
            # A failure that is reported to the caller leaves no partial files, and metadata that matches the data.
            assert not folder.exists() or sorted(os.listdir(folder)) in ([], FILES), fault.names
        # The next backup succeeds with any files that remain.
        if await stored(kept) is None:
            await restored(kept, own_server, tmp_path / "safe")
        await store(kept, "kept.c", [b"newer"])
        wanted = await stored(kept)
        await kept.backup_stream("KEPT", folder)
        assert sorted(os.listdir(folder)) == FILES
        assert await restored(kept, own_server, folder) == wanted
    # Every operation has failed once.
    assert set(fault.names) == {
        "mkdir",
        "open_locked",
        "_open_private",
        "_make_private",
        "write",
        "_sync",
        "replace",
        "_sync_folder",
    }
    assert number > 8


async def test_backup_killed_between_its_renames_is_finished_by_the_next(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path
) -> None:
    """The data file has its final name already, the metadata file does not yet."""
    await kept.backup_stream("KEPT", tmp_path)
    await store(kept, "kept.b", [b"new"])
    await kept.backup_stream("KEPT", tmp_path / "new")
    (tmp_path / "new" / "stream.tar.s2").replace(tmp_path / "stream.tar.s2")
    (tmp_path / "new" / "backup.json").replace(tmp_path / "backup.json.part")
    assert await restored(kept, own_server, tmp_path) == COUNT + 1
    old = json.loads((tmp_path / "backup.json").read_text("utf-8"))
    with pytest.raises(NotFoundError):
        await kept.backup_stream("NONE", tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["backup.json", "new", "stream.tar.s2"]
    assert json.loads((tmp_path / "backup.json").read_text("utf-8"))["sha256"] != old["sha256"]
    assert await restored(kept, own_server, tmp_path) == COUNT + 1


async def test_backup_failed_at_any_request_leaves_the_old_one(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path
) -> None:
    async def prepare() -> None:
        await kept.backup_stream("KEPT", tmp_path)

    async def check(point: Point, error: BaseException | None) -> None:
        assert (error is not None) == point.reached, point
        assert sorted(os.listdir(tmp_path)) == FILES
        assert await restored(kept, own_server, tmp_path) == COUNT, point
        await kept.backup_stream("KEPT", tmp_path)

    assert await at_each_request(kept._nc, lambda: kept.backup_stream("KEPT", tmp_path), prepare=prepare, check=check)


@pytest.mark.timeout(300)
@pytest.mark.slow
async def test_restore_failed_at_any_request_leaves_no_part(
    kept: JetStreamContext, own_server: NatsServer, tmp_path: Path
) -> None:
    await kept.backup_stream("KEPT", tmp_path)

    async def prepare() -> None:
        if await stored(kept) is not None:
            await delete_stream(kept, own_server, "KEPT")

    async def is_whole_or_missing() -> bool:
        return await stored(kept) in (None, COUNT)

    async def check(point: Point, error: BaseException | None) -> None:
        if point.crash.dead:
            # The restore was not awaited: the server may still process the data it received.
            await asyncio.sleep(0.5)
        await until(is_whole_or_missing)
        if error is None:
            # Also if only the last answer was lost.
            assert await stored(kept) == COUNT, point
        elif await stored(kept) is None:
            assert (await kept.restore_stream(tmp_path)).state.messages == COUNT, point
        else:
            assert point.crash.dead, f"{point}: {error}"

    requests = await at_each_request(
        kept._nc, lambda: kept.restore_stream(tmp_path), prepare=prepare, check=check, full=True
    )
    assert requests >= 5


async def test_replay_failed_at_any_request_stores_each_message_once(own: JetStreamContext) -> None:
    js = own
    await js.add_stream(name="S", subjects=["s.>"], duplicate_window=100)
    await store(js, "s.a", [b"%d" % number for number in range(3)])
    await js.keep_dead_letters("S")
    sub = await js.pull_subscribe("s.>", durable="d")
    for msg in await sub.fetch(3):
        await msg.term()

    async def told() -> bool:
        return (await js.stream_info("S_DEAD_LETTERS")).state.messages == 3

    await until(told)
    target = 0

    async def verb() -> None:
        (await js.dead_letters("S").replay(subject=f"again-{target}")).raise_for_errors()

    async def prepare() -> None:
        nonlocal target
        target += 1
        await js.add_stream(name=f"A{target}", subjects=[f"again-{target}"], duplicate_window=100)

    async def check(point: Point, error: BaseException | None) -> None:
        if error is not None:
            await verb()
        assert [msg.data async for batch in js.read(f"A{target}") for msg in batch] == [b"0", b"1", b"2"], point
        await js.delete_stream(f"A{target}")

    assert await at_each_request(js._nc, verb, prepare=prepare, check=check) >= 4


def test_killed_is_not_caught_as_an_exception() -> None:
    assert not issubclass(Killed, (Error, Exception))
