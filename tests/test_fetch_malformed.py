"""Pull subscriptions deliver stored messages with malformed headers, which can be acknowledged."""

from __future__ import annotations

import jetarrow
import pytest
from jetarrow.aio.msg import Msg
from jetarrow.js.client import JetStreamContext

from .test_read_malformed import MALFORMED, publish_raw, wait_stored
from .tools import until

GOOD = b"NATS/1.0\r\nA: 1\r\n\r\n"


@pytest.mark.parametrize("verb", ["fetch", "fetch_batch"])
@pytest.mark.parametrize("kind", MALFORMED)
async def test_fetch_delivers_message_with_malformed_headers(
    js: JetStreamContext, nats_url: str, stream: str, kind: str, verb: str
) -> None:
    raw, headers = MALFORMED[kind]
    publish_raw(nats_url, f"{stream}.a", [(GOOD, b"1"), (raw, b"2"), (GOOD, b"3")])
    await wait_stored(js, stream, 3)
    async with await jetarrow.connect(nats_url, reconnect_time_wait=0.05) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", durable="d", ack_wait=600)
        seen: list[Msg] = []
        while len(seen) < 3:
            seen += await getattr(sub, verb)(10, timeout=10)
        for msg in seen:
            await msg.ack_sync(timeout=20)
        assert [msg.data for msg in seen] == [b"1", b"2", b"3"]
        assert [msg.headers_all for msg in seen] == [{"A": ["1"]}, headers, {"A": ["1"]}]
        assert nc.stats["reconnects"] == 0

        async def acknowledged() -> bool:
            info = await sub.consumer_info()
            return info.num_ack_pending == 0 and info.num_pending == 0

        await until(acknowledged)


@pytest.mark.parametrize("verb", ["nak", "term", "in_progress"])
async def test_malformed_message_accepts_nak_and_term(
    js: JetStreamContext, nats_url: str, stream: str, verb: str
) -> None:
    publish_raw(nats_url, f"{stream}.a", [(MALFORMED["latin-1"][0], b"1")])
    await wait_stored(js, stream, 1)
    async with await jetarrow.connect(nats_url, reconnect_time_wait=0.05) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", durable="d", ack_wait=600)
        (msg,) = await sub.fetch(1, timeout=10)
        await getattr(msg, verb)()
        if verb == "nak":
            # It is redelivered.
            (again,) = await sub.fetch(1, timeout=10)
            await again.ack_sync(timeout=20)
        elif verb == "in_progress":
            await msg.ack_sync(timeout=20)

        async def acknowledged() -> bool:
            return (await sub.consumer_info()).num_ack_pending == 0

        await until(acknowledged)


@pytest.mark.parametrize("at", [0, 1])
async def test_malformed_message_without_acks_is_delivered_once(
    js: JetStreamContext, nats_url: str, stream: str, at: int
) -> None:
    messages = [(GOOD, b"%d" % number) for number in range(2)]
    messages.insert(at, (MALFORMED["space"][0], b"x"))
    publish_raw(nats_url, f"{stream}.a", messages[: at + 1])
    await wait_stored(js, stream, at + 1)
    async with await jetarrow.connect(nats_url, reconnect_time_wait=0.05) as nc:
        sub = await nc.jetstream().pull_subscribe(f"{stream}.>", durable="d", ack_policy="none")
        seen = [msg.data for msg in await sub.fetch(10, timeout=10)]
        publish_raw(nats_url, f"{stream}.a", messages[at + 1 :])
        while len(seen) < 3:
            seen += [msg.data for msg in await sub.fetch(10, timeout=10)]
        assert seen == [data for _, data in messages]
        assert nc.stats["reconnects"] == 0
