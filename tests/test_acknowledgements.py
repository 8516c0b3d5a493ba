"""docs/acknowledgements.md: each measured cell of its table, on real servers that are killed or lose power.

A power loss is a copy of a disk without the dirty pages of the kernel (`tests.power`). It needs Linux and root.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread

import jetarrow.sync
import pytest
from jetarrow.errors import Error
from jetarrow.server import NatsServer

from .durability import (
    KEPT,
    LOST,
    ROWS,
    Streams,
    cut,
    filled_cluster,
    has_leader,
    jetstream,
    outcome,
    replaced,
    running,
    start,
)
from .power import Disk, can_cut
from .tools import wait_until

PAGE = (Path(__file__).parents[1] / "docs" / "acknowledgements.md").read_text("utf-8")

pytestmark = pytest.mark.timeout(300)


def table() -> list[list[str]]:
    """Returns the rows of the first table of the page, without its heading."""
    lines = re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def cells(replicas: int, storage: str, persist: str, sync: str) -> list[str]:
    """Returns the three outcomes of a row: kill of all servers, power loss of one, power loss of all."""
    keys = [str(replicas), storage, persist, sync]
    (found,) = [row for row in table() if row[:4] == keys]
    assert all(cell.startswith("**") for cell in found[5:]), "a measured cell is bold"
    return [cell.split(" ")[0].strip("*,") for cell in found[5:]]


def interval_of(sync: str, storage: str, persist: str) -> str:
    """Returns the cell of `sync_interval` for a configuration."""
    if (storage, persist) != ("file", "default"):
        return "any"
    return {"default": "2 min (default)"}.get(sync, sync)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[Disk]]:
    """Three empty disks."""
    if not can_cut():
        pytest.skip("cutting the power of a disk needs Linux, root and loop devices")
    with contextlib.ExitStack() as stack:
        found = []
        for number in range(3):
            found.append(Disk(tmp_path / f"d{number}"))
            stack.callback(found[-1].close)
        yield found


@pytest.mark.parametrize("sync", ["default", "always"])
def test_rows_of_one_replica_survive_as_documented(sync: str, disks: list[Disk]) -> None:
    streams, disk = Streams(1), disks[0]
    with running([disk.path], [0], sync) as (server,):
        with jetstream(server) as js:
            streams.add(js)
            streams.publish(js, 0)
            disk.sync()
            streams.publish(js, ROWS)
            server.kill()
        with cut([disk]) as after:
            server.start()
            with jetstream(server) as js:
                killed = streams.outcomes(js)
            with running(after, [0], sync) as (other,), jetstream(other) as js:
                power = streams.outcomes(js)
    assert len(power) == 8
    for kind, found in power.items():
        storage, persist, mode = kind
        expected = cells(1, storage, persist, interval_of(sync, storage, persist))
        assert ([found, found], mode) == (expected[1:], mode), (kind, sync)
        # A kill may be later than the asynchronous write: test_kill_loses_rows_of_persist_mode_async.
        assert persist == "async" or (killed[kind], mode) == (expected[0], mode), (kind, sync)


@pytest.mark.parametrize("sync", ["default", "always"])
def test_kill_loses_rows_of_persist_mode_async(sync: str, tmp_path: Path) -> None:
    """The write follows the ack by milliseconds, so some of the kills come before it."""
    assert cells(1, "file", "async", "any")[0] == LOST
    with running([tmp_path], [0], sync) as (server,):
        with jetstream(server) as js:
            js.add_stream(name="S", subjects=["s"], persist_mode="async")
        for _ in range(20):
            with jetstream(server) as js:
                before = js.stream_info("S").state.messages
                js.publish_batch("s", [b"x"] * ROWS).raise_for_errors()
                server.kill()
            server.start()
            with jetstream(server) as js:
                if js.stream_info("S").state.messages < before + ROWS:
                    return
    pytest.fail("20 kills lost no acknowledged row: the table of the page is wrong")


def test_sync_interval_keeps_rows_that_were_synced(disks: list[Disk]) -> None:
    disk = disks[0]
    assert cells(1, "file", "default", "N s") == [KEPT, LOST, LOST]

    def is_synced() -> bool:
        """Whether the last of the first rows is on the disk."""
        with cut([disk]) as (path,):
            return any(b"%d" % (ROWS - 1) in block.read_bytes() for block in path.rglob("msgs/*.blk"))

    with running([disk.path], [0], "10s") as (server,):
        with jetstream(server) as js:
            js.add_stream(name="S", subjects=["s"])
            disk.sync()
            js.publish_batch("s", [b"%d" % row for row in range(ROWS)]).raise_for_errors()
            assert not is_synced()
            wait_until(is_synced, 30)
            js.publish_batch("s", [b"%d" % row for row in range(ROWS, 2 * ROWS)]).raise_for_errors()
            server.kill()
        with cut([disk]) as after, running(after, [0], "10s") as (other,), jetstream(other) as js:
            assert js.stream_info("S").state.messages == ROWS
        server.start()
        with jetstream(server) as js:
            assert js.stream_info("S").state.messages == 2 * ROWS


@pytest.mark.parametrize(("sync", "is_kept"), [("default", False), ("always", True)])
def test_power_loss_removes_a_new_stream_as_documented(sync: str, is_kept: bool, disks: list[Disk]) -> None:
    with running([disks[0].path], [0], sync) as (server,):
        with jetstream(server) as js:
            js.add_stream(name="S", subjects=["s"])
            js.publish_batch("s", [b"x"] * ROWS).raise_for_errors()
            server.kill()
        with cut(disks[:1]) as after, running(after, [0], sync) as (other,), jetstream(other) as js:
            assert [info.state.messages for info in js.streams_info()] == ([ROWS] if is_kept else [])


def publish(js: jetarrow.sync.JetStream, rows: int) -> int:
    """Publishes one atomic batch; returns the number of its stored rows."""
    result = js.publish_batch("s", [b"%d" % row + b"x" * 200 for row in range(rows)], mode="atomic", timeout=5)
    result.raise_for_errors()
    return result.stored


def publish_atomic_batches(js: jetarrow.sync.JetStream, stored: list[int]) -> None:
    """Publishes batches of 1,000 rows until one fails; adds the number of rows of each acknowledged one."""
    with contextlib.suppress(Error):
        while True:
            stored.append(publish(js, 1000))


@pytest.mark.parametrize("sync", [pytest.param("default", marks=pytest.mark.slow), "always"])
def test_atomic_batch_is_whole_or_absent_after_a_crash(sync: str, disks: list[Disk]) -> None:
    random, disk = Random(1), disks[0]
    with running([disk.path], [0], sync) as (server,):
        with jetstream(server) as js:
            js.add_stream(name="S", subjects=["s"], allow_atomic=True)
        disk.sync()
        found = 0
        for _ in range(6):
            before, stored = found, list[int]()
            with jetstream(server) as js:
                thread = Thread(target=publish_atomic_batches, args=(js, stored))
                thread.start()
                wait_until(lambda: stored, 30)  # noqa: B023
                # Into a later batch.
                time.sleep(random.uniform(0, 0.05))
                server.kill()
                with cut([disk]) as after:
                    thread.join()
                    with running(after, [0], sync) as (other,), jetstream(other) as there:
                        power = there.stream_info("S").state.messages
            server.start()
            with jetstream(server) as js:
                found = js.stream_info("S").state.messages
            acknowledged = before + sum(stored)
            assert found % 1000 == 0
            assert found >= acknowledged
            # With the default interval the kernel may have written a part of a batch.
            assert sync == "default" or (power % 1000 == 0 and power >= acknowledged)
    assert found >= 6000


def test_power_loss_leaves_a_part_of_an_atomic_batch_that_was_written_in_part(tmp_path: Path) -> None:
    """The file of a stream ends where the kernel had come to: the server takes what is there."""
    assert "a part of a batch may be left" in PAGE
    with running([tmp_path], [0], "default") as (server,):
        with jetstream(server) as js:
            js.add_stream(name="S", subjects=["s"], allow_atomic=True)
            publish(js, 1000)
            server.kill()
        (block,) = tmp_path.rglob("S/msgs/1.blk")
        os.truncate(block, block.stat().st_size * 7 // 8)
        server.start()
        with jetstream(server) as js:
            assert 0 < js.stream_info("S").state.messages < 1000


@pytest.mark.parametrize("sync", ["default", "always"])
@pytest.mark.slow
def test_rows_of_three_replicas_survive_as_documented(sync: str, disks: list[Disk]) -> None:
    streams = Streams(3)
    with filled_cluster(streams, disks, sync) as (servers, ports):
        with jetstream(servers[0]) as js:
            streams.publish(js, ROWS)
            for server in servers:
                server.kill()
        with cut(disks) as after:
            start(servers)
            with jetstream(servers[1]) as js:
                killed = streams.outcomes(js)
            for server in servers:
                server.stop()
            with running(after, ports, sync) as others, jetstream(others[1]) as js:
                power = streams.outcomes(js)
    assert len(power) == 6
    for kind, found in power.items():
        storage, persist, mode = kind
        expected = cells(3, storage, persist, interval_of(sync, storage, persist))
        assert ([killed[kind], found], mode) == ([expected[0], expected[2]], mode), (kind, sync)


@pytest.mark.parametrize("sync", ["default", "always"])
@pytest.mark.slow
def test_rows_survive_the_power_loss_of_one_server_of_three(sync: str, disks: list[Disk]) -> None:
    streams = Streams(3)
    with filled_cluster(streams, disks, sync) as (servers, _):
        with jetstream(servers[1]) as js:
            streams.publish(js, ROWS)
            servers[0].kill()
        with cut(disks[:1]) as after, replaced(servers[0], after[0]) as back:
            back.start()
            with jetstream(servers[1]) as js:
                found = streams.outcomes(js)
    assert len(found) == 6
    for (storage, persist, mode), one in found.items():
        assert (one, mode) == (cells(3, storage, persist, interval_of(sync, storage, persist))[1], mode)


@pytest.mark.parametrize(("sync", "expected"), [("default", LOST), ("always", KEPT)])
@pytest.mark.slow
def test_majority_with_a_server_that_lost_power(sync: str, expected: str, disks: list[Disk]) -> None:
    """The order of events of the section "One server loses power"."""
    assert "It discards its 100 acknowledged rows" in PAGE
    streams = Streams(3)
    streams.names = {kind: name for kind, name in streams.names.items() if kind[0] == "file"}
    name = streams.names["file", "default", "window"]
    with filled_cluster(streams, disks, sync) as (servers, _):
        with jetstream(servers[0]) as js:
            cluster = js.stream_info(name).cluster
        assert cluster is not None
        assert cluster.leader is not None
        leader = servers[int(cluster.leader[1:])]
        dark, down = (server for server in servers if server is not leader)
        down.kill()
        with jetstream(leader) as js:
            rows = [b"%d" % row for row in range(ROWS, 2 * ROWS)]
            js.publish_batch(name, rows).raise_for_errors()
        dark.kill()
        with cut([disks[servers.index(dark)]]) as after, replaced(dark, after[0]) as back:
            leader.kill()
            start([back, down])
            with jetstream(down) as js:
                wait_until(lambda: has_leader(js, name), 60)
            leader.start()
            with jetstream(leader) as js:
                assert outcome(js, name) == expected


def test_core_messages_have_no_ack() -> None:
    (row,) = [row for row in table() if row[4].startswith("core")]
    assert row[5:] == ["no ack"] * 3


def test_table_has_every_configuration() -> None:
    configured = {tuple(row[:4]) for row in table() if not row[4].startswith("core")}
    files = {(replicas, "file", "default", sync) for replicas in "13" for sync in ("2 min (default)", "N s", "always")}
    assert configured == files | {("1", "file", "async", "any"), ("1", "memory", "default", "any")} | {
        ("3", "memory", "default", "any")
    }
    # The server refuses the others.
    with NatsServer() as server, jetstream(server) as js:
        for refused in ({"storage": "memory"}, {"allow_atomic": True}):
            with pytest.raises(Error, match="async persist mode"):
                js.add_stream(name="S", subjects=["s"], persist_mode="async", **refused)
