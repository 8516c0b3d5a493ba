"""Reads detect a rollback of their stream."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path
from typing import Any

import jetarrow
import pytest
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.errors import StreamRolledBackError
from jetarrow.server import NatsServer

from ..tools import until
from .tools import COUNT, SINCE, STREAM, Copy, publish, with_other_client


@pytest.fixture
async def copy(own_server: NatsServer, js: JetStreamContext, tmp_path: Path) -> Copy:
    """The copy holds COUNT messages; COUNT more are published after it."""
    copy = Copy(own_server, tmp_path / "copy")
    await publish(js, COUNT)
    await asyncio.to_thread(copy.take)
    await with_other_client(own_server, lambda other: publish(other, COUNT))
    return copy


class Reading:
    """A following reader and the rows that it has read."""

    def __init__(self, js: JetStreamContext, **options: Any) -> None:
        self.rows: list[tuple[int, str]] = []
        self.error: BaseException | None = None
        self.warned = False
        self._task = asyncio.ensure_future(self._read(js.read(STREAM, follow=True, **options)))

    async def _read(self, reader: Any) -> None:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                await self._take(reader)
            finally:
                self.warned = any("was rolled back" in str(warning.message) for warning in told)

    async def _take(self, reader: Any) -> None:
        try:
            async for batch in reader:
                words = (msg.data.decode() for msg in batch)
                self.rows += zip(batch.seqs.to_pylist(), words, strict=True)
        except jetarrow.errors.Error as error:
            self.error = error

    async def until(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.rows) < count and self.error is None:
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        async with asyncio.timeout(30):
            await self._task

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def at(error: BaseException | None) -> tuple[Any, ...]:
    """Returns the stream and the sequences of the error."""
    assert isinstance(error, StreamRolledBackError), error
    assert error.expected is not None
    assert error.found is not None
    good = error.last_good
    return error.stream, error.expected[0], error.found[0], None if good is None else good[0]


@pytest.mark.parametrize("since", SINCE)
async def test_a_following_reader_ends_with_the_error(
    own_server: NatsServer, js: JetStreamContext, copy: Copy, since: str
) -> None:
    reading = Reading(js)
    await reading.until(2 * COUNT)
    await asyncio.to_thread(copy.put_back)
    await with_other_client(own_server, SINCE[since])
    await reading.end()
    stream, expected, found, good = at(reading.error)
    assert stream == STREAM
    assert COUNT < expected <= 2 * COUNT
    assert found in (expected, COUNT, COUNT + 10)
    assert good is None or good <= COUNT
    assert reading.rows == [(row + 1, f"old {row % COUNT}") for row in range(2 * COUNT)]
    assert STREAM in str(reading.error)
    assert "on_rollback" in str(reading.error)


@pytest.mark.parametrize("since", ["behind", "past"])
async def test_a_following_reader_goes_on_behind_what_is_still_there(
    own_server: NatsServer, js: JetStreamContext, copy: Copy, since: str
) -> None:
    reading = Reading(js, on_rollback="continue", batch_rows=10)
    await reading.until(2 * COUNT)
    await asyncio.to_thread(copy.put_back)
    await with_other_client(own_server, SINCE[since])
    more = 10 if since == "behind" else 2 * COUNT
    await until(lambda: reading.error or reading.rows[-1][1] == f"new {more - 1}", 30)
    await reading.stop()
    assert reading.error is None
    assert reading.warned
    again = reading.rows[2 * COUNT :]
    # The reader continues at a mark and yields each message once, in order; it yields all new messages.
    assert [seq for seq, _ in again] == list(range(again[0][0], COUNT + more + 1))
    assert again[0][0] <= COUNT + 1
    assert [word for seq, word in again if seq > COUNT] == [f"new {number}" for number in range(more)]


async def test_a_following_reader_begins_anew(own_server: NatsServer, js: JetStreamContext, copy: Copy) -> None:
    reading = Reading(js, on_rollback="earliest")
    await reading.until(2 * COUNT)
    await asyncio.to_thread(copy.put_back)
    await with_other_client(own_server, SINCE["behind"])
    await reading.until(3 * COUNT + 10)
    await reading.stop()
    assert reading.warned
    assert [seq for seq, _ in reading.rows[2 * COUNT :]] == list(range(1, COUNT + 11))


@pytest.mark.parametrize("since", ["behind", "past", "nothing"])
@pytest.mark.parametrize("latest", [False, True])
async def test_a_bounded_read_in_progress_ends_with_the_error(
    own_server: NatsServer, js: JetStreamContext, copy: Copy, since: str, latest: bool
) -> None:
    """A position before the lost messages is checked too, because the end of the range is behind them."""
    await with_other_client(own_server, lambda other: each_its_subject(other, 3_000))
    options = {"batch_rows": 10, "batch_bytes": 1_000}
    reader = js.latest(STREAM, **options) if latest else js.read(STREAM, fetch_bytes=1_000, **options)
    async with reader:
        await anext(reader)
        await asyncio.to_thread(copy.put_back)
        await with_other_client(own_server, SINCE[since])
        with pytest.raises(StreamRolledBackError):
            async for _ in reader:
                pass


async def each_its_subject(js: JetStreamContext, count: int) -> None:
    subjects = [f"{STREAM}.{number}" for number in range(count)]
    (await js.publish_batch(subjects, [b"x" * 100] * count)).raise_for_errors()


async def test_a_bounded_read_that_continues_ends_at_what_is_there(
    own_server: NatsServer, js: JetStreamContext, copy: Copy
) -> None:
    await with_other_client(own_server, lambda other: publish(other, 3_000))
    seen = []
    async with js.read(STREAM, batch_rows=10, batch_bytes=1_000, fetch_bytes=1_000, on_rollback="continue") as reader:
        seen += (await anext(reader)).seqs.to_pylist()
        await asyncio.to_thread(copy.put_back)
        await with_other_client(own_server, SINCE["behind"])
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            async for batch in reader:
                seen += batch.seqs.to_pylist()
    assert "was rolled back" in str(told[0].message)
    assert seen[-1] == COUNT + 10
    assert set(seen) >= set(range(1, COUNT + 11))
