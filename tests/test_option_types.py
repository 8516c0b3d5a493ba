"""The typed dictionaries of options have the names and the types of the signatures behind them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow import Client
from jetarrow.core import option_types as core_types
from jetarrow.jetstream import config_options, priority
from jetarrow.jetstream import option_types as jetstream_types
from jetarrow.jetstream.fetch import PullSubscription
from jetarrow.jetstream.groups import option_types as group_types
from jetarrow.jetstream.groups.member import GroupMember
from jetarrow.jetstream.kv import option_types as bucket_types
from jetarrow.jetstream.objects import option_types as object_types
from jetarrow.jetstream.pipes import option_types as pipe_types
from jetarrow.jetstream.sinks import option_types as sink_types
from jetarrow.js import api
from jetarrow.js.client import JetStreamContext
from jetarrow.js.consumer import Consumer
from jetarrow.js.kv import KeyValue
from jetarrow.js.manager import JetStreamManager
from jetarrow.js.stream import Stream
from jetarrow.publisher import Publisher
from jetarrow.system import System
from jetarrow.system import option_types as system_types
from jetarrow.system.requests import selection
from jetarrow.workers import option_types as worker_types
from jetarrow.workers import worker

DICTIONARIES = {
    name: value
    for module in (
        core_types,
        jetstream_types,
        config_options,
        bucket_types,
        group_types,
        object_types,
        pipe_types,
        sink_types,
        system_types,
        worker_types,
    )
    for name, value in vars(module).items()
    if hasattr(value, "__required_keys__")
}

CALLBACKS = {
    "error_cb",
    "disconnected_cb",
    "closed_cb",
    "discovered_server_cb",
    "reconnected_cb",
    "lame_duck_mode_cb",
}


def keys(name: str) -> dict[str, str]:
    """Returns a dictionary's keys, including those of its bases, with the text of their types."""
    found = DICTIONARIES[name]
    assert not found.__required_keys__, "every option has a default"
    return {key: plain(value.__forward_arg__) for key, value in found.__annotations__.items()}


def plain(annotation: str) -> str:
    """The text without the names of modules, except `ssl`."""
    return re.sub(r"\b(?!ssl\.)[a-z_]+\.(?=[A-Z])", "", annotation)


def keywords(function: Callable[..., Any], *leave_out: str) -> dict[str, str]:
    """Returns a function's parameters with the text of their types, except `self`, `leave_out` and `**rest`."""
    parameters = inspect.signature(function).parameters
    missing = [name for name in leave_out if name not in parameters]
    assert not missing, f"no longer parameters: {missing}"
    return {
        name: plain(parameter.annotation)
        for name, parameter in parameters.items()
        if name not in ("self", *leave_out) and parameter.kind is not parameter.VAR_KEYWORD
    }


def config_fields(config: Any) -> dict[str, str]:
    """Returns a configuration's fields with the text of the accepted types, which a codec's `__set__` declares."""
    found = {}
    for field in fields(config):
        text = str(field.type)
        codec = config.__dict__.get(field.name)
        setter = getattr(type(codec), "__set__", None)
        if setter is not None:
            choice = re.fullmatch(r"Choice\[(\w+)\]", text)
            text = inspect.signature(setter).parameters["value"].annotation
            # A list of numbers and timedeltas: `__set__` declares Any, and explains it.
            text = text.replace("Any", "Sequence[float | timedelta] | None")
            text = text.replace("_E", choice[1]) if choice else text
        found[field.name] = plain(text)
    return found | {other: found[name] for other, name in config._aliases.items()}


CONNECT = keywords(Client.connect, "servers")
STREAM = config_fields(api.StreamConfig)
CONSUMER = config_fields(api.ConsumerConfig)
EXTRAS = keys("PublishExtras")
PRIORITY = keywords(priority._group_request, "api")
PUSH = keywords(JetStreamContext.subscribe, "subject", "queue", "cb")

PARQUET = keywords(JetStreamContext.to_parquet, "stream", "path")


