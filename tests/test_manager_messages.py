"""Single messages of a stream, read and deleted without a consumer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from jetarrow.errors import BadSubjectError, NoRespondersError
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import APIError, BadRequestError, NotFoundError, ServerError

from .tools import fill_subjects


async def test_get_msg_returns_stored_message(js: JetStreamContext, stream: str) -> None:
    headers: dict[str, str | list[str]] = {"A": ["one", "two: 2"], "B": "grüße"}
    await js.publish(f"{stream}.a", b"\x00\xff", headers=headers)
    await fill_subjects(js, stream, ["b", "a"])
    await js.publish(f"{stream}.c", b"")
    msg = await js.get_msg(stream, 1)
    assert (msg.subject, msg.seq, msg.data, msg.stream) == (f"{stream}.a", 1, b"\x00\xff", stream)
    assert msg.headers == {"A": "two: 2", "B": "grüße"}
    assert msg.headers_all == {"A": ["one", "two: 2"], "B": ["grüße"]}
    assert msg.time is not None
    assert abs(datetime.now(UTC) - msg.time) < timedelta(minutes=1)
    assert msg.time_ns is not None
    assert msg.time_ns // 1000 == round(msg.time.timestamp() * 1_000_000)

    assert (await js.get_msg(stream, subject=f"{stream}.a")).seq == 3
    assert (await js.get_msg(stream, seq=1, subject=f"{stream}.b")).seq == 2
    assert (await js.get_msg(stream, seq=2, subject=f"{stream}.a", next=True)).seq == 3
    assert (await js.get_msg(stream, subject=f"{stream}.a", next=True)).seq == 1
    assert (await js.get_last_msg(stream, f"{stream}.>")).seq == 4
    empty = await js.get_msg(stream, 4)
    assert (empty.data, empty.headers, empty.headers_all, empty.hdrs) == (None, None, None, None)


async def test_get_msg_of_missing_message_raises_not_found(js: JetStreamContext, stream: str) -> None:
    with pytest.raises(NotFoundError) as gone:
        await js.get_msg(stream, 1)
    assert (gone.value.code, gone.value.err_code) == (404, 10037)
    with pytest.raises(NotFoundError):
        await js.get_last_msg(stream, f"{stream}.a")
    with pytest.raises(BadRequestError):
        await js.get_msg(stream)
    with pytest.raises(NotFoundError) as gone:
        await js.get_msg(f"{stream}X", 1)
    assert gone.value.err_code == 10059


async def test_direct_get_returns_stored_message(js: JetStreamContext, stream: str) -> None:
    config = (await js.stream_info(stream)).config
    with pytest.raises(NoRespondersError, match="allow_direct"):
        await js.get_msg(stream, 1, direct=True)
    await js.update_stream(config, allow_direct=True)
    # Headers of the message with the names of the server's headers.
    forged: dict[str, str | list[str]] = {
        "Nats-Sequence": "99",
        "Nats-Subject": "evil",
        "Status": "404",
        "A": ["one", "two"],
    }
    await js.publish(f"{stream}.a", b"", headers=forged)
    await fill_subjects(js, stream, ["b", "a"])
    msg = await js.get_msg(stream, 1, direct=True)
    assert (msg.subject, msg.seq, msg.data, msg.stream) == (f"{stream}.a", 1, None, stream)
    assert msg.headers is not None
    assert msg.headers_all is not None
    assert (msg.headers["A"], msg.headers_all["A"], msg.headers["Nats-Stream"]) == ("two", ["one", "two"], stream)
    assert msg.time == (await js.get_msg(stream, 1)).time

    assert (await js.get_msg(stream, subject=f"{stream}.a", direct=True)).seq == 3
    assert (await js.get_last_msg(stream, f"{stream}.b", direct=True)).data == b"1"
    assert (await js.get_last_msg(stream, f"{stream}.*", direct=True)).seq == 3
    assert (await js.get_msg(stream, seq=2, subject=f"{stream}.a", next=True, direct=True)).seq == 3
    assert (await js.get_msg(stream, subject=f"{stream}.a", next=True, direct=True)).seq == 1
    for absent in (js.get_msg(stream, 9, direct=True), js.get_last_msg(stream, f"{stream}.z", direct=True)):
        with pytest.raises(NotFoundError) as gone:
            await absent
        assert (gone.value.code, gone.value.description) == (404, "Message Not Found")
    with pytest.raises(APIError) as bad:
        await js.get_msg(stream, direct=True)
    assert (bad.value.code, bad.value.description) == (408, "Empty Request")
    with pytest.raises(BadSubjectError):
        await js.get_last_msg(stream, "a b", direct=True)


async def test_delete_msg_removes_message(js: JetStreamContext, stream: str) -> None:
    await fill_subjects(js, stream, ["a", "b", "c"])
    assert await js.delete_msg(stream, 1) is True
    assert await js.delete_msg(stream_name=stream, seq=2, erase=False) is True
    with pytest.raises(NotFoundError):
        await js.get_msg(stream, 1)
    assert (await js.stream_info(stream, deleted_details=True)).state.first_seq == 3
    with pytest.raises(ServerError):
        await js.delete_msg(stream, 99)
