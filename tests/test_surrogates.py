"""A lone surrogate has no UTF-8: the error is that of the argument, and the connection goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from jetarrow import Client, errors
from jetarrow.js.client import JetStreamContext

BAD = "a\ud800b"
Verb = Callable[[Client, JetStreamContext], Awaitable[Any]]
SUBJECTS: dict[str, Verb] = {
    "publish": lambda nc, js: nc.publish(BAD),
    "reply": lambda nc, js: nc.publish("x", reply=BAD),
    "request": lambda nc, js: nc.request(BAD),
    "subscribe": lambda nc, js: nc.subscribe(BAD),
    "queue": lambda nc, js: nc.subscribe("x", BAD),
    "js.publish": lambda nc, js: js.publish(BAD),
    "js.publish_async": lambda nc, js: js.publish_async(BAD),
}
HEADERS: dict[str, Verb] = {
    "value": lambda nc, js: nc.publish("x", headers={"a": BAD}),
    "name": lambda nc, js: nc.publish("x", headers={BAD: "a"}),
    "js.publish": lambda nc, js: js.publish("x", headers={"a": [BAD]}),
    "publish_batch": lambda nc, js: js.publish_batch("x", [b"1"], headers={"a": BAD}),
}


@pytest.mark.parametrize("name", SUBJECTS)
async def test_subjects(nc: Client, js: JetStreamContext, name: str) -> None:
    with pytest.raises(errors.BadSubjectError, match="lone surrogate"):
        await SUBJECTS[name](nc, js)
    await nc.flush()


@pytest.mark.parametrize("name", HEADERS)
async def test_headers(nc: Client, js: JetStreamContext, name: str) -> None:
    with pytest.raises(errors.BadHeaderError, match="lone surrogate"):
        await HEADERS[name](nc, js)
    await nc.flush()


@pytest.mark.parametrize("name", ["payload", "payloads", "subject", "msg_ids"])
async def test_the_rest_is_a_value_error(js: JetStreamContext, stream: str, name: str) -> None:
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "payload": lambda: js.publish(f"{stream}.a", BAD),
        "payloads": lambda: js.publish_batch(f"{stream}.a", ["x", BAD]),
        "subject": lambda: js.publish_batch(BAD, [b"x"]),
        "msg_ids": lambda: js.publish_batch(f"{stream}.a", [b"x"], msg_ids=[BAD]),
    }
    with pytest.raises(ValueError, match="surrogate"):
        await calls[name]()
    assert (await js.stream_info(stream)).state.messages == 0
