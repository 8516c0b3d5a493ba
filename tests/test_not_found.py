"""Errors of names that do not exist: they have the name and the nearest existing one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
import pytest_asyncio
from jetarrow.errors import NoRespondersError, PermissionsViolationError
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import BucketNotFoundError, NotFoundError
from jetarrow.server import NatsServer

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = "stream 'FLIGTHS' does not exist; did you mean 'FLIGHTS'?"
CONSUMER = "stream 'FLIGHTS' has no consumer 'wroker'; did you mean 'worker'?"

# Requests for a missing stream or consumer, of a context and its stream's handle.
STREAMS: dict[str, Callable[[JetStreamContext], Any]] = {
    "stream_info": lambda js: js.stream_info("FLIGTHS"),
    "handle": lambda js: js.stream("FLIGTHS").info(),
    "update_stream": lambda js: js.update_stream("FLIGTHS", max_msgs=5),
    "delete_stream": lambda js: js.delete_stream("FLIGTHS"),
    "purge_stream": lambda js: js.purge_stream("FLIGTHS"),
    "get_msg": lambda js: js.get_msg("FLIGTHS", 1),
    "get_last_msg": lambda js: js.get_last_msg("FLIGTHS", "f.a"),
    "delete_msg": lambda js: js.delete_msg("FLIGTHS", 1),
    "add_consumer": lambda js: js.add_consumer("FLIGTHS", durable_name="d"),
    "consumer_info": lambda js: js.consumer_info("FLIGTHS", "worker"),
    "consumers_info": lambda js: js.consumers_info("FLIGTHS"),
    "consumer handle": lambda js: js.stream("FLIGTHS").consumer("worker").info(),
    "pull_subscribe": lambda js: js.pull_subscribe("f.>", "d", stream="FLIGTHS"),
    "subscribe": lambda js: js.subscribe("f.>", stream="FLIGTHS"),
    "subscribe_bind": lambda js: js.subscribe_bind("FLIGTHS", "worker"),
    "fetch": lambda js: js.fetch("FLIGTHS", "worker"),
    "consume": lambda js: anext(aiter(js.consume("FLIGTHS", "worker"))),
    "read": lambda js: js.read("FLIGTHS").read_all(),
    "ordered_consumer": lambda js: anext(aiter(js.ordered_consumer("FLIGTHS"))),
}
CONSUMERS: dict[str, Callable[[JetStreamContext], Any]] = {
    "consumer_info": lambda js: js.consumer_info("FLIGHTS", "wroker"),
    "delete_consumer": lambda js: js.delete_consumer("FLIGHTS", "wroker"),
    "fetch": lambda js: js.fetch("FLIGHTS", "wroker"),
    "consume": lambda js: anext(aiter(js.consume("FLIGHTS", "wroker"))),
    "handle": lambda js: js.stream("FLIGHTS").consumer("wroker").info(),
    "fetch of a handle": lambda js: js.stream("FLIGHTS").consumer("wroker").fetch(),
    "fetch_batch": lambda js: js.stream("FLIGHTS").consumer("wroker").fetch_batch(),
}
BUCKETS: dict[str, Callable[[JetStreamContext], Any]] = {
    "key_value": lambda js: js.key_value("FLIGTHS"),
    "update_key_value": lambda js: js.update_key_value(bucket="FLIGTHS"),
    "delete_key_value": lambda js: js.delete_key_value("FLIGTHS"),
    "object_store": lambda js: js.object_store("FLIGTHS"),
    "delete_object_store": lambda js: js.delete_object_store("FLIGTHS"),
}
DIRECT: dict[str, Callable[[JetStreamContext], Any]] = {
    "get_msg": lambda js: js.get_msg("FLIGTHS", 1, direct=True),
    "get_batch": lambda js: js.stream("FLIGTHS").get_batch(1),
    "get_last_msgs_for": lambda js: js.stream("FLIGTHS").get_last_msgs_for("f.a"),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there() -> AsyncIterator[JetStreamContext]:
    with NatsServer() as server:
        async with await jetarrow.connect(server.url) as nc:
            js = nc.jetstream()
            await js.add_stream(name="FLIGHTS", subjects=["f.>"])
            await js.add_consumer("FLIGHTS", durable_name="worker")
            await js.create_key_value(bucket="FLIGHTS")
            await js.create_object_store("FLIGHTS")
            yield js


@pytest.mark.parametrize("verb", STREAMS)
async def test_missing_stream_is_named_with_suggestion(there: JetStreamContext, verb: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        await STREAMS[verb](there)
    assert STREAM in str(caught.value)
    assert caught.value.err_code == 10059


@pytest.mark.parametrize("verb", CONSUMERS)
async def test_missing_consumer_is_named_with_suggestion(there: JetStreamContext, verb: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        await CONSUMERS[verb](there)
    assert CONSUMER in str(caught.value)
    assert caught.value.err_code == 10014


@pytest.mark.parametrize("verb", BUCKETS)
async def test_missing_bucket_is_named_with_suggestion(there: JetStreamContext, verb: str) -> None:
    with pytest.raises(BucketNotFoundError) as caught:
        await BUCKETS[verb](there)
    assert "bucket 'FLIGTHS' does not exist; did you mean 'FLIGHTS'?" in str(caught.value)
    assert str(caught.value).endswith("create it with create_key_value or create_object_store")


@pytest.mark.parametrize("verb", DIRECT)
async def test_direct_get_of_missing_stream_has_suggestion(there: JetStreamContext, verb: str) -> None:
    with pytest.raises(NoRespondersError) as caught:
        await DIRECT[verb](there)
    assert STREAM in str(caught.value)


async def test_direct_get_without_allow_direct_names_setting(there: JetStreamContext) -> None:
    with pytest.raises(NoRespondersError, match="set allow_direct=True for stream 'FLIGHTS'"):
        await there.get_msg("FLIGHTS", 1, direct=True)


async def test_missing_name_without_similar_one_has_no_suggestion(there: JetStreamContext) -> None:
    with pytest.raises(NotFoundError, match="stream 'xyz' does not exist "):
        await there.stream_info("xyz")
    with pytest.raises(BucketNotFoundError, match="bucket 'xyz' does not exist "):
        await there.key_value("xyz")


async def test_expected_not_found_makes_no_name_request(there: JetStreamContext) -> None:
    """Verbs that look up before they create make no request for names."""
    nc = there._api.session.client
    asked: list[str] = []

    async def note(msg: Any) -> None:
        asked.append(msg.subject)

    await nc.subscribe("$JS.API.*.NAMES.>", cb=note)
    await nc.subscribe("$JS.API.*.NAMES", cb=note)
    await nc.flush()
    await there.get_or_create_stream(name="FLIGHT", subjects=["g"])
    await there.create_or_update_stream(name="FLIGHTY", subjects=["h"])
    await (await there.pull_subscribe("g", "works", stream="FLIGHT")).destroy()
    await there.subscribe("g", durable="workes", stream="FLIGHT")
    await nc.flush()
    assert asked == []
    with pytest.raises(NotFoundError):
        await there.stream_info("FLIGTHS")
    await nc.flush()
    assert asked == ["$JS.API.STREAM.NAMES"]
    await there.delete_stream("FLIGHT")
    await there.delete_stream("FLIGHTY")


async def test_sync_errors_have_suggestion(there: JetStreamContext) -> None:
    with jetarrow.sync.connect(there._api.session.client.connected_url.geturl()) as nc:
        js = nc.jetstream()
        for call in (js.stream_info, js.purge_stream, lambda name: js.fetch(name, "worker")):
            with pytest.raises(NotFoundError) as caught:
                call("FLIGTHS")
            assert STREAM in str(caught.value)
        with pytest.raises(BucketNotFoundError, match="did you mean 'FLIGHTS'"):
            js.key_value("FLIGTHS")


async def test_user_without_list_permission_gets_plain_error() -> None:
    config = (
        'authorization: {users: [{user: a, password: b, permissions: {publish: {deny: ["$JS.API.STREAM.NAMES"]}}}]}\n'
    )
    with NatsServer(config=config) as server:
        told: list[Exception] = []

        async def tell(error: Exception) -> None:
            told.append(error)

        async with await jetarrow.connect(server.url, user="a", password="b", error_cb=tell) as nc:
            with pytest.raises(NotFoundError, match="stream 'X' does not exist ") as caught:
                await nc.jetstream().stream_info("X")
            assert caught.value.err_code == 10059
        assert all(isinstance(error, PermissionsViolationError) for error in told)
