"""Headers and names: the same with both clients."""

from __future__ import annotations

from typing import Any

import pytest

from .face import Face, subject


async def sent(nc: Any, headers: dict[str, str]) -> Any:
    """Publish a message with these headers, and return the received headers."""
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, b"x", headers=headers)
    msg = await sub.next_msg(timeout=10)
    assert msg.data == b"x"
    return msg.headers


@pytest.mark.parametrize(
    ("headers", "arrives"),
    [
        ({"Name": "value"}, {"Name": "value"}),
        ({"a": "1", "B": "2", "c-d_e.f": "3"}, {"a": "1", "B": "2", "c-d_e.f": "3"}),
        ({"Name": "  around  "}, {"Name": "around"}),
        ({"  Name  ": "value"}, {"Name": "value"}),
        ({"Name": "one\r\ntwo\nthree\rfour"}, {"Name": "one  two three four"}),
        ({"Name": "gr\u00fc\u00df \u20ac \U0001f600"}, {"Name": "gr\u00fc\u00df \u20ac \U0001f600"}),
        ({"Name": "a: b: c"}, {"Name": "a: b: c"}),
        ({"Name": ""}, {"Name": ""}),
        ({"X" * 100: "y" * 5000}, {"X" * 100: "y" * 5000}),
        ({}, None),
    ],
)
async def test_headers_arrive(nc: Any, headers: dict[str, str], arrives: dict[str, str] | None) -> None:
    assert await sent(nc, headers) == arrives


@pytest.mark.parametrize("name", ["a b", "a:b", "a\r\nb", "a\x00b", "\u00fcber", "a\tb", "(a)"])
async def test_bad_header_names(face: Face, nc: Any, name: str) -> None:
    error = await face.raised(nc.publish(subject(), b"", headers={"good": "x", name: "value"}))
    assert (face.kind(error), error.key) == ("errors.BadHeaderError", name)
    assert nc.is_connected
    await nc.flush()


@pytest.mark.parametrize("name", ["", "a b", "a\tb", "a\r\nPUB x 0\r\n", "a\nb"])
async def test_bad_subjects(face: Face, nc: Any, name: str) -> None:
    calls = [nc.publish(name, b""), nc.request(name, b""), nc.subscribe(name)]
    if name:
        calls += [nc.publish("good", b"", reply=name), nc.subscribe("good", queue=name)]
    assert {await face.failure(call) for call in calls} == {"errors.BadSubjectError"}
    await nc.flush()
    assert nc.is_connected


@pytest.mark.parametrize("name", [".a", "a.", "a..b", "a.>.b", "a>", "*a", "a*", "a.b*.c", "."])
async def test_bad_filters(face: Face, nc: Any, name: str) -> None:
    assert await face.failure(nc.subscribe(name)) == "errors.BadSubjectError"
    await nc.flush()
    assert nc.is_connected


async def test_subject_checks_can_be_switched_off(face: Face) -> None:
    nc = await face.connect(skip_subject_validation=True)
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, b"x")
    assert (await sub.next_msg(timeout=10)).data == b"x"
    assert await face.failure(nc.subscribe("")) == "errors.BadSubjectError"


async def test_a_message_made_by_hand(face: Face) -> None:
    msg = face.load("aio.msg").Msg(_client=None, subject="a.b", reply="c", data=b"d", headers={"e": "f"})
    assert (msg.subject, msg.reply, msg.data, msg.headers, msg.header) == ("a.b", "c", b"d", {"e": "f"}, {"e": "f"})
    empty = face.load("aio.msg").Msg(None)
    assert (empty.subject, empty.reply, empty.data, empty.headers) == ("", "", b"", None)
