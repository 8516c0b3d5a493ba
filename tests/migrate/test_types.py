"""The table of nats-py's classes and results is that of the installed nats-py."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import nats
import nats.js
import nats.micro
import pytest
from jetarrow.migrate import nats_types
from nats.js.client import JetStreamContext
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

from tests.compat.test_surface import assigned, nats_modules
from tests.migrate.tools import findings

CLASSES: dict[str, Any] = {
    "Client": nats.NATS,
    "JetStreamContext": JetStreamContext,
    "JetStreamManager": nats.js.JetStreamManager,
    "Subscription": nats.aio.subscription.Subscription,
    "PullSubscription": JetStreamContext.PullSubscription,
    "KeyValue": KeyValue,
    "KeyWatcher": KeyValue.KeyWatcher,
    "ObjectStore": ObjectStore,
    "ObjectWatcher": ObjectStore.ObjectWatcher,
    "ObjectResult": ObjectStore.ObjectResult,
    "ObjectInfo": nats.js.api.ObjectInfo,
}
# Names of the table for results that nats-py describes otherwise.
ANNOTATIONS = {
    "PubAckFuture": "Future[api.PubAck]",
    "PurgeResult": "bool",
    "Msgs": "List[Msg]",
    "Entry": "Entry",
    "WatchedEntry": "",
    "ObjectInfos": "ObjectInfo]",
}


def annotation(owner: str, name: str) -> str:
    return str(inspect.signature(getattr(CLASSES[owner], name)).return_annotation)


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, members in nats_types.AWAITED_CALLS.items() for name in members]
)
def test_awaited_calls_are_coroutines_with_this_result(owner: str, name: str) -> None:
    result = nats_types.AWAITED_CALLS[owner][name]
    assert inspect.iscoroutinefunction(getattr(CLASSES[owner], name))
    found = annotation(owner, name)
    if "_empty" not in found:
        assert ANNOTATIONS.get(result, result) in found


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, members in nats_types.CALLS.items() for name in members]
)
def test_calls_are_functions_with_this_result(owner: str, name: str) -> None:
    assert not inspect.iscoroutinefunction(getattr(CLASSES[owner], name))
    assert nats_types.CALLS[owner][name] in annotation(owner, name)


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, members in nats_types.ATTRIBUTES.items() for name in members]
)
def test_attributes_are_those_of_the_class(owner: str, name: str) -> None:
    cls = CLASSES[owner]
    assert name in assigned(cls) or isinstance(inspect.getattr_static(cls, name), property)


def typed_methods() -> Iterator[tuple[str, str]]:
    """Yields the methods whose annotation is one of the known classes."""
    for owner, cls in CLASSES.items():
        for name, value in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("_"):
                continue
            found = str(inspect.signature(value).return_annotation).split(".")[-1].strip("'\"")
            if found in nats_types.CLASSES:
                yield owner, name


def test_every_method_with_a_known_result_is_in_the_table() -> None:
    methods = set(typed_methods())
    assert len(methods) > 15
    known = {
        (owner, name)
        for table in (nats_types.CALLS, nats_types.AWAITED_CALLS)
        for owner, members in table.items()
        for name in members
    }
    assert {one for one in methods if one[0] != "ObjectInfo"} - known == set()


def test_classes_and_modules_are_those_of_nats_py() -> None:
    from tests.migrate.test_missing import resolve

    modules = nats_modules()
    assert {".".join(one.split(".")[:2]) for one in modules} == nats_types.MODULES
    text = "".join(inspect.getsource(resolve(one)) for one in modules)  # type: ignore[arg-type]
    for name in nats_types.CLASSES:
        # One class of a name, so that the last part of a dotted name is enough.
        assert len(re.findall(rf"^ *class {name}\b", text, re.MULTILINE)) == (name != "NATS"), name
    for path in nats_types.FUNCTIONS:
        assert inspect.iscoroutinefunction(resolve(path))


def test_a_bound_subscription_has_messages() -> None:
    program = """
import nats
async def a(js: nats.js.JetStreamContext):
    sub = await js.subscribe_bind("S", None, "C")
    print(await sub.next_msg())
"""
    assert [(one.line, one.rule) for one in findings(program)] == [(2, "import"), (5, "message-text")]
