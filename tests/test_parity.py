"""The sync twin has every public member of every class of the async face that a user can obtain."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import AsyncIterator, Iterator
from types import FunctionType
from typing import Any

import jetarrow
import jetarrow.sync
import pytest

# Classes of the async face, with the class of the twin that the same verbs return.
PAIRS = {
    "Client": "Client",
    "JetStreamContext": "JetStream",
    "JetStreamManager": "JetStreamManager",
    "Stream": "Stream",
    "Consumer": "Consumer",
    "PullSubscription": "PullSubscription",
    "PushSubscription": "PushSubscription",
    "Subscription": "Subscription",
    "Publisher": "Publisher",
    "Reader": "Reader",
    "Sink": "Sink",
    "Pipe": "Pipe",
    "Worker": "Worker",
    "ConsumerGroup": "ConsumerGroup",
    "GroupMember": "GroupMember",
    "GroupBatch": "GroupBatch",
    "DeadLetters": "DeadLetters",
    "MessageBatch": "MessageBatch",
    "Msg": "Msg",
    "Advisories": "Advisories",
    "System": "System",
    "ObjectStore": "ObjectStore",
    "ObjectWatcher": "ObjectWatcher",
    "KeyValue": "KeyValue",
    "KeyWatcher": "KeyWatcher",
}
# Classes without a twin, and why.
NO_TWIN = {
    "Messages": "an iterator of messages: a plain one in the twin",
    "ConsumerMessages": "an iterator of messages: a plain one in the twin",
    "OrderedConsumer": "an iterator of messages: a plain one in the twin",
}
# Members without a twin, and why.
MISSING = {
    "JetStreamContext.PullSubscription": "nats-py's second name for the class",
    "JetStreamContext.PushSubscription": "nats-py's second name for the class",
    "ObjectStore.ObjectResult": "nats-py's second name for the class",
    "ObjectStore.ObjectStoreStatus": "nats-py's second name for the class",
    "ObjectStore.ObjectWatcher": "nats-py's second name for the class",
}
# Members that are of another kind in the twin, and why.
OTHER_KIND = {
    f"{kind}.messages": "a property and callable for nats-py's sake; the twin has a method"
    for kind in ("Subscription", "PushSubscription", "PullSubscription", "Consumer")
}
# Parameters that are not the same in the twin, and why.
OTHER_PARAMETERS = {
    f"{kind}.consume(threshold)": "a request ahead would be answered beside the loop, which the twin has not"
    for kind in ("PullSubscription", "Consumer", "JetStreamContext")
} | {
    f"KeyValue.KeyWatcher({name})": "made by `watch`, not by hand"
    for name in ("inner", "updates", "bucket", "prefix", "ignore_deletes")
}
# Names of Python's protocols in the async face and in the twin.
PROTOCOLS = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__", "__anext__": "__next__"}
KEPT = {"__len__", "__getitem__", "__arrow_c_array__", "__arrow_c_schema__", "__arrow_c_stream__"}

Held = dict[str, Any]


def without_waiting(nc: Any, stream: str) -> Held:
    """Returns an object of each class that both faces create without awaiting, by the names in PAIRS."""
    js = nc.jetstream()
    return {
        "Client": nc,
        "JetStreamContext": js,
        "JetStreamManager": nc.jsm(),
        "Stream": js.stream(stream),
        "Consumer": js.stream(stream).consumer("c"),
        "Publisher": js.publisher(),
        "Reader": js.read(stream),
        "DeadLetters": js.dead_letters(stream),
        "Sink": js.to_parquet(stream, "never-opened"),
        "Pipe": js.pipe(stream, stream, print, name="p"),
        "GroupMember": js.consumer_group(stream, "G", member="m"),
        "Advisories": js.advisories(),
        "System": nc.system(),
        "Worker": worker(nc).worker(js, stream, durable="c", handler=print),
    }


def worker(nc: Any) -> Any:
    """Returns the module whose `worker` is of the client's face."""
    return jetarrow if isinstance(nc, jetarrow.Client) else jetarrow.sync


@pytest.fixture
async def theirs(nats_url: str, stream: str) -> AsyncIterator[Held]:
    """An object of each class of the async face."""
    async with await jetarrow.connect(nats_url) as nc:
        js = nc.jetstream()
        await js.publish(f"{stream}.a")
        pull = await js.pull_subscribe(f"{stream}.>")
        (message,) = await pull.fetch()
        store = await js.create_object_store(stream)
        group = await js.create_consumer_group(stream, "G", partitions=1, members=["m"])
        member = js.consumer_group(stream, "G", member="m")
        yield {
            **without_waiting(nc, stream),
            "PullSubscription": pull,
            "PushSubscription": await js.subscribe(f"{stream}.>"),
            "Subscription": await nc.subscribe("a"),
            "ConsumerGroup": group,
            "GroupBatch": await anext(aiter(member.batches())),
            "MessageBatch": await pull.fetch_batch(1, timeout=5, min_messages=0),
            "Msg": message,
            "ObjectStore": store,
            "ObjectWatcher": await store.watch(),
            "KeyValue": (kv := await js.create_key_value(bucket=f"{stream}A")),
            "KeyWatcher": await kv.watchall(),
        }
        await member.close()
        await group.delete()
        await js.delete_object_store(stream)
        await js.delete_key_value(f"{stream}A")


