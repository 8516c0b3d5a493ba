"""Malformed calls for the async and the blocking API, from failures of other clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jetarrow.errors import (
    BadAddressError,
    BadHeaderError,
    BadSubjectError,
    BadTimeoutError,
    MaxPayloadError,
    NoServersError,
)

NAN, INFINITE = float("nan"), float("inf")


@dataclass
class Tools:
    """Arguments of a call: a client, its JetStream context, a pull subscription, and the server's maximum payload."""

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


class Wrong(NamedTuple):
    """A value, the exact class of the error that it causes, and a part of the error's text."""

    value: Any
    error: type[Exception]
    says: str


CONTROL = "white space or a control character"
TOKEN = "an empty token"

SUBJECTS = {
    "subject with a space": Wrong("a b", BadSubjectError, CONTROL),
    "subject with a line break": Wrong("a\r\nPUB evil 0\r\n", BadSubjectError, CONTROL),
    "subject with LF": Wrong("a\nb", BadSubjectError, CONTROL),
    "subject with CR": Wrong("a\rb", BadSubjectError, CONTROL),
    "subject with a tab": Wrong("a\tb", BadSubjectError, CONTROL),
    "subject with NUL": Wrong("a\x00b", BadSubjectError, CONTROL),
    "empty subject": Wrong("", BadSubjectError, "empty"),
    "empty token in the middle": Wrong("a..b", BadSubjectError, TOKEN),
    "empty token in front": Wrong(".a", BadSubjectError, TOKEN),
    "empty token at the end": Wrong("a.", BadSubjectError, TOKEN),
    "wildcard *": Wrong("a.*", BadSubjectError, "wildcard"),
    "wildcard >": Wrong("a.>", BadSubjectError, "wildcard"),
    "subject of 5,000 bytes": Wrong("s" * 5000, BadSubjectError, "longer"),
    "lone surrogate in a subject": Wrong("a\ud800", BadSubjectError, "lone surrogate"),
    "subject is None": Wrong(None, BadSubjectError, "it is none"),
    "subject is bytes": Wrong(b"a", TypeError, "must be str, not bytes"),
}

PAYLOADS = {
    "payload is None": Wrong(None, TypeError, "payload must be .* not NoneType"),
    "payload is an int": Wrong(5, TypeError, "payload must be .* not int"),
    "payload is a float": Wrong(1.5, TypeError, "payload must be .* not float"),
    "payload is a list": Wrong([1, 2], TypeError, "payload must be .* not list"),
    "lone surrogate in a payload": Wrong("\ud800", ValueError, "lone surrogate"),
}

HEADERS = {
    "header name with a space": Wrong({"a b": "c"}, BadHeaderError, "a b"),
    "header name with a colon": Wrong({"a:b": "c"}, BadHeaderError, "a:b"),
    "header name with a line break": Wrong({"a\r\nb": "c"}, BadHeaderError, "the name"),
    "header name with NUL": Wrong({"a\x00": "c"}, BadHeaderError, "the name"),
    "header value is an int": Wrong({"a": 5}, TypeError, "header.* must be str"),
    "header value is None": Wrong({"a": None}, TypeError, "header.* must be str"),
    "lone surrogate in a header": Wrong({"a": "\ud800"}, BadHeaderError, "lone surrogate"),
    "headers are a list": Wrong([("a", "b")], TypeError, "headers must be a mapping, not list"),
}

TIMEOUTS = {
    "negative timeout": Wrong(-1.0, ValueError, "timeout"),
    "NaN timeout": Wrong(NAN, ValueError, "timeout"),
    "infinite timeout": Wrong(INFINITE, ValueError, "timeout"),
}
FLUSH_TIMEOUTS = {
    "negative timeout": Wrong(-1.0, BadTimeoutError, "timeout"),
    "timeout 0": Wrong(0, BadTimeoutError, "timeout"),
    "NaN timeout": Wrong(NAN, BadTimeoutError, "timeout"),
    "infinite timeout": Wrong(INFINITE, ValueError, "timeout"),
}


def each(verb: str, call: Callable[[Any], Call], values: dict[str, Wrong]) -> dict[str, Wrong]:
    """The call with each of the values."""
    return {f"{verb}, {name}": wrong._replace(value=call(wrong.value)) for name, wrong in values.items()}


def without(text: str, values: dict[str, Wrong]) -> dict[str, Wrong]:
    return {name: wrong for name, wrong in values.items() if text not in name}


GIVEN = {name: wrong for name, wrong in SUBJECTS.items() if wrong.value}

