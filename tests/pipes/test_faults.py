"""Pipes while servers fail, go back, or are interrupted."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.jetstream.pipes.opening import Opening
from jetarrow.js.errors import DataLossError, StreamRolledBackError
from jetarrow.server import NatsServer

from ..rollback.test_cluster import patiently
from ..rollback.tools import Copy
from ..slow_link import slow_link
from ..tools import cluster, until
from .tools import SCHEMA, double, outputs, publish

SOURCE, TARGET = "SOURCE", "TARGET"


@pytest.fixture
async def own_js(own_server: NatsServer) -> AsyncIterator[JetStreamContext]:
    """Source and target on a server of their own."""
    async with await jetarrow.connect(own_server.url, reconnect_time_wait=0.05, max_reconnect_attempts=-1) as nc:
        js = nc.jetstream()
        await js.add_stream(name=SOURCE, subjects=[f"{SOURCE}.>"])
        await js.add_stream(name=TARGET, subjects=[f"{TARGET}.>"], allow_atomic=True)
        yield js


def made(js: Any, **more: Any) -> Any:
    return js.pipe(SOURCE, TARGET, double, name="p", subject=f"{TARGET}.out.{{key}}", schema=SCHEMA, **more)


async def ids(js: JetStreamContext) -> list[int]:
    return [row["id"] for row in await outputs(js, TARGET)]


async def test_a_server_that_is_killed_while_it_runs(own_server: NatsServer, own_js: JetStreamContext) -> None:
    await publish(own_js, SOURCE, range(40_000))
    pipe = made(own_js, follow=True, rows=3_000)
    running = asyncio.ensure_future(pipe.run())

    async def count() -> int:
        return (await own_js.stream_info(TARGET)).state.messages

    for wanted in (5_000, 20_000):
        # A busy machine may take longer for an answer than a call waits.
        while await patiently(count) < wanted:
            await asyncio.sleep(0.01)
        own_server.kill()
        own_server.start()
        while not own_js._api.session.native.is_connected:
            await asyncio.sleep(0.01)
    while await patiently(made(own_js).lag):
        await asyncio.sleep(0.05)
    await pipe.close()
    result = await running
    assert await ids(own_js) == list(range(40_000))
    assert result.rows <= 40_000


async def test_an_unanswered_request_to_open_the_reader_is_repeated(
    own_server: NatsServer, own_js: JetStreamContext
) -> None:
    """A server that is killed at that moment does not end a pipe that follows its source."""
    async with slow_link(own_server.url, 0.1) as link, await jetarrow.connect(link.url, connect_timeout=20) as nc:
        running = asyncio.ensure_future(made(nc.jetstream(timeout=4), follow=True).run())

        async def asks(times: int) -> None:
            wanted = link.asked("STREAM.INFO") + times
            await until(lambda: running.done() or link.asked("STREAM.INFO") >= wanted)

        await publish(own_js, SOURCE, range(5))
        while await made(own_js).lag():
            assert not running.done(), running.result()
            await asyncio.sleep(0.05)
        # The pipe waits for the answer to a request for the stream's state.
        link.swallowed = b"STREAM.INFO.SOURCE"
        await asks(1)
        await publish(own_js, SOURCE, range(5, 10))
        link.swallowed = None
        # The next one shows that there are messages; the one after is that of the reader.
        await asks(1)
        link.swallowed = b"STREAM.INFO.SOURCE"
        await asks(2)
        link.swallowed = None
        while await made(own_js).lag():
            assert not running.done(), running.result()
            await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert await ids(own_js) == list(range(10))


def replace_stream(server: NatsServer, copy: Path) -> None:
    """Replaces the store of the source by the one of a copy."""
    (store,) = Path(server.store_dir).rglob(f"streams/{SOURCE}")
    (older,) = copy.rglob(f"streams/{SOURCE}")
    shutil.rmtree(store)
    shutil.copytree(older, store)


class TestRollback:
    """A store is replaced by an older copy."""

    async def rolled(self, own_server: NatsServer, js: JetStreamContext, place: Path) -> None:
        """20 messages are processed, and the store is that of 10, which were processed too."""
        await publish(js, SOURCE, range(10))
        await made(js).run()
        copy = Copy(own_server, place)
        copy.take()
        await publish(js, SOURCE, range(10, 20))
        await made(js).run()
        copy.put_back()

    async def test_of_both_streams_goes_on_where_it_was(
        self, own_server: NatsServer, own_js: JetStreamContext, tmp_path: Path
    ) -> None:
        """Note, position and source have gone back together: the messages of the position are those of the target."""
        await self.rolled(own_server, own_js, tmp_path / "copy")
        await publish(own_js, SOURCE, range(100, 105))
        assert (await made(own_js).run()).rows == 5
        assert await ids(own_js) == [*range(10), *range(100, 105)]

    @pytest.mark.parametrize(("on_rollback", "wanted"), [("continue", 5), ("earliest", 15)])
    async def test_of_the_source(
        self, own_server: NatsServer, own_js: JetStreamContext, tmp_path: Path, on_rollback: str, wanted: int
    ) -> None:
        """The source is an older copy, and the target is not."""
        await publish(own_js, SOURCE, range(10))
        await made(own_js).run()
        copy = Copy(own_server, tmp_path / "copy")
        copy.take()
        await publish(own_js, SOURCE, range(10, 20))
        await made(own_js).run()
        own_server.kill()
        replace_stream(own_server, copy.place)
        own_server.start()
        with pytest.raises(StreamRolledBackError, match=SOURCE):
            await made(own_js).run()
        await publish(own_js, SOURCE, range(100, 105))
        with pytest.warns(UserWarning, match="rolled back"):
            result = await made(own_js, on_rollback=on_rollback).run()
        assert result.rows == wanted
        again = range(10) if on_rollback == "earliest" else range(0)
        assert await ids(own_js) == [*range(20), *again, *range(100, 105)]

    @pytest.mark.parametrize("on_rollback", ["continue", "earliest"])
    async def test_of_the_target(self, own_js: JetStreamContext, on_rollback: str) -> None:
        """The last messages of the target are gone, with their position."""
        await publish(own_js, SOURCE, range(10))
        await made(own_js).run()
        before = (await own_js.stream_info(TARGET)).state.last_seq
        await publish(own_js, SOURCE, range(10, 20))
        await made(own_js).run()
        for seq in range(before + 1, (await own_js.stream_info(TARGET)).state.last_seq + 1):
            await own_js.delete_msg(TARGET, seq)
        with pytest.raises(StreamRolledBackError, match=TARGET):
            await made(own_js).run()
        with pytest.warns(UserWarning, match="rolled back"):
            result = await made(own_js, on_rollback=on_rollback).run()
        assert result.rows == (10 if on_rollback == "continue" else 20)
        assert (await ids(own_js))[-10:] == list(range(10, 20))

    async def test_of_the_target_while_it_runs(self, own_js: JetStreamContext) -> None:
        await publish(own_js, SOURCE, range(10))
        async with made(own_js, follow=True) as pipe:
            await pipe.step()
            await publish(own_js, SOURCE, range(10, 20))
            await pipe.step()
            last = await own_js.get_last_msg(TARGET, f"{TARGET}._pipe-p")
            await own_js.delete_msg(TARGET, last.seq)
            await publish(own_js, SOURCE, range(20, 30))
            with pytest.raises(StreamRolledBackError, match=TARGET):
                await pipe.step()

    async def test_the_totals_of_a_run_that_continues(self, own_js: JetStreamContext) -> None:
        async def has(count: int) -> bool:
            return len(await outputs(own_js, TARGET)) == count

        await publish(own_js, SOURCE, range(10))
        pipe = made(own_js, follow=True, on_rollback="continue")
        running = asyncio.ensure_future(pipe.run())
        await until(lambda: has(10))
        before = (await own_js.stream_info(TARGET)).state.last_seq
        await publish(own_js, SOURCE, range(10, 20))
        await until(lambda: has(20))
        for seq in range(before + 1, (await own_js.stream_info(TARGET)).state.last_seq + 1):
            await own_js.delete_msg(TARGET, seq)
        await publish(own_js, SOURCE, range(20, 30))
        await until(lambda: has(30))
        await pipe.close()
        # The second ten are stored twice.
        assert (await running).rows == 40


async def test_a_reset_beside_a_running_instance(own_js: JetStreamContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that another instance stores meanwhile does not undo it."""
    await publish(own_js, SOURCE, range(10))
    other = made(own_js, rows=5)
    await other.step()
    claim = Opening.claim

    async def late(self: Opening, *arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        await other.step()
        return await claim(self, *arguments, **options)

    monkeypatch.setattr(Opening, "claim", late)
    pipe = made(own_js)
    await pipe.reset(1)
    assert (await pipe.run()).rows == 10
    assert await ids(own_js) == [*range(10), *range(10)]


async def test_messages_that_the_source_has_lost(own_js: JetStreamContext) -> None:
    await publish(own_js, SOURCE, range(10))
    await made(own_js).run()
    await publish(own_js, SOURCE, range(10, 20))
    await own_js.purge_stream(SOURCE, seq=15)
    with pytest.raises(DataLossError):
        await made(own_js).run()
    assert (await made(own_js, on_data_loss="warn").run()).rows == 6


async def test_a_cancelled_run_has_the_totals_and_goes_on(own_js: JetStreamContext) -> None:
    await publish(own_js, SOURCE, range(100))
    running = asyncio.ensure_future(made(own_js, follow=True, rows=10).run())
    while len(await ids(own_js)) < 100:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await running
    assert caught.value.partial.rows in (90, 100)  # type: ignore[attr-defined]
    await publish(own_js, SOURCE, range(100, 110))
    await made(own_js).run()
    assert await ids(own_js) == list(range(110))


def test_close_in_another_thread_ends_a_blocking_run(own_sync: jetarrow.sync.JetStream) -> None:
    own_sync.add_stream(name=SOURCE, subjects=[f"{SOURCE}.>"])
    own_sync.add_stream(name=TARGET, subjects=[f"{TARGET}.>"], allow_atomic=True)
    own_sync.publish_batch(f"{SOURCE}.a", [b'{"id": 1, "key": "a"}'] * 10).raise_for_errors()
    seen = threading.Event()

    def function(rows: pa.Table) -> pa.Table:
        seen.set()
        return double(rows)

    pipe = own_sync.pipe(SOURCE, TARGET, function, name="p", subject=f"{TARGET}.{{key}}", schema=SCHEMA, follow=True)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(pipe.run()))
    thread.start()
    assert seen.wait(30)
    pipe.close()
    thread.join(30)
    assert results == [(10, 10, 0, 0, 10)]


