"""Errors of arguments name the argument."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

import jetarrow
import pytest
from jetarrow.aio.client import Client

WRONG: dict[str, Callable[[Client], Any]] = {
    "timeout must be a number of seconds, or None, not str": lambda nc: nc.request("a", b"", timeout="1"),  # type: ignore[arg-type]
    "timeout must be a number of seconds, or None, not list": lambda nc: nc.flush([]),  # type: ignore[arg-type]
    "timeout must be a number of seconds, or None, not dict": lambda nc: nc.jetstream().publish("a", timeout={"a": 1}),  # type: ignore[arg-type]
    "a subject must be str, not int": lambda nc: nc.publish(1),  # type: ignore[arg-type]
    "a subject must be str, not bytes": lambda nc: nc.subscribe(b"a"),  # type: ignore[arg-type]
    "headers must be a mapping, not list": lambda nc: nc.publish("a", headers=["a"]),  # type: ignore[arg-type]
    "the value of 'a' in headers must be str or a list of str, not int": lambda nc: nc.publish("a", headers={"a": 1}),  # type: ignore[dict-item]
    "the names in headers must be str, not int": lambda nc: nc.publish("a", headers={1: "a"}),  # type: ignore[dict-item]
    "connect_timeout must be a number of seconds, or None, not str": lambda nc: jetarrow.connect(connect_timeout="1"),  # type: ignore[arg-type]
    "reconnect_time_wait must be a number of seconds, not None": lambda nc: jetarrow.connect(reconnect_time_wait=None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("text", WRONG)
async def test_errors_name_the_argument(nc: Client, text: str) -> None:
    with pytest.raises(TypeError) as refused:
        await WRONG[text](nc)
    assert str(refused.value) == text


async def test_any_mapping_is_headers(nc: Client) -> None:
    sub = await nc.subscribe("mapped")
    await nc.publish("mapped", b"", reply=None, headers=types.MappingProxyType({"a": "1", "b": ["2", "3"]}))
    msg = await sub.next_msg(timeout=10)
    assert (msg.reply, msg.headers_all) == ("", {"a": ["1"], "b": ["2", "3"]})


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("aio.transport", "TcpTransport"),
        ("aio.transport", "Transport"),
        ("protocol.parser", "Parser"),
        ("protocol.command", "pub_cmd"),
    ],
)
def test_what_is_not_here_says_why(module: str, name: str) -> None:
    found = importlib.import_module(f"jetarrow.{module}")
    with pytest.raises(ImportError, match=f"cannot import '{name}' from 'jetarrow.{module}': .*native"):
        exec(f"from jetarrow.{module} import {name}")
    assert getattr(found, "__wrapped__", None) is None