# The value of each is the call.
CALLS: dict[str, Wrong] = {
    **each("publish", publish, SUBJECTS),
    **each("js.publish", store, GIVEN),
    **each("request", request, SUBJECTS),
    **each("subscribe", subscribe, without("wildcard", SUBJECTS)),
    **each("publish", lambda value: publish(payload=value), PAYLOADS),
    **each("js.publish", lambda value: store(payload=value), PAYLOADS),
    **each("request", lambda value: request(payload=value), PAYLOADS),
    **each("publish", lambda value: publish(headers=value), HEADERS),
    **each("js.publish", lambda value: store(headers=value), HEADERS),
    **each("request", lambda value: request(headers=value), HEADERS),
    **each("publish, reply", lambda value: publish(reply=value), GIVEN),
    **each("request", lambda value: request(timeout=value), TIMEOUTS),
    **each("js.publish", lambda value: store(timeout=value), TIMEOUTS),
    **each("fetch", lambda value: fetch(1, timeout=value), TIMEOUTS),
    **each("flush", lambda value: lambda t: t.nc.flush(timeout=value), FLUSH_TIMEOUTS),
    "queue with a space": Wrong(subscribe(queue="a b"), BadSubjectError, "queue"),
    "queue with a line break": Wrong(subscribe(queue="a\r\nPUB evil 0\r\n"), BadSubjectError, "queue"),
    "subscribe, > not at the end": Wrong(subscribe("a.>.b"), BadSubjectError, "last token"),
    "subscribe, > in a token": Wrong(subscribe("a>"), BadSubjectError, "whole token"),
    "subscribe, * in a token": Wrong(subscribe("a*"), BadSubjectError, "whole token"),
    "payload beyond max_payload": Wrong(
        lambda t: t.nc.publish("good", b"x" * (t.max_payload + 1)), MaxPayloadError, "65537 bytes.*65536"
    ),
    "max_payload and headers": Wrong(
        lambda t: t.nc.publish("good", b"x" * t.max_payload, headers={"a": "b"}), MaxPayloadError, "with its headers"
    ),
    "js.publish, max_payload and headers": Wrong(
        lambda t: t.js.publish(f"{t.stream}.a", b"x" * t.max_payload, headers={"a": "b"}),
        MaxPayloadError,
        "with its headers",
    ),
    "request, max_payload and headers": Wrong(
        lambda t: t.nc.request("good", b"x" * t.max_payload, headers={"a": "b"}), MaxPayloadError, "with its headers"
    ),
    "fetch, negative batch": Wrong(fetch(-1), ValueError, "batch"),
    "fetch, batch 0": Wrong(fetch(0), ValueError, "batch"),
    "fetch, batch is a float": Wrong(fetch(1.5), TypeError, "whole number"),
    "fetch, timeout 0": Wrong(fetch(1, timeout=0), ValueError, "timeout"),
    "fetch, negative heartbeat": Wrong(fetch(1, heartbeat=-1), ValueError, "heartbeat"),
    "fetch, NaN heartbeat": Wrong(fetch(1, heartbeat=NAN), ValueError, "heartbeat"),
    "stream name with a dot": Wrong(lambda t: t.js.stream_info("a.b"), ValueError, "stream name"),
    "stream name with a line break": Wrong(
        lambda t: t.js.stream_info("a\r\nPUB evil 0\r\n"), ValueError, "stream name"
    ),
    "consumer name with a wildcard": Wrong(lambda t: t.js.consumer_info(t.stream, "*"), ValueError, "consumer name"),
    "msg_ttl is negative": Wrong(store(msg_ttl=-1), ValueError, "msg_ttl"),
    "msg_ttl is NaN": Wrong(store(msg_ttl=NAN), ValueError, "msg_ttl"),
}

URLS = [
    Wrong("", BadAddressError, "names no host"),
    Wrong(" ", BadAddressError, "names no host"),
    Wrong("nats://", BadAddressError, "names no host"),
    Wrong("nats://:4222", BadAddressError, "empty host"),
    Wrong("nats://host:port", BadAddressError, "port number"),
    Wrong("nats://host:99999", BadAddressError, "port number"),
    Wrong("nats://[::1", BadAddressError, "IPv6"),
    Wrong("nats://a b:4222", BadAddressError, "domain character"),
    # It is looked up as a name.
    Wrong("nats://a\r\nb:4222", BadAddressError, "line break"),
    Wrong("http://127.0.0.1:4222", BadAddressError, "scheme"),
    Wrong("nats://127.0.0.1:4222:4222", BadAddressError, "port number"),
    Wrong(None, BadAddressError, "string or a list"),
    Wrong(5, BadAddressError, "string or a list"),
    Wrong([], NoServersError, "no server address"),
    Wrong([None], BadAddressError, "string or a list"),
]
