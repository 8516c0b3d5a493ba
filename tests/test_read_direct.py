"""`js.read` by direct gets: it reads work-queue and interest streams without deleting messages."""

from __future__ import annotations

import random

import pytest
from jetarrow import connect
from jetarrow.errors import UnsupportedError
from jetarrow.js import errors as js_errors
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer

from .tools import until


async def test_direct_read_equals_consumer_read(js: JetStreamContext, stream: str) -> None:
    chance = random.Random(3)
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_direct=True))
    for i in range(60):
        # Names that the server uses too: a message sourced from another stream has them.
        headers = {"k": ["1", "2"], "Nats-Stream": "other", "nats-sequence": "9"} if i % 7 == 0 else None
        await js.publish(f"{stream}.{i % 3}", b"%d" % i, headers=headers)
    for seq in chance.sample(range(2, 60), 20):
        await js.delete_msg(stream, seq)
    whole = await js.read(stream).read_all()
    assert whole.num_rows == 40
    assert (await js.read(stream, direct=True).read_all()).equals(whole)
    for _ in range(30):
        start, end = sorted(chance.sample(range(1, 63), 2))
        subject = chance.choice([None, f"{stream}.1", f"{stream}.*"])
        pulled = await js.read(stream, start_seq=start, end_seq=end, subjects=subject).read_all()
        direct = await js.read(stream, start_seq=start, end_seq=end, subjects=subject, direct=True).read_all()
        assert direct.equals(pulled), (start, end, subject)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_direct_read_leaves_messages_in_work_queue(js: JetStreamContext, stream: str, retention: str) -> None:
    kept = f"{stream}K"
    await js.add_stream(name=kept, subjects=[f"{kept}.>"], retention=retention, allow_direct=True)
    # Interest retention keeps messages that a consumer has not acknowledged.
    await js.add_consumer(kept, durable_name="other", ack_policy="explicit")
    await js.publish_batch(f"{kept}.a", ["x"] * 500)
    for _ in range(2):
        assert (await js.read(kept, batch_rows=100).read_all()).num_rows == 500
    info = await js.stream_info(kept)
    assert (info.state.messages, info.state.consumer_count) == (500, 1)
    assert (await js.consumer_info(kept, "other")).num_pending == 500


async def test_direct_read_rejects_unsupported_options(js: JetStreamContext, stream: str) -> None:
    await js.add_stream(name=f"{stream}I", subjects=[f"{stream}I.>"], retention="interest", allow_direct=False)
    with pytest.raises(UnsupportedError, match=r"needs allow_direct=True"):
        await js.read(f"{stream}I").read_all()
    with pytest.raises(ValueError, match="follow=True cannot"):
        await js.read(stream, direct=True, follow=True).read_all()
    with pytest.raises(ValueError, match="several subjects cannot"):
        await js.read(stream, direct=True, subjects=["a", "b"]).read_all()


@pytest.mark.parametrize("direct", [False, True])
async def test_direct_read_during_purge_raises_data_loss(js: JetStreamContext, stream: str, direct: bool) -> None:
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_direct=True))
    await js.publish_batch(f"{stream}.a", [bytes(1000)] * 50_000)
    reader = js.read(stream, batch_rows=100, columns=["seq"], direct=direct)
    seqs = (await anext(reader)).seqs.to_pylist()
    # Far more messages remain than are requested.
    await js.purge_stream(stream)
    with pytest.raises(js_errors.DataLossError) as error:
        async for batch in reader:
            seqs += batch.seqs.to_pylist()
    asked = error.value.asked
    assert isinstance(asked, tuple)
    assert asked[1] == error.value.available == 50_001
    assert seqs == list(range(1, len(seqs) + 1))
    # All messages before the loss were returned.
    assert len(seqs) + 1 == asked[0] < 50_001
    assert f"messages {asked[0]} to 50000 of stream" in str(error.value)


@pytest.mark.parametrize("direct", [False, True])
async def test_direct_read_with_small_fetch_bytes_returns_large_messages(
    js: JetStreamContext, stream: str, direct: bool
) -> None:
    await js.update_stream((await js.stream_info(stream)).config.evolve(allow_direct=True))
    await js.publish_batch(f"{stream}.a", [bytes(300_000)] * 20)
    assert (await js.read(stream, fetch_bytes=1, direct=direct).read_all()).num_rows == 20
    with pytest.raises(ValueError, match="fetch_bytes"):
        js.read(stream, fetch_bytes=0)


async def test_direct_read_continues_after_server_restart(own_server: NatsServer) -> None:
    async with await connect(own_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"], retention="workqueue", allow_direct=True)
        # More than the sockets and the reader buffer.
        await js.publish_batch("s", [bytes(10_000)] * 6_000)
        reader = js.read("S", batch_rows=100, columns=["seq", "data"], fetch_bytes=1 << 20)
        seqs = (await anext(reader)).seqs.to_pylist()
        own_server.kill()
        own_server.restart()
        async for batch in reader:
            seqs += batch.seqs.to_pylist()
        assert seqs == list(range(1, 6_001))


@pytest.mark.parametrize("retention", ["limits", "interest"])
async def test_direct_read_with_incomplete_mirror_returns_all_rows(
    js: JetStreamContext, stream: str, retention: str
) -> None:
    """Stream or mirror may answer a direct get; the rows are those of the stream."""
    kept, mirror = f"{stream}K", f"{stream}M"
    await js.add_stream(name=kept, subjects=[f"{kept}.>"], retention=retention, allow_direct=True)
    await js.add_consumer(kept, durable_name="other", ack_policy="explicit")
    await js.add_stream(name=mirror, mirror={"name": kept}, mirror_direct=True, max_msgs=10)
    await js.publish_batch(f"{kept}.a", ["x"] * 100)
    # Messages are deleted in the mirror, and others in the stream.
    await js.delete_msg(kept, 50)

    async def caught_up() -> bool:
        state = (await js.stream_info(mirror)).state
        return (state.first_seq, state.last_seq) == (91, 100)

    await until(caught_up)
    await js.delete_msg(mirror, 95)
    answered = {
        (await js.get_msg(kept, 1, f"{kept}.>", next=True, direct=True)).headers["Nats-Stream"] for _ in range(50)
    }  # type: ignore[index]
    assert answered == {kept, mirror}
    whole = [seq for seq in range(1, 101) if seq != 50]
    for i in range(20):
        table = await js.read(kept, direct=True, start_seq=1 if i % 2 else None).read_all()
        assert table["seq"].to_pylist() == whole
        assert set(table["stream"].to_pylist()) == {kept}
