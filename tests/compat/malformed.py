"""Calls that make no sense, for both faces: what each client of the world has sent, hung on or died of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NAN, INFINITE = float("nan"), float("inf")


@dataclass
class Tools:
    """What a call needs: a client, its context, a pull subscription; the server's limit for a message."""

    nc: Any
    js: Any
    pull: Any
    stream: str
    max_payload: int


Call = Callable[[Tools], Any]


def publish(subject: Any = "good", payload: Any = b"x", **options: Any) -> Call:
    return lambda t: t.nc.publish(subject, payload, **options)


def store(subject: Any = "", payload: Any = b"x", **options: Any) -> Call:
    return lambda t: t.js.publish(subject or f"{t.stream}.a", payload, **options)


def request(subject: Any = "good", payload: Any = b"x", **options: Any) -> Call:
    return lambda t: t.nc.request(subject, payload, **options)


def subscribe(subject: Any = "good", **options: Any) -> Call:
    return lambda t: t.nc.subscribe(subject, **options)


def fetch(*args: Any, **options: Any) -> Call:
    return lambda t: t.pull.fetch(*args, **options)


SUBJECTS = {
    "subject with a space": "a b",
    "subject with a line break": "a\r\nPUB evil 0\r\n",
    "subject with LF": "a\nb",
    "subject with CR": "a\rb",
    "subject with a tab": "a\tb",
    "subject with NUL": "a\x00b",
    "empty subject": "",
    "empty token in the middle": "a..b",
    "empty token in front": ".a",
    "empty token at the end": "a.",
    "wildcard *": "a.*",
    "wildcard >": "a.>",
    "subject of 5,000 bytes": "s" * 5000,
    "lone surrogate in a subject": "a\ud800",
    "subject is None": None,
    "subject is bytes": b"a",
}

PAYLOADS = {
    "payload is None": None,
    "payload is an int": 5,
    "payload is a float": 1.5,
    "payload is a list": [1, 2],
    "lone surrogate in a payload": "\ud800",
}

HEADERS = {
    "header name with a space": {"a b": "c"},
    "header name with a colon": {"a:b": "c"},
    "header name with a line break": {"a\r\nb": "c"},
    "header name with NUL": {"a\x00": "c"},
    "header value is an int": {"a": 5},
    "header value is None": {"a": None},
    "lone surrogate in a header": {"a": "\ud800"},
    "headers are a list": [("a", "b")],
}

TIMEOUTS = {"negative": -1.0, "NaN": NAN, "infinite": INFINITE}

CALLS: dict[str, Call] = {
    **{f"publish, {name}": publish(value) for name, value in SUBJECTS.items()},
    **{f"js.publish, {name}": store(value) for name, value in SUBJECTS.items() if value},
    **{f"request, {name}": request(value) for name, value in SUBJECTS.items()},
    **{f"subscribe, {name}": subscribe(value) for name, value in SUBJECTS.items() if "wildcard" not in name},
    **{f"publish, {name}": publish(payload=value) for name, value in PAYLOADS.items()},
    **{f"js.publish, {name}": store(payload=value) for name, value in PAYLOADS.items()},
    **{f"request, {name}": request(payload=value) for name, value in PAYLOADS.items()},
    **{f"publish, {name}": publish(headers=value) for name, value in HEADERS.items()},
    **{f"js.publish, {name}": store(headers=value) for name, value in HEADERS.items()},
    **{f"request, {name}": request(headers=value) for name, value in HEADERS.items()},
    **{f"publish, reply: {name}": publish(reply=value) for name, value in SUBJECTS.items() if value},
    "queue with a space": subscribe(queue="a b"),
    "queue with a line break": subscribe(queue="a\r\nPUB evil 0\r\n"),
    "subscribe, > not at the end": subscribe("a.>.b"),
    "subscribe, > in a token": subscribe("a>"),
    "subscribe, * in a token": subscribe("a*"),
    "payload beyond max_payload": lambda t: t.nc.publish("good", b"x" * (t.max_payload + 1)),
    "max_payload and headers": lambda t: t.nc.publish("good", b"x" * t.max_payload, headers={"a": "b"}),
    "js.publish, max_payload and headers": lambda t: t.js.publish(
        f"{t.stream}.a", b"x" * t.max_payload, headers={"a": "b"}
    ),
    "request, max_payload and headers": lambda t: t.nc.request("good", b"x" * t.max_payload, headers={"a": "b"}),
    **{f"request, {name} timeout": request(timeout=value) for name, value in TIMEOUTS.items()},
    **{f"js.publish, {name} timeout": store(timeout=value) for name, value in TIMEOUTS.items()},
    **{
        f"flush, {name} timeout": (lambda t, value=value: t.nc.flush(timeout=value)) for name, value in TIMEOUTS.items()
    },
    **{f"fetch, {name} timeout": fetch(1, timeout=value) for name, value in TIMEOUTS.items()},
    "flush, timeout 0": lambda t: t.nc.flush(timeout=0),
    "fetch, negative batch": fetch(-1),
    "fetch, batch 0": fetch(0),
    "fetch, batch is a float": fetch(1.5),
    "fetch, timeout 0": fetch(1, timeout=0),
    "fetch, negative heartbeat": fetch(1, heartbeat=-1),
    "fetch, NaN heartbeat": fetch(1, heartbeat=NAN),
    "stream name with a dot": lambda t: t.js.stream_info("a.b"),
    "stream name with a line break": lambda t: t.js.stream_info("a\r\nPUB evil 0\r\n"),
    "consumer name with a wildcard": lambda t: t.js.consumer_info(t.stream, "*"),
    "msg_ttl is negative": store(msg_ttl=-1),
    "msg_ttl is NaN": store(msg_ttl=NAN),
}

URLS = [
    "",
    " ",
    "nats://",
    "nats://:4222",
    "nats://host:port",
    "nats://host:99999",
    "nats://[::1",
    "nats://a b:4222",
    "nats://a\r\nb:4222",
    "http://127.0.0.1:4222",
    "nats://127.0.0.1:4222:4222",
    None,
    5,
    [],
    [None],
]