def without(given: dict[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in given.items() if name not in names}


def only(given: dict[str, str], *names: str) -> dict[str, str]:
    return {name: given[name] for name in names}


EXPECTED = {
    "ConnectOptions": CONNECT,
    "_ConnectOptions": without(CONNECT, *CALLBACKS),
    "SyncConnectOptions": {
        name: re.sub(r"(Error)?Callback(?= \|)", r"Plain\g<0>", text) if name in CALLBACKS else text
        for name, text in CONNECT.items()
    },
    "WorkerOptions": {
        **keywords(worker, "js", "stream", "durable", "handler", "batch_handler"),
        "key": "Callable[[Any], Hashable] | str | int | None",
    },
    "SubscribeOptions": keywords(Client.subscribe, "subject", "queue", "cb", "future"),
    "JetStreamOptions": keywords(JetStreamContext.__init__, "conn"),
    "ManagerOptions": keywords(JetStreamManager.__init__, "conn"),
    "PublishAsyncOptions": {**keywords(JetStreamContext.publish_async, "subject", "payload"), **EXTRAS},
    "PublisherPublishOptions": {**keywords(Publisher.publish, "payload"), **EXTRAS},
    "PublishExtras": EXTRAS,
    "PriorityOptions": PRIORITY,
    "BatchesOptions": {**keywords(PullSubscription.batches), **PRIORITY},
    "ConsumerBatchesOptions": {**keywords(Consumer.batches, "max_messages"), **PRIORITY},
    "FetchOptions": {**keywords(PullSubscription.fetch, "batch"), **PRIORITY},
    "PublisherOptions": keywords(JetStreamContext.publisher, "subject"),
    "ReadOptions": keywords(JetStreamContext.read, "stream"),
    "PipeKeywords": keywords(JetStreamContext.pipe, "source", "target", "function", "name"),
    "MemberKeywords": keywords(JetStreamContext.consumer_group, "stream", "name", "member"),
    "GroupBatchesOptions": keywords(GroupMember.batches),
    "_SinkOptions": without(PARQUET, "timestamp_unit", "filesystem", "compression"),
    "ParquetOptions": PARQUET,
    "DeltaOptions": keywords(JetStreamContext.to_delta, "stream", "table_uri"),
    "_KeyOptions": {
        **without(PARQUET, "timestamp_unit", "filesystem", "compression"),
        **only(keywords(JetStreamContext.to_delta, "stream", "table_uri"), "merge", "key", "deletes"),
    },
    "IcebergOptions": keywords(JetStreamContext.to_iceberg, "stream", "table"),
    "LatestOptions": keywords(JetStreamContext.latest, "stream", "subjects"),
    "OrderedConsumerOptions": keywords(JetStreamContext.ordered_consumer, "stream", "subjects"),
    "StreamOptions": STREAM,
    "ConsumerOptions": CONSUMER,
    "NamedConsumerOptions": without(CONSUMER, "name"),
    # A parameter of `subscribe` cannot be a keyword of its `**rest` as well.
    "PushConsumerOptions": without(CONSUMER, *PUSH),
    "_ConsumerOptions": without(CONSUMER, "name", *PUSH),
    "PushSubscribeOptions": {**without(CONSUMER, *PUSH), **PUSH},
    "ObjectStoreOptions": without(config_fields(api.ObjectStoreConfig), "bucket"),
    "KeyValueOptions": config_fields(api.KeyValueConfig),
    "BucketReadOptions": keywords(KeyValue.read, "filters", "schema"),
    "SystemOptions": keywords(System.__init__, "session"),
    "ServerFilters": keywords(selection),
    "BindOptions": keywords(JetStreamContext.subscribe_bind, "stream", "cb"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_keys_and_types_equal_the_signature(name: str) -> None:
    assert keys(name) == EXPECTED[name]


def test_every_dictionary_is_held_to_a_signature() -> None:
    assert set(DICTIONARIES) == set(EXPECTED)


def test_callbacks_contain_every_callback_option() -> None:
    assert set(CONNECT) >= CALLBACKS
    assert {name for name in CONNECT if name.endswith("_cb")} - CALLBACKS == {"signature_cb", "user_jwt_cb"}


def test_config_fields_have_the_types_they_accept() -> None:
    # config_fields must not fall back on the types that the fields return.
    assert CONSUMER["ack_wait"] == "float | timedelta | None"
    assert CONSUMER["ack_policy"] == "AckPolicy | str | None"
    assert CONSUMER["pause_until"] == "datetime | str | None"
    assert not any(word in text for text in (STREAM | CONSUMER).values() for word in ("Choice", "Duration", "Moment"))


FACES = [jetarrow, jetarrow.Client, JetStreamContext, Stream, Consumer, System, jetarrow.sync]
FACES += [getattr(jetarrow.sync, name) for name in jetarrow.sync.__all__ if name[0].isupper()]
# Functions of the codecs, which accept any field of any dataclass.
FREE = {"evolve"}


def rest(face: object) -> dict[str, str]:
    """Returns the public functions with a `**rest`, and the text of its type."""
    found = {}
    for name, function in inspect.getmembers(face, inspect.isfunction):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD and not name.startswith("_") and name not in FREE:
                found[name] = parameter.annotation
    return found


@pytest.mark.parametrize("face", FACES, ids=lambda face: f"{getattr(face, '__module__', '')}.{face.__name__}")
def test_no_options_without_a_type(face: object) -> None:
    for name, annotation in rest(face).items():
        assert annotation.startswith("Unpack["), (name, annotation)
        assert annotation.removeprefix("Unpack[").removesuffix("]") in DICTIONARIES, (name, annotation)


def test_functions_with_options_are_found() -> None:
    assert {"connect", "add_stream", "jetstream", "subscribe"} <= {name for face in FACES for name in rest(face)}
