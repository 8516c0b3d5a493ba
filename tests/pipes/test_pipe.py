"""Pipes: what the function gets, what the target has, and how a pipe goes on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jetarrow.sync
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from jetarrow.errors import UnsupportedError
from jetarrow.jetstream.context import JetStreamContext
from jetarrow.js.errors import (
    PipeError,
    PipeFencedError,
    PipePositionLostError,
    PipeReplayError,
    StreamRecreatedError,
)

from .tools import SCHEMA, double, outputs, publish


def options(target: str, **more: Any) -> dict[str, Any]:
    return {"name": "p", "subject": f"{target}.out.{{key}}", "schema": SCHEMA, **more}


async def test_rows_are_messages_once(js: JetStreamContext, stream: str, target: str) -> None:
    await publish(js, stream, range(2_500))
    async with js.pipe(stream, target, double, **options(target)) as pipe:
        result = await pipe.run()
    assert result == (2_500, 2_500, 0, 0, 2_500)
    assert await outputs(js, target) == [{"id": n, "key": f"k{n % 5}", "double": 2 * n} for n in range(2_500)]
    await publish(js, stream, range(2_500, 2_510))
    pipe = js.pipe(stream, target, double, **options(target))
    assert await pipe.lag() == 10
    assert await pipe.step() == (10, 10, 0, 0, 2_510)
    assert (await pipe.lag(), await pipe.step()) == (0, (0, 0, 0, 0, None))
    await pipe.close()
    assert [row["id"] for row in await outputs(js, target)] == list(range(2_510))


async def test_payload_and_headers_pass_without_those_of_the_server(
    js: JetStreamContext, stream: str, target: str
) -> None:
    for number in range(3):
        headers = {"Nats-Msg-Id": "same" + str(number % 2 * number), "Trace": f"t{number}"}
        await js.publish(f"{stream}.k1", b"\x00%d" % number, headers=headers)
    await js.publish(f"{stream}.k2", b"plain")

    def renamed(rows: pa.Table) -> pa.Table:
        subjects = pc.replace_substring(rows["subject"], f"{stream}.", f"{target}.out.")
        return rows.set_column(rows.column_names.index("subject"), "subject", subjects)

    assert (await js.pipe(stream, target, renamed, name="copy").run()).messages == 3
    rows = (
        (await js.read(target, subjects=f"{target}.out.>").read_all())
        .select(["subject", "data", "headers"])
        .to_pylist()
    )
    assert [row["data"] for row in rows] == [b"\x000", b"\x001", b"plain"]
    assert [dict(row["headers"]).get("Trace") for row in rows] == [["t0"], ["t1"], None]
    assert not any("Nats-Msg-Id" in dict(row["headers"]) for row in rows)


@pytest.mark.parametrize("kind", ["polars", "batch", "stream", "coroutine", "query"])
async def test_functions_of_every_kind(js: JetStreamContext, stream: str, target: str, kind: str) -> None:
    await publish(js, stream, range(20))

    async def coroutine(rows: pa.Table) -> pa.Table:
        await asyncio.sleep(0)
        return double(rows)

    functions: dict[str, Any] = {
        "polars": lambda rows: polars.DataFrame(polars.from_arrow(rows)).with_columns(double=polars.col("id") * 2),
        "batch": lambda rows: double(rows).to_batches()[0],
        "stream": lambda rows: pa.RecordBatchReader.from_batches(double(rows).schema, double(rows).to_batches()),
        "coroutine": coroutine,
        "query": "select key, id, 2 * id as double from input",
    }
    result = await js.pipe(stream, target, functions[kind], **options(target)).run()
    assert result.messages == 20
    assert sorted(row["double"] for row in await outputs(js, target)) == [2 * number for number in range(20)]


async def test_a_step_without_messages_moves_the_position(js: JetStreamContext, stream: str, target: str) -> None:
    await publish(js, stream, range(20))
    pipe = js.pipe(stream, target, lambda rows: None, **options(target))
    assert await pipe.run() == (20, 0, 0, 0, 20)
    assert await js.pipe(stream, target, double, **options(target)).run() == (0, 0, 0, 0, None)


async def test_a_step_without_rows_stores_nothing(js: JetStreamContext, stream: str, target: str) -> None:
    await publish(js, stream, range(5))
    async with js.pipe(stream, target, double, **options(target, follow=True)) as pipe:
        await pipe.step()
        before = (await js.stream_info(target)).state.last_seq
        for _ in range(3):
            assert (await pipe.step()).rows == 0
        assert (await js.stream_info(target)).state.last_seq == before


async def test_the_later_instance_fences_the_earlier_one(js: JetStreamContext, stream: str, target: str) -> None:
    await publish(js, stream, range(10))
    first = js.pipe(stream, target, double, **options(target, follow=True))
    second = js.pipe(stream, target, double, **options(target, follow=True))
    assert (await first.step()).rows == 10
    await second.step()
    await publish(js, stream, range(10, 20))
    with pytest.raises(PipeFencedError, match="another instance"):
        await first.step()
    assert (await second.step()).rows == 10
    assert [row["id"] for row in await outputs(js, target)] == list(range(20))
    await first.close()
    await second.close()


async def test_other_publishers_of_the_target_are_no_obstacle(js: JetStreamContext, stream: str, target: str) -> None:
    await publish(js, stream, range(20_000))
    running = True

    async def disturb() -> None:
        while running:
            await js.publish(f"{target}.other", b"")

    other = asyncio.ensure_future(disturb())
    result = await js.pipe(stream, target, double, **options(target, rows=7_000)).run()
    running = False
    await other
    assert result.messages == 20_000
    assert [row["id"] for row in await outputs(js, target)] == list(range(20_000))


class TestFailures:
    """`on_error`."""

    @staticmethod
    def picky(rows: pa.Table) -> pa.Table:
        wrong = pc.equal(pc.bit_wise_and(rows["id"], 3), 0)
        return rows.append_column("error", pc.if_else(wrong, "a multiple of four", None))

    async def test_fail_names_the_message(self, js: JetStreamContext, stream: str, target: str) -> None:
        await publish(js, stream, range(1, 9))
        with pytest.raises(PipeError, match=r"could not process message 4: a multiple of four \(2 rows"):
            await js.pipe(stream, target, self.picky, **options(target)).run()
        assert await outputs(js, target) == []

    async def test_dead_letters_are_the_messages_with_the_reason(
        self, js: JetStreamContext, stream: str, target: str
    ) -> None:
        await publish(js, stream, range(1, 9))
        await js.publish(f"{stream}.bad", b"no json", headers={"Trace": "t"})
        pipe = js.pipe(stream, target, self.picky, **options(target, on_error="dead_letter"))
        assert await pipe.run() == (9, 6, 3, 0, 9)
        letters = (await js.read(target, subjects=f"{target}._dead-p").read_all()).to_pylist()
        assert [dict(row["headers"])["Jetarrow-Seq"] for row in letters] == [["4"], ["8"], ["9"]]
        assert json.loads(letters[0]["data"]) == {"id": 4, "key": "k4"}
        last = dict(letters[2]["headers"])
        assert (letters[2]["data"], last["Trace"], last["Jetarrow-Stream"]) == (b"no json", ["t"], [stream])
        assert last["Jetarrow-Subject"] == [f"{stream}.bad"]
        assert "could not be decoded" in last["Jetarrow-Reason"][0]

    async def test_skip_counts(self, js: JetStreamContext, stream: str, target: str) -> None:
        await publish(js, stream, range(1, 9))
        result = await js.pipe(stream, target, self.picky, **options(target, on_error="skip")).run()
        assert result == (8, 6, 0, 2, 8)

    @pytest.mark.parametrize(("on_error", "dead", "skipped"), [("dead_letter", 8, 0), ("skip", 0, 8)])
    async def test_a_function_that_raises_fails_its_step(
        self, js: JetStreamContext, stream: str, target: str, on_error: str, dead: int, skipped: int
    ) -> None:
        await publish(js, stream, range(1, 9))

        def broken(rows: pa.Table) -> pa.Table:
            raise KeyError("region")

        with pytest.raises(PipeError, match=r"messages 1 to 8 .*KeyError: 'region'") as caught:
            await js.pipe(stream, target, broken, **options(target)).run()
        assert isinstance(caught.value.__cause__, KeyError)
        result = await js.pipe(stream, target, broken, **options(target, on_error=on_error)).run()
        assert result == (8, 0, dead, skipped, 8)

    async def test_undecodable_rows_are_left_out_or_errors(
        self, js: JetStreamContext, stream: str, target: str
    ) -> None:
        await js.publish(f"{stream}.bad", b"no json")
        await publish(js, stream, [1])
        with pytest.raises(PipeError, match="message 1: the payload could not be decoded"):
            await js.pipe(stream, target, double, **options(target, mode="FAILFAST")).run()
        assert await js.pipe(stream, target, double, **options(target, mode="DROPMALFORMED")).run() == (2, 1, 0, 1, 2)

    async def test_a_message_that_the_target_refuses(self, js: JetStreamContext, stream: str, target: str) -> None:
        await publish(js, stream, [1])
        with pytest.raises(PipeError, match=rf"message 1: elsewhere.k1 is not a subject of stream '{target}'"):
            await js.pipe(stream, target, double, **options(target, subject="elsewhere.{key}")).run()

    async def test_the_subject_of_positions_is_the_pipes_own(
        self, js: JetStreamContext, stream: str, target: str
    ) -> None:
        await publish(js, stream, [1])
        with pytest.raises(PipeError, match="is a subject of the pipe itself"):
            await js.pipe(stream, target, double, **options(target, subject=f"{target}._pipe-p")).run()

    async def test_a_result_that_is_no_table(self, js: JetStreamContext, stream: str, target: str) -> None:
        await publish(js, stream, [1])
        with pytest.raises(PipeError, match="returned int"):
            await js.pipe(stream, target, lambda rows: 5, **options(target)).run()
        with pytest.raises(PipeError, match="no column subject"):
            await js.pipe(stream, target, lambda rows: rows.select(["id"]), name="p", schema=SCHEMA).run()


class TestParts:
    """A step that is larger than an atomic batch."""

    async def interrupted(self, js: JetStreamContext, stream: str, target: str) -> None:
        """Stores two of three parts of a step: the target refuses more messages."""
        await publish(js, stream, range(2_500))
        await js.update_stream(name=target, subjects=[f"{target}.>"], allow_atomic=True, discard="new", max_msgs=2_300)
        with pytest.raises(PipeError, match=r"refuses part 3 .*maximum messages"):
            await js.pipe(stream, target, double, **options(target)).run()
        await js.update_stream(name=target, subjects=[f"{target}.>"], allow_atomic=True, max_msgs=-1)
        assert len(await outputs(js, target)) == 2 * 999

    async def test_the_rest_follows(self, js: JetStreamContext, stream: str, target: str) -> None:
        await self.interrupted(js, stream, target)
        await publish(js, stream, range(2_500, 2_600))
        result = await js.pipe(stream, target, double, **options(target, rows=10)).run()
        assert result.rows == 2_600
        assert [row["id"] for row in await outputs(js, target)] == list(range(2_600))

    async def test_a_replay_that_differs_names_the_part(self, js: JetStreamContext, stream: str, target: str) -> None:
        await self.interrupted(js, stream, target)

        def other(rows: pa.Table) -> pa.Table:
            changed = pc.if_else(pc.equal(rows["id"], 1_500), 0, rows["id"])
            return double(rows.set_column(rows.column_names.index("id"), "id", changed))

        with pytest.raises(PipeReplayError, match="part 2 of 3") as caught:
            await js.pipe(stream, target, other, **options(target)).run()
        assert caught.value.part == 2
        with pytest.raises(PipeReplayError, match="part 3 of 3"):
            await js.pipe(stream, target, lambda rows: double(rows.slice(0, 1_998)), **options(target)).run()
        assert (await js.pipe(stream, target, double, **options(target)).run()).rows == 2_500
        assert [row["id"] for row in await outputs(js, target)] == list(range(2_500))

    async def test_large_messages_make_small_parts(self, js: JetStreamContext, stream: str, target: str) -> None:
        result = await js.publish_batch([f"{stream}.k1"] * 30, [bytes([number]) * 700_000 for number in range(30)])
        result.raise_for_errors()
        # All rows are one step, however slowly they come.
        pipe = js.pipe(stream, target, lambda rows: rows, name="p", subject=f"{target}.out.k1", seconds=30)
        assert (await pipe.run()).messages == 30
        positions = await js.read(target, subjects=f"{target}._pipe-p").read_all()
        assert positions.num_rows == 4, "the claim, and three parts of at most 8 MiB"
        rows = await js.read(target, subjects=f"{target}.out.k1").read_all()
        assert [data[0] for data in rows["data"].to_pylist()] == list(range(30))


class TestPosition:
    """A position that is not as it was."""

    async def test_lost(self, js: JetStreamContext, stream: str, target: str) -> None:
        await publish(js, stream, range(10))
        await js.pipe(stream, target, double, **options(target)).run()
        await js.purge_stream(target)
        with pytest.raises(PipePositionLostError, match=r"does not have its position on .*_pipe-p .*reset\(seq\)"):
            await js.pipe(stream, target, double, **options(target)).run()
        pipe = js.pipe(stream, target, double, **options(target))
        await pipe.reset(6)
        assert (await pipe.run()).rows == 5

    async def test_lost_with_its_note_is_a_first_start(self, js: JetStreamContext, stream: str, target: str) -> None:
        await publish(js, stream, range(10))
        await js.pipe(stream, target, double, **options(target)).run()
        await js.purge_stream(target)
        await (await js.key_value("jetarrow_positions")).delete(f"pipe.{target}.p")
        assert (await js.pipe(stream, target, double, **options(target)).run()).rows == 10

    async def test_lost_while_it_runs(self, js: JetStreamContext, stream: str, target: str) -> None:
        await publish(js, stream, range(10))
        async with js.pipe(stream, target, double, **options(target, follow=True)) as pipe:
            await pipe.step()
            await js.purge_stream(target)
            await publish(js, stream, [11])
            with pytest.raises(PipePositionLostError):
                await pipe.step()

    @pytest.mark.parametrize("which", ["source", "target"])
    async def test_streams_that_were_created_again(
        self, js: JetStreamContext, stream: str, target: str, which: str
    ) -> None:
        await publish(js, stream, range(10))
        await js.pipe(stream, target, double, **options(target)).run()
        name, subject = (stream, f"{stream}.>") if which == "source" else (target, f"{target}.>")
        await js.delete_stream(name)
        await js.add_stream(name=name, subjects=[subject], allow_atomic=True)
        await publish(js, stream, range(10, 13))
        with pytest.raises(StreamRecreatedError, match=r"reset\(1\)"):
            await js.pipe(stream, target, double, **options(target)).run()
        pipe = js.pipe(stream, target, double, **options(target))
        await pipe.reset(1)
        assert (await pipe.run()).rows == (3 if which == "source" else 13)

    async def test_of_another_pipe_or_source(self, js: JetStreamContext, stream: str, target: str) -> None:
        await js.pipe(stream, target, double, **options(target)).run()
        with pytest.raises(PipeError, match=f"reads stream '{stream}'"):
            await js.pipe(target, target, double, **options(target)).run()
        with pytest.raises(PipeError, match="position of pipe 'p'"):
            more = options(target, position_subject=f"{target}._pipe-p") | {"name": "q"}
            await js.pipe(stream, target, double, **more).run()
        await js.publish(f"{target}._pipe-r", b"hello")
        with pytest.raises(PipeError, match="is no position of a pipe"):
            await js.pipe(stream, target, double, **options(target) | {"name": "r"}).run()

    async def test_survives_the_age_limit_of_the_target(self, js: JetStreamContext, stream: str) -> None:
        target = f"{stream}_OUT"
        config = {"name": target, "subjects": [f"{target}.>"], "allow_atomic": True}
        await js.add_stream(**config, max_age=1, allow_msg_ttl=True)
        await publish(js, stream, range(10))
        await js.pipe(stream, target, double, **options(target)).run()
        while await outputs(js, target):
            await asyncio.sleep(0.1)
        assert (await js.pipe(stream, target, double, **options(target)).run()).rows == 0
        await js.delete_stream(target)


async def test_targets_that_cannot_have_positions(js: JetStreamContext, stream: str) -> None:
    await js.add_stream(name=f"{stream}_A", subjects=[f"{stream}_A.x"])
    with pytest.raises(UnsupportedError, match="allow_atomic=True"):
        await js.pipe(stream, f"{stream}_A", double, **options("t")).run()
    await js.update_stream(name=f"{stream}_A", subjects=[f"{stream}_A.x"], allow_atomic=True)
    with pytest.raises(PipeError, match="no subject with a wildcard"):
        await js.pipe(stream, f"{stream}_A", double, **options("t")).run()
    with pytest.raises(PipeError, match=r"position_subject='a\.b' is not a subject"):
        await js.pipe(stream, f"{stream}_A", double, **options("t", position_subject="a.b")).run()
    with pytest.raises(PipeError, match="give dead_letter_subject"):
        more = options("t", position_subject=f"{stream}_A.x", on_error="dead_letter")
        await js.pipe(stream, f"{stream}_A", double, **more).run()
    await js.add_stream(name=f"{stream}_W", subjects=[f"{stream}_W.>"], allow_atomic=True, retention="workqueue")
    with pytest.raises(PipeError, match="retention workqueue removes the positions"):
        await js.pipe(stream, f"{stream}_W", double, **options("t")).run()
    with pytest.raises(PipeError, match="retention workqueue removes messages"):
        await js.pipe(f"{stream}_W", f"{stream}_A", double, **options("t")).run()
    for name in ("A", "W"):
        await js.delete_stream(f"{stream}_{name}")


def test_options_that_are_wrong(sync_js: jetarrow.sync.JetStream) -> None:
    with pytest.raises(ValueError, match="name of a pipe"):
        sync_js.pipe("A", "B", double, name="a.b")
    with pytest.raises(ValueError, match="on_error must be one of"):
        sync_js.pipe("A", "B", double, name="a", on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needs a function"):
        sync_js.pipe("A", "B", 5, name="a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="did you mean 'on_error'"):
        sync_js.pipe("A", "B", double, name="a", on_eror="skip")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="exclude each other"):
        sync_js.pipe("A", "B", double, name="a", start_seq=1, start_time="1h")

    async def coroutine(rows: pa.Table) -> pa.Table:
        return rows

    with pytest.raises(TypeError, match="plain one"):
        sync_js.pipe("A", "B", coroutine, name="a")
