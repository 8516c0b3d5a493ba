"""publisher(durable=True): messages that wait are stored in atomic batches."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sized
from contextlib import suppress

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import errors
from jetarrow._jetarrow import alive_tasks
from jetarrow.aio.client import Client
from jetarrow.aio.msg import Msg
from jetarrow.js import errors as js_errors
from jetarrow.js.api import PubAck
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .chunks import Cutter
from .survive.tools import places
from .tools import in_threads, port_of, until


@pytest.fixture
async def stream(js: JetStreamContext) -> AsyncIterator[str]:
    """A stream that takes atomic batches, of the subjects `<its name>.>`."""
    name = f"T{uuid.uuid4().hex[:10]}"
    await js.add_stream(name=name, subjects=[f"{name}.>"], allow_atomic=True, allow_msg_ttl=True)
    yield name
    await js.delete_stream(name)


async def batches(js: JetStreamContext, stream: str) -> Counter[str | None]:
    """The number of messages of each atomic batch; None counts those that were published one by one."""
    table = await js.read(stream, columns=["headers"]).read_all()
    found = (dict(headers or []).get("Nats-Batch-Id") for headers in table.column("headers").to_pylist())
    return Counter(ids[0] if isinstance(ids, list) else ids for ids in found)


async def test_messages_that_wait_share_a_batch(js: JetStreamContext, stream: str) -> None:
    async with js.publisher(f"{stream}.a", durable=True) as publisher:
        futures = [await publisher.publish(b"%d" % number) for number in range(3_000)]
        acks = await asyncio.gather(*futures)
        assert publisher.stats.stored == 3_000
    assert acks == [PubAck(stream=stream, seq=seq) for seq in range(1, 3_001)]
    assert await places(js, stream) == {seq: seq - 1 for seq in range(1, 3_001)}
    found = await batches(js, stream)
    # The first one finds nothing that waits.
    alone = found.pop(None, 0)
    assert alone + found.total() == 3_000
    assert all(16 <= count <= 1_000 for count in found.values())
    assert max(found.values()) > 100


async def test_few_messages_are_published_one_by_one(js: JetStreamContext, stream: str) -> None:
    async with js.publisher(f"{stream}.a", durable=True) as publisher:
        for seq in range(1, 6):
            assert (await (await publisher.publish(b"x"))).seq == seq
    assert await batches(js, stream) == {None: 5}


async def test_order_of_each_caller(js: JetStreamContext, stream: str) -> None:
    async def caller(number: int) -> list[int]:
        return [(await (await publisher.publish(b"x", subject=f"{stream}.{number}"))).seq for _ in range(20)]

    async with js.publisher(durable=True) as publisher:
        seqs = await asyncio.gather(*map(caller, range(40)))
    assert all(own == sorted(own) for own in seqs)
    assert sorted(seq for own in seqs for seq in own) == list(range(1, 801))
    assert len(await batches(js, stream)) > 1


async def test_streams_have_batches_of_their_own(js: JetStreamContext, stream: str) -> None:
    other = f"{stream}-2"
    await js.add_stream(name=other, subjects=[f"{other}.*"], allow_atomic=True)
    async with js.publisher(durable=True) as publisher:
        futures = [await publisher.publish(b"x", subject=f"{(stream, other)[i % 2]}.a") for i in range(400)]
        acks = await asyncio.gather(*futures)
    assert acks == [PubAck(stream=(stream, other)[i % 2], seq=i // 2 + 1) for i in range(400)]
    await js.delete_stream(other)


async def test_a_stream_without_atomic_batches(js: JetStreamContext, stream: str) -> None:
    plain = f"{stream}-2"
    await js.add_stream(name=plain, subjects=[f"{plain}.*"])
    async with js.publisher(f"{plain}.a", durable=True) as publisher:
        with pytest.raises(errors.UnsupportedError, match=r"publisher\(durable=True\) is not .* allow_atomic=True"):
            await (await publisher.publish(b"x"))
        await js.update_stream((await js.stream_info(plain)).config.evolve(allow_atomic=True))
        assert (await (await publisher.publish(b"x"))).seq == 1
        with pytest.raises(js_errors.NoStreamResponseError, match=r"not\.stored"):
            await (await publisher.publish(b"x", subject="not.stored"))
    await js.delete_stream(plain)


async def test_a_rejected_message_leaves_its_batch(js: JetStreamContext, stream: str) -> None:
    await js.update_stream((await js.stream_info(stream)).config.evolve(max_msg_size=1_000))
    async with js.publisher(f"{stream}.a", durable=True) as publisher:
        payloads = [bytes(2_000) if number in (50, 120) else b"%d" % number for number in range(200)]
        futures = [await publisher.publish(payload) for payload in payloads]
        results = await asyncio.gather(*futures, return_exceptions=True)
    failed = {number: result for number, result in enumerate(results) if isinstance(result, BaseException)}
    assert list(failed) == [50, 120]
    assert all(isinstance(error, errors.Error) and "size" in str(error) for error in failed.values())
    assert [ack.seq for ack in results if isinstance(ack, PubAck)] == list(range(1, 199))


async def test_ids_are_duplicates_across_and_within_batches(js: JetStreamContext, stream: str) -> None:
    async with js.publisher(f"{stream}.a", durable=True) as publisher:
        futures = [await publisher.publish(b"x", msg_id=str(number % 150)) for number in range(300)]
        acks = await asyncio.gather(*futures)
        assert publisher.stats[:3] == (150, 150, 0)
    assert [ack.seq for ack in acks] == [*range(1, 151)] * 2
    assert [ack.duplicate for ack in acks] == [False] * 150 + [True] * 150


async def test_expectations_hold_in_order(js: JetStreamContext, stream: str) -> None:
    async with js.publisher(f"{stream}.a", durable=True) as publisher:
        futures = []
        for number in range(0, 120, 3):
            futures.append(await publisher.publish(b"x", expected_last_seq=number))
            futures += [await publisher.publish(b"x", msg_ttl=60) for _ in range(2)]
        wrong = await publisher.publish(b"x", expected_last_seq=5)
        last = [await publisher.publish(b"x") for _ in range(50)]
        assert [ack.seq for ack in await asyncio.gather(*futures, *last)] == list(range(1, 171))
        with pytest.raises(js_errors.WrongLastSequenceError):
            await wrong


async def survive_kills(server: NatsServer, results: Sized) -> None:
    """Kills the server three times, each time and at the end after at least 200 more results."""
    for kills in range(4):
        enough = len(results) + 200
        await until(lambda enough=enough: len(results) > enough)
        if kills < 3:
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)


async def test_restarts_lose_and_repeat_nothing(own: JetStreamContext, own_server: NatsServer) -> None:
    await own.add_stream(name="S", subjects=["s.>"], allow_atomic=True)
    acked: dict[int, int] = {}
    over = asyncio.Event()

    async def caller(first: int) -> None:
        number = first
        while not over.is_set():
            payload = b"%d" % number
            acked[number] = (await (await publisher.publish(payload, msg_id=payload.decode()))).seq
            number += 64

    async with own.publisher("s.a", durable=True) as publisher:
        callers = [asyncio.create_task(caller(first)) for first in range(64)]
        await survive_kills(own_server, acked)
        over.set()
        await asyncio.gather(*callers)
    assert {seq: number for number, seq in acked.items()} == await places(own, "S")


async def test_without_ids_an_outcome_is_known_or_an_error(own: JetStreamContext, own_server: NatsServer) -> None:
    await own.add_stream(name="S", subjects=["s.>"], allow_atomic=True)
    results: dict[int, int | BaseException] = {}
    over = asyncio.Event()

    async def caller(first: int) -> None:
        number = first
        while not over.is_set():
            try:
                results[number] = (await (await publisher.publish(b"%d" % number))).seq
            except errors.Error as error:
                results[number] = error
            number += 64

    async with own.publisher("s.a", durable=True, ack_timeout=10) as publisher:
        callers = [asyncio.create_task(caller(first)) for first in range(64)]
        await survive_kills(own_server, results)
        over.set()
        await asyncio.gather(*callers)
        stored = await places(own, "S")
        unknown = {
            number for number, result in results.items() if isinstance(result, js_errors.PublishUnconfirmedError)
        }
        known = {seq: number for number, seq in results.items() if isinstance(seq, int)}
        assert known.items() <= stored.items()
        assert set(stored.values()) - set(known.values()) <= unknown
        # Those that were published one by one, and a batch that cannot be found.
        assert all(isinstance(result, int) or number in unknown for number, result in results.items())
        assert all('the message for "s.a"' in str(results[number]) for number in unknown)


async def test_a_silent_server_ends_in_timeouts_and_the_publisher_lives_on(
    own: JetStreamContext, own_server: NatsServer
) -> None:
    await own.add_stream(name="S", subjects=["s.>"], allow_atomic=True)
    (await own.publish_batch("s.a", [b"x"] * 100)).raise_for_errors()
    async with own.publisher("s.a", durable=True, ack_timeout=1) as publisher:
        own_server.pause()
        futures = [await publisher.publish(b"x") for _ in range(3_000)]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert all(isinstance(result, errors.TimeoutError | js_errors.PublishUnconfirmedError) for result in results)
        own_server.resume()

        async def lives() -> bool:
            with suppress(errors.TimeoutError, js_errors.PublishUnconfirmedError):
                return (await (await publisher.publish(b"y"))).seq > 100
            return False

        await until(lives)


async def test_a_closed_connection(nats_url: str, stream: str) -> None:
    nc = await jetarrow.connect(nats_url)
    publisher = nc.jetstream().publisher(f"{stream}.a", durable=True)
    await (await publisher.publish(b"x"))
    await nc.close()
    with pytest.raises(errors.ConnectionClosedError):
        await (await publisher.publish(b"x"))


async def test_leaving_the_block_waits(js: JetStreamContext, stream: str) -> None:
    async with js.publisher(f"{stream}.a", durable=True) as publisher:
        for _ in range(2_000):
            await publisher.publish(b"x")
    assert (await js.stream_info(stream)).state.messages == 2_000


async def test_rollups_and_counters_are_published_by_themselves(js: JetStreamContext, stream: str) -> None:
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_rollup_hdrs=True))
    counter = f"{stream}-2"
    await js.add_stream(name=counter, subjects=[f"{counter}.*"], allow_atomic=True, allow_msg_counter=True)
    async with js.publisher(f"{stream}.a", durable=True) as publisher:
        before = [await publisher.publish(b"x") for _ in range(40)]
        rolled_up = await publisher.publish(b"all", rollup="sub")
        after = [await publisher.publish(b"x") for _ in range(40)]
        counted = [await publisher.publish(b"", subject=f"{counter}.a", headers={"Nats-Incr": "+1"}) for _ in range(40)]
        acks = await asyncio.gather(*before, rolled_up, *after)
        assert [ack.seq for ack in acks] == list(range(1, 82))
        assert [ack.val for ack in await asyncio.gather(*counted)] == [str(value) for value in range(1, 41)]
    found = await js.read(stream, columns=["seq", "headers"]).read_all()
    assert found["seq"].to_pylist() == list(range(41, 82))
    assert "Nats-Batch-Id" not in dict(found["headers"].to_pylist()[0])
    await js.delete_stream(counter)


async def test_a_stream_has_one_loop(js: JetStreamContext, stream: str) -> None:
    """Also for messages that it does not take, and after a change of its subjects."""
    async with js.publisher(durable=True) as publisher:
        await (await publisher.publish(b"x", subject=f"{stream}.a"))
        tasks = alive_tasks()
        for _ in range(8):
            with pytest.raises(errors.Error):
                await (await publisher.publish(b"x", subject="not.stored", expected_stream=stream))
        config = (await js.stream_info(stream)).config
        await js.update_stream(config.evolve(subjects=[f"{stream}.>", f"{stream}-more.>"]))
        assert (await (await publisher.publish(b"x", subject=f"{stream}-more.a"))).seq == 2
        await until(lambda: alive_tasks() <= tasks)


class Answers:
    """The API of JetStream under the prefix `LYING`: `change` may change an answer, or take it away."""

    def __init__(self, nc: Client, change: Callable[[str, bytes], bytes | None]) -> None:
        self.nc, self.change = nc, change
        self.asked: Counter[str] = Counter()

    async def answer(self, msg: Msg) -> None:
        verb = msg.subject.removeprefix("LYING.")
        self.asked[".".join(verb.split(".")[:2])] += 1
        found = self.change(verb, (await self.nc.request(f"$JS.API.{verb}", msg.data, timeout=30)).data)
        if found is not None:
            await msg.respond(found)


@pytest.mark.parametrize("way", ["publisher", "publish_batch"])
async def test_a_lost_question_for_the_stream_is_asked_again(nc: Client, stream: str, way: str) -> None:
    def change(verb: str, answer: bytes) -> bytes | None:
        return None if verb == "STREAM.NAMES" and answers.asked[verb] == 1 else answer

    answers = Answers(nc, change)
    await nc.subscribe("LYING.>", cb=answers.answer)
    js = nc.jetstream(prefix="LYING")
    if way == "publisher":
        async with js.publisher(f"{stream}.a", durable=True) as publisher:
            await (await publisher.publish(b"x"))
    else:
        (await js.publish_batch(f"{stream}.a", [b"x"], mode="atomic", chunk=10)).raise_for_errors()
    assert answers.asked["STREAM.NAMES"] == 2


@pytest.mark.parametrize("window", ["kept", "shorter"])
async def test_a_duplicate_window_that_became_shorter(nc: Client, stream: str, window: str) -> None:
    """A batch whose answer is lost is sent again only if the stream certainly still knew its ids."""

    def change(verb: str, answer: bytes) -> bytes:
        if window == "shorter" and answers.asked["STREAM.INFO"] > 1 and verb == f"STREAM.INFO.{stream}":
            info = json.loads(answer)
            info["config"]["duplicate_window"] = 1_000_000
            return json.dumps(info).encode()
        return answer

    answers = Answers(nc, change)
    await nc.subscribe("LYING.>", cb=answers.answer)
    port = port_of(nc)
    assert port is not None
    async with (
        Cutter(port, commit=1, stored=None) as cutter,
        await jetarrow.connect(cutter.url, reconnect_time_wait=0.2) as other,
    ):
        publisher = other.jetstream(prefix="LYING").publisher(f"{stream}.a", durable=True)
        futures = [await publisher.publish(b"x", msg_id=str(number)) for number in range(100)]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert cutter.cuts == 1
    unknown = [result for result in results if isinstance(result, js_errors.PublishUnconfirmedError)]
    stored = (await nc.jetstream().stream_info(stream)).state.messages
    assert len(unknown) + stored == 100
    assert bool(unknown) == (window == "shorter")


def test_threads(nats_url: str, stream: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        js = nc.jetstream()
        with js.publisher(f"{stream}.a", durable=True) as publisher:

            def caller(number: int) -> None:
                for _ in range(20):
                    publisher.publish(b"%d" % number).result()

            in_threads(caller, 32)
        assert js.stream_info(stream).state.messages == 640
