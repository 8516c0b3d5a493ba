"""Requests of JetStream's API in words, for error texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

# The operation of each request that has a stream, and of those that have a consumer.
_STREAM = {
    "STREAM.CREATE": "create {}",
    "STREAM.UPDATE": "update {}",
    "STREAM.INFO": "read the state of {}",
    "STREAM.DELETE": "delete {}",
    "STREAM.PURGE": "purge {}",
    "STREAM.SNAPSHOT": "back up {}",
    "STREAM.RESTORE": "restore {}",
    "STREAM.LEADER.STEPDOWN": "change the leader of {}",
    "STREAM.PEER.REMOVE": "remove a replica of {}",
    "CONSUMER.LIST": "list the consumers of {}",
    "CONSUMER.NAMES": "list the consumers of {}",
}
_MESSAGE = {"STREAM.MSG.GET": "read {}", "STREAM.MSG.DELETE": "delete {}", "DIRECT.GET": "read {}"}
_CONSUMER = {
    "CONSUMER.DURABLE.CREATE": "create {}",
    "CONSUMER.CREATE": "create {}",
    "CONSUMER.INFO": "read the state of {}",
    "CONSUMER.DELETE": "delete {}",
    "CONSUMER.PAUSE": "pause {}",
    "CONSUMER.RESET": "reset {}",
    "CONSUMER.UNPIN": "unpin {}",
    "CONSUMER.LEADER.STEPDOWN": "change the leader of {}",
    "CONSUMER.MSG.NEXT": "fetch from {}",
}
_OTHERS = {
    "INFO": "read the state of the account",
    "STREAM.LIST": "list the streams",
    "STREAM.NAMES": "list the streams",
}


class ApiRequest(NamedTuple):
    """A request in words.

    Attributes:
        text: The operation with its objects: "could not create stream 'S'".
        stream: The stream in the request's subject; empty if it has none.
        consumer: The consumer in the request's subject, or in its body; empty if it has none.
    """

    text: str
    stream: str = ""
    consumer: str = ""


def describe_request(verb: str, body: Mapping[str, Any] | None = None) -> ApiRequest:
    """Describes a request from the part of its subject after the prefix, and its body."""
    if verb in _OTHERS:
        return ApiRequest(f"could not {_OTHERS[verb]}")
    for table, describe in ((_STREAM, _of_stream), (_MESSAGE, _of_message), (_CONSUMER, _of_consumer)):
        for operation, words in table.items():
            if verb.startswith(operation + "."):
                described = describe(verb[len(operation) + 1 :], body or {})
                words = "update {}" if (body or {}).get("action") == "update" else words
                return described._replace(text=f"could not {words.format(described.text)}")
    return ApiRequest(f"{verb} failed")


def _of_stream(rest: str, _: Mapping[str, Any]) -> ApiRequest:
    stream = rest.split(".")[0]
    return ApiRequest(f"stream {stream!r}", stream)


def _of_message(rest: str, body: Mapping[str, Any]) -> ApiRequest:
    stream, _, subject = rest.partition(".")
    return ApiRequest(f"{_message(subject, body)} of stream {stream!r}", stream)


def _message(subject: str, body: Mapping[str, Any]) -> str:
    """The selected message; `subject` is the one in the request's subject."""
    last = body.get("last_by_subj") or subject
    if last:
        return f"the last message of subject {last!r}"
    if "next_by_subj" in body:
        return f"the message of subject {body['next_by_subj']!r} at or after sequence {body.get('seq', 1)}"
    return f"message {body['seq']}" if body.get("seq") else "a message"


def _of_consumer(rest: str, body: Mapping[str, Any]) -> ApiRequest:
    tokens = rest.split(".")
    stream = tokens[0]
    config = body.get("config") or {}
    consumer = tokens[1] if len(tokens) > 1 else config.get("durable_name") or config.get("name") or ""
    name = f"consumer {consumer!r}" if consumer else "a consumer"
    return ApiRequest(f"{name} of stream {stream!r}", stream, consumer)
