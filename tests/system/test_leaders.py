"""Leaders and replicas: `step_down`, `remove_peer`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.errors import Error, TimeoutError
from jetarrow.js.errors import (
    BadRequestError,
    ConsumerNotFoundError,
    ServiceUnavailableError,
    StreamNotFoundError,
)
from jetarrow.js.stream import Stream
from jetarrow.server import NatsServer

from ..tools import cluster, fill, until
from .tools import ACCOUNTS, ready


@pytest.fixture
async def stream(servers: dict[str, NatsServer]) -> AsyncIterator[Stream]:
    """A stream with three replicas, each of which is current."""
    async with await jetarrow.connect(servers["n0"].url) as nc:
        # A request for the state of a stream or consumer has no answer during an election.
        js, looks = nc.jetstream(timeout=20), nc.jetstream(timeout=2)
        await js.add_stream(name="LED", subjects=["LED.>"], num_replicas=3)
        await until(lambda: current(looks.stream("LED")), 30)
        stream = js.stream("LED")
        yield stream
        await stream.delete()


async def current(holder: Any) -> bool:
    """Whether the stream or consumer has a leader, and two replicas that are up to date."""
    try:
        found = (await holder.info()).cluster
    except Error:
        return False
    return bool(found.leader) and [replica.current for replica in found.replicas] == [True, True]


async def leader_of(holder: Any) -> str | None:
    """The leader; None during an election."""
    try:
        leader: str | None = (await holder.info()).cluster.leader
    except Error:
        return None
    return leader


async def led_by(holder: Any, accepts: Callable[[str], bool]) -> None:
    async def is_led() -> bool:
        leader = await leader_of(holder)
        return leader is not None and accepts(leader)

    await until(is_led, 30)


async def test_stream_gets_another_leader(stream: Stream) -> None:
    before = await leader_of(stream)
    await stream.step_down()
    await led_by(stream, lambda leader: leader != before)


async def test_stream_gets_the_preferred_leader(stream: Stream) -> None:
    info = await stream.info()
    preferred = info.cluster.replicas[1].name
    await stream.step_down(preferred)
    await led_by(stream, lambda leader: leader == preferred)
    with pytest.raises(BadRequestError, match=r"is already leader.*server in info\(\)\.cluster\.replicas"):
        await stream.step_down(preferred)
    with pytest.raises(BadRequestError, match=r'"nX" not known.*or leave preferred out'):
        await stream.step_down("nX")
    with pytest.raises(ValueError, match="preferred must not be empty"):
        await stream.step_down("")


async def test_consumer_gets_another_leader(stream: Stream) -> None:
    consumer = await stream.create_consumer(durable_name="d")
    await until(lambda: current(consumer), 30)
    info = await consumer.info()
    preferred = info.cluster.replicas[0].name
    await consumer.step_down(preferred)
    await led_by(consumer, lambda leader: leader == preferred)
    await until(lambda: current(consumer), 30)
    await consumer.step_down()
    await led_by(consumer, lambda leader: leader != preferred)
    with pytest.raises(ConsumerNotFoundError, match="stream 'LED' has no consumer 'no'"):
        await stream.consumer("no").step_down()


def test_sync_handles_have_the_verbs(servers: dict[str, NatsServer], stream: Stream) -> None:
    with jetarrow.sync.connect(servers["n1"].url) as nc:
        led = nc.jetstream().stream("LED")
        with pytest.raises(BadRequestError, match="not known"):
            led.step_down("nX")
        with pytest.raises(BadRequestError, match="peer not a member"):
            led.remove_peer("nX")
        with pytest.raises(ConsumerNotFoundError):
            led.consumer("no").step_down()
        with pytest.raises(TypeError, match="did you mean 'preferred'"):
            led.step_down(prefered="n1")  # type: ignore[call-arg]


async def test_missing_stream_and_peer_are_typed_errors(stream: Stream, servers: dict[str, NatsServer]) -> None:
    async with await jetarrow.connect(servers["n0"].url) as nc:
        for call in (lambda s: s.step_down(), lambda s: s.remove_peer("n1")):
            with pytest.raises(StreamNotFoundError, match="stream 'NONE' does not exist"):
                await call(nc.jetstream().stream("NONE"))
    with pytest.raises(BadRequestError, match=r"could not remove a replica of stream 'LED'.*stream_info shows"):
        await stream.remove_peer("nX")
    with pytest.raises(ValueError, match="peer must not be empty"):
        await stream.remove_peer("")


async def test_single_server_is_a_typed_error(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        stream = js.stream("S")
        for call in (stream.step_down, lambda: stream.remove_peer("x"), stream.consumer("c").step_down):
            with pytest.raises(ServiceUnavailableError, match="it needs a cluster"):
                await call()


@pytest.mark.timeout(180)
async def test_removed_peer_is_replaced_by_another_server() -> None:
    with cluster(4, more=ACCOUNTS) as servers:
        ready(servers)
        async with await jetarrow.connect(servers["n0"].url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="MOVED", subjects=["MOVED.>"], num_replicas=3)
            stream = js.stream("MOVED")
            await until(lambda: current(stream), 30)
            await fill(js, "MOVED", 100)
            info = await stream.info()
            gone = info.cluster.replicas[0].name
            (free,) = set(servers) - {info.cluster.leader, *(one.name for one in info.cluster.replicas)}
            await stream.remove_peer(gone)

            async def moved() -> bool:
                try:
                    found = (await stream.info()).cluster
                except (Error, TimeoutError):
                    return False
                names = {found.leader, *(replica.name for replica in found.replicas)}
                return names == set(servers) - {gone} and all(replica.current for replica in found.replicas)

            await until(moved, 60)
            assert free != gone
            assert (await stream.info()).state.messages == 100