@pytest.fixture
def ours(nats_url: str, stream: str) -> Iterator[Held]:
    """The same objects of the twin, by the same verbs."""
    with jetarrow.sync.connect(nats_url) as nc:
        js = nc.jetstream()
        js.publish(f"{stream}.a")
        pull = js.pull_subscribe(f"{stream}.>")
        (message,) = pull.fetch()
        store = js.create_object_store(f"{stream}-sync")
        group = js.create_consumer_group(stream, "H", partitions=1, members=["m"])
        member = js.consumer_group(stream, "H", member="m")
        yield {
            **without_waiting(nc, stream),
            "PullSubscription": pull,
            "PushSubscription": js.subscribe(f"{stream}.>"),
            "Subscription": nc.subscribe("a"),
            "ConsumerGroup": group,
            "GroupBatch": next(iter(member.batches())),
            "MessageBatch": pull.fetch_batch(1, timeout=5, min_messages=0),
            "Msg": message,
            "ObjectStore": store,
            "ObjectWatcher": store.watch(),
            "KeyValue": (kv := js.create_key_value(bucket=stream)),
            "KeyWatcher": kv.watchall(),
        }
        member.close()
        group.delete()
        js.delete_object_store(f"{stream}-sync")
        js.delete_key_value(stream)


def members(held: object) -> set[str]:
    """Returns the public members of an object, by the names of the twin."""
    names = {PROTOCOLS.get(name, name) for name in dir(held)}
    protocols = KEPT | set(PROTOCOLS.values())
    return {name for name in names if not name.startswith("_") or name in protocols}


def member(held: object, name: str) -> Any:
    """Returns the member of `held` that the twin names `name`, without evaluating properties."""
    names = [theirs for theirs, twin in PROTOCOLS.items() if name == twin and hasattr(type(held), theirs)]
    real = (names or [name])[0]
    value = inspect.getattr_static(held, real)
    return getattr(held, real) if isinstance(value, staticmethod | classmethod) else value


def differing(wanted: Any, found: Any) -> set[str]:
    """Returns the parameters that differ in the twin; none if it has other `**options`, which may contain them all."""
    one, twin = inspect.signature(wanted).parameters, inspect.signature(found).parameters
    if options_of(twin) not in (None, options_of(one)):
        return set()
    # Only an unbound function has `self`.
    names = (one.keys() | twin.keys()) - {"self"}
    return {name for name in names if told(one.get(name)) != told(twin.get(name))}


def options_of(parameters: Any) -> str | None:
    """Returns the type of the `**options`, or None without any."""
    kinds = [str(parameter.annotation) for parameter in parameters.values() if parameter.kind is parameter.VAR_KEYWORD]
    return kinds[0] if kinds else None


def told(parameter: inspect.Parameter | None) -> object:
    return parameter and (parameter.kind, parameter.default)


def is_async(cls: type) -> bool:
    values = [value for base in cls.__mro__ for name, value in vars(base).items() if not name.startswith("_")]
    return hasattr(cls, "__aiter__") or any(
        inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value) for value in values
    )


def test_pairs_contain_every_class_of_the_twin(theirs: Held, ours: Held) -> None:
    assert {name: type(held).__name__ for name, held in theirs.items()} == {name: name for name in PAIRS}
    assert {name: type(held).__name__ for name, held in ours.items()} == PAIRS
    classes = {name for name in jetarrow.sync.__all__ if isinstance(getattr(jetarrow.sync, name), type)}
    assert classes == set(PAIRS.values())


def test_no_async_class_is_left_out(theirs: Held) -> None:
    """Every async class in the return annotations of public members has a twin, or needs none."""
    loaded = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "jetarrow"]
    # The demo's message classes have names that are used elsewhere.
    known = {
        cls.__name__: cls
        for module in loaded
        for cls in vars(module).values()
        if isinstance(cls, type)
        and cls.__module__.startswith("jetarrow")
        and not {"sync", "demo"} & set(cls.__module__.split("."))
    }
    named: set[str] = set()
    for held in theirs.values():
        for name in members(held):
            value = member(held, name)
            value = value.fget if isinstance(value, property) else value
            if isinstance(value, FunctionType):
                named |= set(re.findall(r"\w+", str(inspect.signature(value).return_annotation)))
    returned = {name for name in named if name in known and is_async(known[name])}
    assert {"Publisher", "Reader", "Messages"} <= returned, "the annotations are not read"
    assert returned - set(PAIRS) == set(NO_TWIN)


def test_every_member_has_a_twin(theirs: Held, ours: Held) -> None:
    missing, more, other_kind, parameters, wrong, walked = set(), set(), set(), set(), set(), 0
    for kind, held in theirs.items():
        wanted, found = members(held), members(ours[kind])
        missing |= {f"{kind}.{name}" for name in wanted - found}
        more |= {f"{kind}.{name}" for name in found - wanted}
        for name in wanted & found:
            walked += 1
            one, twin = member(held, name), member(ours[kind], name)
            if callable(one) != callable(twin):
                other_kind.add(f"{kind}.{name}")
            elif callable(one):
                parameters |= {f"{kind}.{name}({parameter})" for parameter in differing(one, twin)}
            documented = name in KEPT | set(PROTOCOLS.values()) or inspect.getdoc(getattr(type(ours[kind]), name))
            if not documented or is_suspended(twin):
                wrong.add(f"{kind}.{name}")
    assert walked > 180
    assert missing == set(MISSING)
    assert more == set(), "the async face has it not"
    assert other_kind == set(OTHER_KIND)
    assert parameters == set(OTHER_PARAMETERS)
    assert wrong == set(), "without a docstring, or still to be awaited"


def is_suspended(value: Any) -> bool:
    """Returns whether the function's own code is async; `blocking` and its kin wrap an async method."""
    code = getattr(value, "__code__", None)
    return code is not None and bool(code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))
