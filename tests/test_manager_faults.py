"""Faults of management: invalid names, a silent server, malformed responses."""

from __future__ import annotations

import json
import time
from datetime import datetime

import jetarrow
import nats
import pytest
from jetarrow.aio.client import Client
from jetarrow.errors import BadSubjectError
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import APIError, ServiceUnavailableError
from jetarrow.server import NatsServer
from nats.aio.msg import Msg

from .tools import settle

BAD_NAMES = ["", "a.b", "a b", "a*", ">", "a/b", "a\\b", "a\r\nPUB x 0", "a\0"]


@pytest.mark.parametrize("name", BAD_NAMES)
async def test_invalid_names_are_rejected_before_sending(own: JetStreamContext, name: str) -> None:
    total = (await own.account_info(totals=False)).api.total
    calls = [
        own.add_stream(name=name),
        own.update_stream(name=name),
        own.stream_info(name),
        own.delete_stream(name),
        own.purge_stream(name),
        own.consumers_info(name),
        own.add_consumer(name, name="c"),
        own.consumer_info(name, "c"),
        own.consumer_info("S", name),
        own.delete_consumer("S", name),
        own.pause_consumer("S", name, datetime.now()),
        own.resume_consumer("S", name),
        own.reset_consumer("S", name),
        own.update_consumer("S", name=name, max_deliver=1),
        own.get_msg(name, 1),
        own.get_last_msg(name, "a", direct=True),
        own.delete_msg(name, 1),
        own.get_stream(name),
        own.get_or_create_stream(name=name),
        own.create_or_update_stream(name=name),
    ]
    if name:
        # Without a name the server generates one.
        calls += [own.add_consumer("S", name=name), own.add_consumer("S", durable_name=name)]
    for call in calls:
        with pytest.raises(ValueError, match=r"^nats: (invalid \w+ name|\w+ name is required)"):
            await call
    with pytest.raises(ValueError, match=r"^nats: (invalid \w+ name|\w+ name is required)"):
        own.stream(name)
    with pytest.raises(ValueError, match=r"^nats: (invalid \w+ name|\w+ name is required)"):
        own.stream("S").consumer(name)
    assert (await own.account_info(totals=False)).api.total == total + 1


async def test_filter_with_line_break_is_rejected(js: JetStreamContext, stream: str) -> None:
    for bad in ("a b", "a\r\nPUB x 0\r\n\r\n", "a..b"):
        with pytest.raises(BadSubjectError):
            await js.add_consumer(stream, name="c", filter_subject=bad)
    assert await js.consumers_info(stream) == []


async def test_requests_without_jetstream_raise_service_unavailable() -> None:
    with NatsServer(jetstream=False) as server:
        async with await jetarrow.connect(server.url) as nc:
            with pytest.raises(ServiceUnavailableError) as off:
                await nc.jetstream_manager()
            assert off.value.code == 503


async def test_account_without_jetstream_raises_error() -> None:
    config = """
    accounts { A { users [{user: a, password: a}] }, B { jetstream: enabled, users [{user: b, password: b}] } }
    """
    with NatsServer(config=config) as server:
        async with await jetarrow.connect(server.url, user="b", password="b") as nc:
            assert (await nc.jsm().account_info()).streams == 0
        async with await jetarrow.connect(server.url, user="a", password="a") as nc:
            with pytest.raises(ServiceUnavailableError) as off:
                await nc.jsm().account_info()
            assert (off.value.code, off.value.err_code) == (503, 10039)


@pytest.mark.parametrize("answer", [b"", b"hello", b"[1]", b"\xff"])
async def test_malformed_response_raises_api_error(nats_url: str, nc: Client, answer: bytes) -> None:
    async def lie(msg: Msg) -> None:
        await msg.respond(answer)

    liar = await nats.connect(nats_url)
    await liar.subscribe("lies.>", cb=lie)
    await settle(liar)
    manager = nc.jsm(prefix="lies")
    for call in (manager.stream_info("A"), manager.streams_info(), manager.account_info()):
        with pytest.raises(APIError, match="not a JSON object"):
            await call
    await liar.close()


async def test_pages_of_cluster_with_missing_streams_end(nats_url: str, nc: Client) -> None:
    """A cluster lists streams without a response as missing, and its total may be too high."""
    asked: list[int] = []

    async def answer(msg: Msg) -> None:
        offset = json.loads(msg.data)["offset"]
        asked.append(offset)
        pages = {0: (["A", "B"], ["C"]), 3: (["D"], None), 4: (["E"], None)}
        names, missing = pages.get(offset, (None, None))
        await msg.respond(json.dumps({"total": 9, "streams": names, "missing": missing}).encode())

    liar = await nats.connect(nats_url)
    await liar.subscribe("pages.STREAM.NAMES", cb=answer)
    await settle(liar)
    assert [name async for name in nc.jsm(prefix="pages").stream_names()] == ["A", "B", "D", "E"]
    assert asked == [0, 3, 4, 5]
    await liar.close()


async def test_silent_server_raises_timeout(own_server: NatsServer) -> None:
    async with await jetarrow.connect(own_server.url) as nc:
        await nc.jsm().add_stream(name="A", subjects=["a"], allow_direct=True)
        js = nc.jetstream(timeout=0.3)
        own_server.pause()
        try:
            began = time.monotonic()
            calls = [js.account_info(), js.get_msg("A", 1, direct=True), js.consumer_info("A", "c", timeout=0.2)]
            for call in calls:
                with pytest.raises(TimeoutError, match="no response"):
                    await call
            assert time.monotonic() - began < 10
        finally:
            own_server.resume()
        assert (await nc.jsm().stream_info("A")).config.name == "A"


@pytest.mark.parametrize(("refusals", "description"), [(1, "error creating store for stream"), (2, "no space")])
async def test_creation_is_tried_again_once_if_the_folder_was_just_removed(
    nc: Client, stream: str, refusals: int, description: str
) -> None:
    asked = []

    async def refuse(message: Msg) -> None:
        asked.append(message.subject)
        error = {"code": 500, "err_code": 10049, "description": description}
        if len(asked) <= refusals:
            return await message.respond(json.dumps({"error": error}).encode())
        await message.respond((await nc.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=30)).data)

    await nc.subscribe(f"{stream}_api.STREAM.CREATE.S", cb=refuse)
    manager = nc.jsm(prefix=f"{stream}_api")
    if description == "no space":
        with pytest.raises(APIError, match=description):
            await manager.add_stream(name="S")
        assert len(asked) == 1
    else:
        assert (await manager.add_stream(name="S")).config.name == stream
        assert len(asked) == 2
