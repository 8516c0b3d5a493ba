"""Payload sizes and windows, only with --bench-full."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import wire
from harness import Group, Run
from test_publish import publish_batch

NATIVE = "jetarrow._jetarrow"
SIZES = {16: 300_000, 1 << 10: 200_000, 16 << 10: 20_000, 256 << 10: 1_000}  # to the number of messages
WINDOWS = (100, 500, 1_000, 5_000, 20_000)
GROUPS: list[Group] = []


def publish_group(name: str, size: int, count: int, window: int) -> None:
    group = Group(name, "publish", baseline="raw socket", size=size, count=count)
    GROUPS.append(group)

    @group.row("raw socket")
    def raw_socket(run: Run) -> int:
        wire.publish(run.url, run.subject, run.size, run.count, window=window, clock=run.clock())
        return run.count

    @group.row("jetarrow publish_batch", needs=NATIVE)
    async def batch(run: Run) -> int:
        return await publish_batch(run, "window", window)


def read_group(name: str, size: int, count: int) -> None:
    group = Group(name, "read", baseline="raw socket", size=size, count=count)
    GROUPS.append(group)

    @group.row("raw socket")
    def raw_socket(run: Run) -> int:
        wire.pull(run.url, run.stream, run.count, clock=run.clock())
        return run.count

    @group.row("jetarrow read, batch by batch", needs=NATIVE)
    async def read(run: Run) -> int:
        import jetarrow

        rows = 0
        nc = await jetarrow.connect(run.url)
        with run.clock():
            async for batch in nc.jetstream().read(run.stream):
                rows += batch.to_pyarrow().num_rows
        await nc.close()
        return rows


for _window in WINDOWS:
    publish_group(f"publish, 128 B, window {_window:,}", 128, 200_000, _window)
for _size, _count in SIZES.items():
    _text = f"{_size} B" if _size < 1024 else f"{_size >> 10} KiB"
    publish_group(f"publish, {_text}", _size, _count, wire.WINDOW)
    read_group(f"read, {_text}", _size, _count)


# A group's first test runs both its rows.
@pytest.mark.parametrize("name", ["raw socket", "jetarrow publish_batch", "jetarrow read, batch by batch"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_full(group: Group, name: str, record: Callable[[Group, str], None]) -> None:
    if name not in group.rows:
        pytest.skip("the other direction")
    record(group, name)
