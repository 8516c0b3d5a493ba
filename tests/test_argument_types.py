"""An argument of a wrong type raises a TypeError that names it, before anything is sent."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import jetarrow
import pytest
import pytest_asyncio
from jetarrow.server import NatsServer

from .tools import PATIENCE

Verb = Callable[..., Any]

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Verbs of the table below, with their numeric arguments.
NUMBERS = {
    "fetch": "batch batch_size max_messages timeout heartbeat max_bytes",
    "fetch_batch": "max_messages max_bytes timeout min_messages heartbeat",
    "consume": "max_messages max_bytes threshold",
    "pull": "batch expires max_bytes idle_heartbeat max_wait",
    "js.fetch": "batch timeout heartbeat max_bytes",
    "js.consume": "max_messages max_bytes",
    "consumer.fetch": "batch timeout heartbeat max_bytes",
    "consumer.consume": "max_messages max_bytes",
    "subscribe": "max_msgs pending_msgs_limit pending_bytes_limit",
    "unsubscribe": "limit",
    "next_msg": "timeout",
    "request": "timeout",
    "request_many": "timeout max_messages stall",
    "flush": "timeout",
    "js.publish": "timeout expected_last_seq expected_last_subject_seq",
    "publish_batch": "timeout max_inflight max_bytes",
    "pull_subscribe": "pending_msgs_limit pending_bytes_limit",
    "pull_subscribe_bind": "pending_msgs_limit pending_bytes_limit",
    "js.subscribe": "pending_msgs_limit pending_bytes_limit idle_heartbeat inactive_threshold",
    "read": "start_seq end_seq limit batch_rows batch_bytes fetch_bytes",
    "jetstream": "timeout ack_timeout publish_async_max_pending max_ack_inflight",
    "get_batch": "batch max_bytes",
    "create_key_value": "history",
    "kv.get": "revision",
    "kv.update": "last",
    "kv.delete": "last",
    "kv.purge": "last",
    "kv.purge_deletes": "olderthan",
    "kv.watch": "resume_from_revision inactive_threshold",
    "keys.updates": "timeout",
    "objects.updates": "timeout",
}
# Verbs with arguments of other types.
OTHERS = {
    "js.subscribe": "cb",
    "js.publish": "msg_ttl msg_id",
    "publish_batch": "subject payloads headers msg_ids progress",
    "read": "subjects columns progress",
    "kv.get": "key",
    "kv.put": "key",
    "kv.create": "key msg_ttl",
    "kv.keys": "filters",
    "kv.history": "key",
    "kv.watch": "keys",
    "kv.put_batch": "keys",
    "key_value": "bucket",
    "object_store": "bucket",
    "store.get": "name writeinto",
    "store.put": "name meta progress",
    "store.get_info": "name",
    "store.delete": "name",
    "store.update_meta": "name meta",
    "purge_stream": "seq keep",
    "add_stream": "max_msgs subjects",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def verbs() -> AsyncIterator[dict[str, Verb]]:
    """Verbs that need only the tested argument."""
    with NatsServer() as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="S", subjects=["s.>"])
            await js.publish("s.a", b"x")
            kv, store = await js.create_key_value(bucket="K"), await js.create_object_store("O")
            await store.put("o", b"")
            sub, core = await js.pull_subscribe("s.>", "d"), await nc.subscribe("c")
            consumer = js.stream("S").consumer("d")
            keys, objects = await kv.watchall(), await store.watch()
            yield {
                "fetch": sub.fetch,
                "fetch_batch": sub.fetch_batch,
                "consume": lambda **given: anext(aiter(sub.consume(**given))),
                "pull": sub.pull,
                "js.fetch": lambda **given: js.fetch("S", "d", **given),
                "js.consume": lambda **given: anext(aiter(js.consume("S", "d", **given))),
                "consumer.fetch": consumer.fetch,
                "consumer.consume": lambda **given: anext(aiter(consumer.consume(**given))),
                "subscribe": lambda **given: nc.subscribe("c", **given),
                "unsubscribe": core.unsubscribe,
                "next_msg": core.next_msg,
                "request": lambda **given: nc.request("c", **given),
                "request_many": lambda **given: anext(nc.request_many("c", **given)),
                "flush": nc.flush,
                "js.publish": lambda **given: js.publish("s.a", **given),
                "publish_batch": lambda **given: js.publish_batch(**{"subject": "s.a", "payloads": [b""], **given}),
                "pull_subscribe": lambda **given: js.pull_subscribe("s.>", **given),
                "pull_subscribe_bind": lambda **given: js.pull_subscribe_bind("d", stream="S", **given),
                "js.subscribe": lambda **given: js.subscribe("s.>", **given),
                "read": lambda **given: js.read("S", **given).read_all(),
                "jetstream": nc.jetstream,
                "get_batch": lambda **given: js.stream("S").get_batch(**{"batch": 1, **given}),
                "key_value": js.key_value,
                "create_key_value": lambda **given: js.create_key_value(bucket="N", **given),
                "object_store": js.object_store,
                "kv.get": lambda **given: kv.get(**{"key": "a", **given}),
                "kv.put": lambda **given: kv.put(**{"value": b"", **given}),
                "kv.create": lambda **given: kv.create(**{"key": "a", "value": b"", **given}),
                "kv.update": lambda **given: kv.update(**{"key": "a", "value": b"", **given}),
                "kv.delete": lambda **given: kv.delete(**{"key": "a", **given}),
                "kv.purge": lambda **given: kv.purge(**{"key": "a", **given}),
                "kv.purge_deletes": kv.purge_deletes,
                "kv.keys": kv.keys,
                "kv.history": kv.history,
                "kv.watch": lambda **given: kv.watch(**{"keys": "a", **given}),
                "kv.put_batch": lambda **given: kv.put_batch(**{"values": [b""], **given}),
                "keys.updates": keys.updates,
                "objects.updates": objects.updates,
                "store.get": lambda **given: store.get(**{"name": "o", **given}),
                "store.put": lambda **given: store.put(**{"name": "o", "data": b"1", **given}),
                "store.get_info": store.get_info,
                "store.delete": store.delete,
                "store.update_meta": lambda **given: store.update_meta(
                    **{"name": "o", "meta": jetarrow.js.api.ObjectMeta(), **given}
                ),
                "purge_stream": lambda **given: js.purge_stream("S", **given),
                "add_stream": lambda **given: js.add_stream(**{"name": "X", **given}),
            }


async def refusal(call: Verb, name: str, value: object) -> str:
    """Returns the text of the TypeError with its notes, which name native arguments."""
    with pytest.raises(TypeError) as caught:
        result: Awaitable[object] | object = call(**{name: value})
        if inspect.isawaitable(result):
            await asyncio.wait_for(result, PATIENCE)
    return " ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


@pytest.mark.parametrize("verb", NUMBERS)
async def test_text_for_a_number_raises_type_error(verbs: dict[str, Verb], verb: str) -> None:
    for name in NUMBERS[verb].split():
        assert name in await refusal(verbs[verb], name, "x"), name


@pytest.mark.parametrize("verb", OTHERS)
async def test_object_of_a_wrong_type_raises_type_error(verbs: dict[str, Verb], verb: str) -> None:
    for name in OTHERS[verb].split():
        assert name in await refusal(verbs[verb], name, object()), name