class TestTables:
    """Tables beside the rows."""

    @staticmethod
    def joined(rows: pa.Table, names: pa.Table) -> pa.Table:
        return (
            rows.select(["id", "key"]).join(names.select(["key", "name"]), "key", join_type="left outer").sort_by("id")
        )

    async def test_follow_their_stream(self, own_js: JetStreamContext) -> None:
        kv = await own_js.create_key_value(bucket="NAMES", history=5)
        await kv.put("k0", b'{"name": "zero"}')
        await kv.put("k1", b'{"name": "one"}')

        def function(rows: pa.Table, names: pa.Table) -> pa.Table:
            return self.joined(rows, names.append_column("name", names["value"].combine_chunks().field("name")))

        tables = {"names": kv.read(schema={"name": "string"})}
        more: dict[str, Any] = {"tables": tables, "schema": SCHEMA, "nulls": True, "follow": True}
        async with own_js.pipe(SOURCE, TARGET, function, name="p", subject=f"{TARGET}.out.{{key}}", **more) as pipe:
            await publish(own_js, SOURCE, range(3))
            await pipe.step()
            await kv.put("k2", b'{"name": "two"}')
            await kv.put("k0", b'{"name": "ZERO"}')
            await kv.delete("k1")
            await publish(own_js, SOURCE, range(3))
            await pipe.step()
        names = [row.get("name") for row in await outputs(own_js, TARGET)]
        assert names == ["zero", "one", None, "ZERO", None, "two"]

    async def test_are_as_before_in_a_replay(self, own_js: JetStreamContext) -> None:
        """A step that was stored in part is processed again with the tables that it had."""
        await own_js.add_stream(name="FACTORS", subjects=["factors.>"])
        await own_js.publish("factors.k", b'{"factor": 2}')

        def function(rows: pa.Table, factors: pa.Table) -> pa.Table:
            factor = factors["factor"][0].as_py()
            return rows.append_column("factor", pa.repeat(factor, len(rows)))

        def pipe() -> Any:
            factors = own_js.latest("FACTORS", schema={"factor": "int64"}, flatten=True)
            more: dict[str, Any] = {"tables": {"factors": factors}, "schema": SCHEMA}
            return own_js.pipe(SOURCE, TARGET, function, name="p", subject=f"{TARGET}.out.{{key}}", **more)

        await publish(own_js, SOURCE, range(1_500))
        config = {"name": TARGET, "subjects": [f"{TARGET}.>"], "allow_atomic": True}
        await own_js.update_stream(**config, discard="new", max_msgs=1_200)
        with pytest.raises(jetarrow.js.errors.PipeError, match="refuses part 2"):
            await pipe().run()
        await own_js.update_stream(**config, discard="old", max_msgs=-1)
        await own_js.publish("factors.k", b'{"factor": 3}')
        await pipe().run()
        await publish(own_js, SOURCE, range(1_500, 1_501))
        await pipe().run()
        assert [row["factor"] for row in await outputs(own_js, TARGET)] == [2] * 1_500 + [3]

    async def test_of_a_stream_that_keeps_the_last_messages(self, own_js: JetStreamContext) -> None:
        """Messages that are missing between two steps were replaced: no loss, and no warning."""
        await own_js.add_stream(name="FACTORS", subjects=["factors.>"], max_msgs_per_subject=1)
        seen: list[list[bytes]] = []

        def function(rows: pa.Table, factors: pa.Table) -> pa.Table:
            seen.append(sorted(factors["data"].to_pylist()))
            return rows

        more: dict[str, Any] = {"tables": {"factors": own_js.latest("FACTORS")}, "schema": SCHEMA, "follow": True}
        async with own_js.pipe(SOURCE, TARGET, function, name="p", subject=f"{TARGET}.out.{{key}}", **more) as pipe:
            for a, b in (1, 1), (3, 0), (2, 1), (1, 0):
                for name, count in (("a", a), ("b", b)):
                    for number in range(count):
                        await own_js.publish(f"factors.{name}", b"%s %d of %d" % (name.encode(), number + 1, count))
                if len(seen) == 3:
                    await own_js.purge_stream("FACTORS", subject="factors.b")
                await publish(own_js, SOURCE, range(3))
                assert (await pipe.step()).rows == 3
        assert seen == [
            [b"a 1 of 1", b"b 1 of 1"],
            [b"a 3 of 3", b"b 1 of 1"],
            [b"a 2 of 2", b"b 1 of 1"],
            [b"a 1 of 1"],
        ]

    async def test_that_are_none(self, own_js: JetStreamContext) -> None:
        with pytest.raises(TypeError, match=r"table 'x' must be js\.latest"):
            made(own_js, tables={"x": 5})
        with pytest.raises(ValueError, match="present state"):
            made(own_js, tables={"x": own_js.latest(SOURCE, as_of_seq=4)})


