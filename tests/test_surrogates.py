"""A lone surrogate has no UTF-8: the error is that of the argument, and the connection goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from jetarrow import Client, connect, errors
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


Method = Callable[[JetStreamContext, str], Awaitable[Any]]
STORED: dict[str, tuple[type[Exception], Method]] = {
    "payload": (ValueError, lambda js, stream: js.publish(f"{stream}.a", BAD)),
    "id": (errors.BadHeaderError, lambda js, stream: js.publish(f"{stream}.a", b"", msg_id=BAD)),
    "async payload": (ValueError, lambda js, stream: js.publish_async(f"{stream}.a", BAD)),
    "async id": (errors.BadHeaderError, lambda js, stream: js.publish_async(f"{stream}.a", b"", msg_id=BAD)),
    "payloads": (ValueError, lambda js, stream: js.publish_batch(f"{stream}.a", ["x", BAD])),
    "subject": (errors.BadSubjectError, lambda js, stream: js.publish_batch(BAD, [b"x"])),
    "subjects": (errors.BadSubjectError, lambda js, stream: js.publish_batch([f"{stream}.a", BAD], [b"x", b"y"])),
    "msg_ids": (errors.BadHeaderError, lambda js, stream: js.publish_batch(f"{stream}.a", [b"x"], msg_ids=[BAD])),
    "headers": (
        errors.BadHeaderError,
        lambda js, stream: js.publish_batch(f"{stream}.a", [b"x"], headers=[{"a": BAD}]),
    ),
    "expected_stream": (
        errors.BadHeaderError,
        lambda js, stream: js.publish_batch(f"{stream}.a", [b"x"], expected_stream=BAD),
    ),
    "read": (ValueError, lambda js, stream: js.read(BAD).read_all()),
    "filter": (errors.BadSubjectError, lambda js, stream: js.read(stream, subjects=BAD).read_all()),
    "stream name": (ValueError, lambda js, stream: js.stream_info(BAD)),
    "consumer name": (ValueError, lambda js, stream: js.pull_subscribe(f"{stream}.a", BAD)),
}


@pytest.mark.parametrize("name", STORED)
async def test_each_argument_says_it_itself(js: JetStreamContext, stream: str, name: str) -> None:
    kind, call = STORED[name]
    with pytest.raises(kind, match="lone surrogate") as caught:
        await call(js, stream)
    # Python's own error would hold the whole text.
    assert not isinstance(caught.value, UnicodeError)
    if name == "payloads":
        assert caught.value.row == 1  # type: ignore[attr-defined]
    assert (await js.stream_info(stream)).state.messages == 0


@pytest.mark.parametrize(
    "option", ["name", "user", "password", "token", "nkeys_seed", "nkeys_seed_str", "user_credentials", "tls_hostname"]
)
async def test_options_of_connect(option: str) -> None:
    with pytest.raises(ValueError, match=f"^{option} has a lone surrogate") as caught:
        await connect("nats://127.0.0.1:1", **{option: BAD})
    assert BAD not in repr(vars(caught.value)) + repr(caught.value.args)


async def test_addresses() -> None:
    with pytest.raises(errors.BadAddressError, match="server address 1 has a lone surrogate"):
        await connect(["nats://127.0.0.1:1", f"nats://{BAD}"])
