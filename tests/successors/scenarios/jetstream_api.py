"""The client of the JetStream API as JSON."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from ..case import Case


async def verbs(case: Case) -> None:
    server = case.server(jetstream=True)
    client = await case.connect(server.url)
    api = case.module("jetstream.api").Client(client)
    name, config = case.name, case.jetstream.StreamConfig(name=case.name, storage="memory").to_request()
    consumer = {"stream_name": name, "config": {"name": "c"}, "action": "create"}
    for key, call in {
        "stream_create": lambda: api.stream_create(name, **config),
        "stream_info": lambda: api.stream_info(name),
        "stream_update": lambda: api.stream_update(name, **config, description="x"),
        "stream_list": lambda: api.stream_list(),
        "stream_names": lambda: api.stream_names(offset=0, subject=None),
        "consumer_create": lambda: api.consumer_create(name, "c", **consumer),
        "consumer_info": lambda: api.consumer_info(name, "c"),
        "consumer_list": lambda: api.consumer_list(name, offset=0),
        "consumer_names": lambda: api.consumer_names(name, offset=0),
        "consumer_pause": lambda: api.consumer_pause(name, "c"),
        "consumer_reset": lambda: api.consumer_reset(name, "c"),
        "consumer_delete": lambda: api.consumer_delete(name, "c"),
        "stream_msg_get": lambda: api.stream_msg_get(name, seq=1),
        "stream_msg_delete": lambda: api.stream_msg_delete(name, seq=1),
        "stream_purge": lambda: api.stream_purge(name, keep=1),
        "account_info": lambda: api.account_info(),
        "stream_delete": lambda: api.stream_delete(name),
        "stream_info of none": lambda: api.stream_info(name),
        "consumer_list of none": lambda: api.consumer_list(name, offset=0),
        "consumer_delete of none": lambda: api.consumer_delete(name, "c"),
    }.items():
        await case.call(key, call())


async def requests_of_json(case: Case) -> None:
    api = case.module("jetstream.api")
    types = case.module("jetstream.api.types")
    client = await case.connect()
    plain = api.Client(client)
    subject, kind = f"$JS.API.STREAM.INFO.{case.name}", types.StreamInfoResponse
    await case.call("raises", plain.request_json(subject, response_type=kind))
    await case.call("returns", plain.request_json(subject, {}, response_type=kind, raise_on_error=False))
    await case.call("no responders", plain.request_json("$JS.API.X", response_type=kind, timeout=1))
    await case.call("no JSON", plain.request_json("$JS.API.X", object(), response_type=kind))
    named = {"name": case.name}
    await case.call(
        "invalid request", plain.request_json(f"$JS.API.STREAM.CREATE.{case.name}X", named, response_type=kind)
    )
    for missing, unknown in ((False, False), (True, False), (False, True)):
        checked = api.Client(client, "$JS.API", True, missing, unknown)
        await case.call(
            f"checked {missing} {unknown}", checked.request_json("$JS.API.STREAM.NAMES", response_type=types.PublishAck)
        )
        await case.call(f"names {missing} {unknown}", checked.consumer_delete(case.name, "c"))


async def responses_are_checked(case: Case) -> None:
    client = case.module("jetstream.api.client")
    types = case.module("jetstream.api.types")
    for key, data in {
        "complete": {"limit": 1, "offset": 2, "total": 3},
        "missing": {"limit": 1},
        "unknown": {"limit": 1, "offset": 2, "total": 3, "more": 4},
        "no object": [1],
    }.items():
        case.note(key, client.check_response(data, types.IterableResponse))
        case.note(f"{key} is an error", client.is_error_response(data))
    case.note("optional keys", client.check_response({"pause_until": "x"}, types.ConsumerPauseResponse))
    case.note("error", client.is_error_response({"error": {"code": 404}}))


async def requests_on_the_wire(case: Case) -> None:
    """The subjects and payloads of the verbs' requests, as another connection sees them; null is as if left out."""
    server = case.server(jetstream=True)
    js, observer = case.jetstream.new(await case.connect(server.url)), await case.connect(server.url)
    requests = await observer.subscribe("$JS.API.>")
    await observer.flush()
    stream = await js.create_stream(name=case.name, subjects=["a", "b"], storage="memory", max_age=timedelta(hours=1))
    await js.publish("a", b"x")
    consumer = {"ack_policy": "explicit", "max_expires": timedelta(seconds=5)}
    await stream.create_consumer(name="c", durable_name="c", **consumer)
    await stream.update_consumer(name="c", durable_name="c", **consumer, description="x")
    await js.create_or_update_consumer(case.name, name="d", filter_subjects=["a"])
    await js.create_consumer(case.name, "e", inactive_threshold=timedelta(minutes=1))
    await stream.get_info()
    await stream.get_info(deleted_details=False, subjects_filter=">", offset=1)
    await js.get_stream_info(case.name)
    await stream.purge(filter="b", keep=1)
    await stream.get_message(1)
    await stream.get_last_message_for_subject("a")
    await stream.delete_message(1)
    await js.publish("a", b"y")
    await stream.secure_delete_message(2)
    await js.get_consumer(case.name, "c")
    await stream.pause_consumer("c", 4_000_000_000.5)
    await stream.resume_consumer("c")
    await stream.reset_consumer("c", 0)
    await stream.reset_consumer("c")
    await stream.delete_consumer("c")
    found = [[item async for item in items] for items in (js.stream_names("a"), js.list_streams(), js.stream_names())]
    found += [[item async for item in items] for items in (js.consumer_names(case.name), js.list_consumers(case.name))]
    await js.update_stream(name=case.name, storage="memory", subjects=["a"], max_age=10**9)
    await js.account_info()
    direct = await js.create_stream(name=f"{case.name}D", storage="memory", subjects=["d"], allow_direct=True)
    await js.publish("d", b"x")
    await direct.get_message(1)
    await direct.get_last_message_for_subject("d")
    await js.delete_stream(case.name)
    await observer.flush()
    count = requests.pending[0]
    case.note("lengths", [len(items) for items in found])
    for number in range(count):
        message = await requests.next(timeout=5)
        payload = json.loads(message.data) if message.data else {}
        case.note(f"request {number}", (message.subject, _without_null(payload)))


def _without_null(value: Any) -> Any:
    return (
        {key: _without_null(item) for key, item in value.items() if item is not None}
        if isinstance(value, dict)
        else value
    )