@pytest.mark.timeout(180)
@pytest.mark.slow
async def test_leaders_that_change() -> None:
    """Leaders of both streams step down, and the server of one is killed."""
    with cluster() as servers:
        async with await jetarrow.connect(
            [server.url for server in servers.values()], reconnect_time_wait=0.05, max_reconnect_attempts=-1
        ) as nc:
            # A leader that steps down or is killed leaves requests unanswered: they are repeated soon.
            js, looks = nc.jetstream(), nc.jetstream(timeout=1)
            await patiently(lambda: js.add_stream(name=SOURCE, subjects=[f"{SOURCE}.>"], num_replicas=3))
            config: dict[str, Any] = {"name": TARGET, "subjects": [f"{TARGET}.>"], "allow_atomic": True}
            await patiently(lambda: js.add_stream(**config, num_replicas=3))
            texts = [f'{{"id": {number}, "key": "k{number % 5}"}}' for number in range(20_000)]
            result = await js.publish_batch(f"{SOURCE}.a", texts, msg_ids=[str(n) for n in range(20_000)], timeout=60)
            result.raise_for_errors()
            pipe = made(js, follow=True, rows=1_500)
            running = asyncio.ensure_future(pipe.run())
            for name, wanted in ((TARGET, 2_000), (SOURCE, 6_000), (TARGET, 10_000)):
                while (await patiently(lambda: looks.stream_info(TARGET))).state.messages < wanted:
                    await asyncio.sleep(0.02)
                await patiently(looks.stream(name).step_down)
            # During an election there is none.
            while (leader := (await patiently(lambda: looks.stream_info(TARGET))).cluster.leader) is None:
                await asyncio.sleep(0.05)
            servers[leader].kill()
            while await patiently(made(looks).lag):
                await asyncio.sleep(0.05)
            servers[leader].start()
            await pipe.close()
            await running
            assert await ids(js) == list(range(20_000))
