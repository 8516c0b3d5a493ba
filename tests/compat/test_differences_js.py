"""Intended differences from nats-py in JetStream. MIGRATION.md names each test, with the reason."""

from __future__ import annotations

import asyncio
import datetime
import time
from typing import Any

import pytest

from ..tools import until
from .face import Collector, Face, asked, make_stream, spread, subject


@pytest.fixture
async def nc(ours: Face) -> Any:
    return await ours.connect()


async def test_a_rejected_publish_async_resolves(ours: Face, js: Any) -> None:
    # nats-py: the future stays pending for ever.
    full = await make_stream(js, max_msgs=1, discard="new")
    await js.publish(f"{full}.a", b"x")
    wrong = {"headers": {"Nats-Expected-Last-Sequence": "9"}}
    futures = [await js.publish_async(f"{full}.a", b"x"), await js.publish_async(f"{full}.a", b"x", **wrong)]
    kinds = [await ours.failure(future) for future in futures]
    assert kinds == ["js.errors.ServiceUnavailableError", "js.errors.BadRequestError"]
    await asyncio.wait_for(js.publish_async_completed(), 10)


async def test_a_publish_async_without_an_answer_resolves(ours: Face, nc: Any) -> None:
    # nats-py: the future stays pending for ever.
    await nc.subscribe(where := subject())
    future = await nc.jetstream(ack_timeout=0.2).publish_async(where, b"x")
    assert await ours.failure(future) == "errors.TimeoutError"


async def test_headers_are_never_written_to(js: Any) -> None:
    # nats-py: the next message published with this dict expects this stream, too.
    stream = await make_stream(js, allow_msg_ttl=True)
    headers = {"Name": "value"}
    await js.publish(f"{stream}.a", b"x", stream=stream, msg_ttl=60, headers=headers)
    await (await js.publish_async(f"{stream}.a", b"x", stream=stream, headers=headers))
    assert headers == {"Name": "value"}


async def test_configurations_are_never_written_to(ours: Face, js: Any, stream: str) -> None:
    # nats-py: the second subscription would take over the deliver subject of the first.
    config = ours.api.ConsumerConfig(description="mine")
    before = config.as_dict()
    subs = [await js.subscribe(f"{stream}.>", config=config) for _ in range(2)]
    await js.pull_subscribe(f"{stream}.>", durable="work", config=config)
    assert config.as_dict() == before
    await spread(js, stream, 1)
    assert [(await sub.next_msg(timeout=10)).data for sub in subs] == [b"0", b"0"]


async def test_a_large_fetch_is_split(ours: Face, js: Any) -> None:
    # nats-py: the server disconnects a client if the pending data exceeds its limit.
    stream = await make_stream(js)
    await js.publish_batch(f"{stream}.a", [b"x" * 50_000] * 1500)
    sub = await js.pull_subscribe(f"{stream}.>", "work", config=ours.api.ConsumerConfig(ack_policy="none"))
    assert len(await sub.fetch(1500, timeout=20)) == 1500
    await js.delete_stream(stream)


async def test_fetch_times_out_in_one_class(ours: Face, js: Any, stream: str) -> None:
    # nats-py: FetchTimeoutError only if heartbeats arrived, else its base class TimeoutError.
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    kinds = {await ours.failure(sub.fetch(batch, timeout=0.05)) for batch in (1, 5)}
    assert kinds == {"js.errors.FetchTimeoutError"}


async def test_a_fetch_ends_when_the_consumer_goes(ours: Face, js: Any, stream: str) -> None:
    # nats-py: waits until the timeout.
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    waiting = asyncio.create_task(ours.raised(sub.fetch(1, timeout=60)))
    await asked(sub, 1)
    begin = time.monotonic()
    await js.delete_consumer(stream, "work")
    assert isinstance(await waiting, ours.js_errors.APIError)
    assert time.monotonic() - begin < 20


async def test_header_values_of_stored_messages_are_text(js: Any, stream: str) -> None:
    # nats-py: an email.header.Header object if the value is not ASCII.
    await js.publish(f"{stream}.a", b"", headers={"a": "\u20ac"})
    assert (await js.get_msg(stream, 1)).headers == {"a": "\u20ac"}


async def test_a_plain_function_is_a_callback_of_a_stream(js: Any, stream: str) -> None:
    # nats-py: must be a coroutine function.
    got = Collector()
    sub = await js.subscribe(f"{stream}.>", cb=got.add)
    await spread(js, stream, 2)
    await got.wait(2)
    assert got.data == [b"0", b"1"]

    async def all_acknowledged() -> bool:
        return (await sub.consumer_info()).num_ack_pending == 0

    await until(all_acknowledged)


async def test_a_time_without_a_zone_is_local(ours: Face) -> None:
    # nats-py: interprets it as UTC, although datetime.now() is local.
    moment = datetime.datetime(2025, 1, 2, 3, 4, 5)
    config = ours.api.ConsumerConfig(opt_start_time=moment)
    utc = moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert config.as_dict()["opt_start_time"] == utc


async def test_durations_that_are_plainly_nanoseconds(ours: Face) -> None:
    # nats-py: 285 years.
    with pytest.warns(UserWarning, match="nanoseconds"):
        config = ours.api.StreamConfig(name="S", max_age=9 * 10**9)
    assert config.as_dict()["max_age"] == 9 * 10**9


async def test_words_that_the_server_does_not_know(ours: Face) -> None:
    # nats-py: sends them.
    for fields in ({"ack_policy": "never"}, {"deliver_policy": "some"}, {"replay_policy": "fast"}):
        with pytest.raises(ValueError, match=r"instant|all|none"):
            ours.api.ConsumerConfig(**fields)


async def test_fields_of_a_newer_server_survive(ours: Face) -> None:
    # nats-py: an update sends the configuration without them, which resets them.
    config = ours.api.StreamConfig.from_response({"name": "S", "new_in_3_0": {"a": [1]}})
    assert config.as_dict()["new_in_3_0"] == {"a": [1]}


async def test_both_orders_of_pull_subscribe_bind(js: Any, stream: str) -> None:
    # nats-py: consumer first.
    await spread(js, stream, 2)
    await js.add_consumer(stream, durable_name="work", ack_policy="explicit")
    subs = [await js.pull_subscribe_bind("work", stream), await js.pull_subscribe_bind(stream, "work")]
    assert [(await sub.fetch())[0].data for sub in subs] == [b"0", b"1"]


async def test_a_queue_on_a_durable_of_another_name(js: Any, stream: str) -> None:
    # nats-py: an error.
    subs = [await js.subscribe(f"{stream}.>", queue="workers", durable="task-worker") for _ in range(2)]
    await spread(js, stream, 40)

    async def all_came() -> bool:
        return sum(sub.delivered for sub in subs) == 40

    await until(all_came)
    info = await js.consumer_info(stream, "task-worker")
    assert (info.config.deliver_group, info.num_pending) == ("workers", 0)


async def test_a_filter_given_by_name_holds(ours: Face, js: Any, stream: str) -> None:
    # nats-py: overwritten by the subject.
    config = ours.api.ConsumerConfig(filter_subject=f"{stream}.narrow")
    for sub in (
        await js.subscribe(f"{stream}.>", config=config),
        await js.pull_subscribe(f"{stream}.>", config=config),
    ):
        assert (await sub.consumer_info()).config.filter_subject == f"{stream}.narrow"


async def test_a_durable_with_another_subject(js: Any, stream: str) -> None:
    # nats-py: delivers the messages of the durable.
    await js.subscribe(f"{stream}.one", durable="d", queue="q")
    with pytest.raises(Exception, match="subject does not match consumer"):
        await js.subscribe(f"{stream}.other", durable="d", queue="q")


async def test_a_purge_says_how_many(js: Any, stream: str) -> None:
    # nats-py: True.
    await spread(js, stream, 3)
    response = await js.purge_stream(stream, keep=1)
    assert (response == True, bool(response), response.purged) == (True, True, 2)  # noqa: E712
    assert repr(response) == "PurgeResponse(success=True, purged=2)"


async def test_no_duplicate_is_false(js: Any, stream: str) -> None:
    # nats-py: None.
    acks = [await js.publish(f"{stream}.a", b"", headers={"Nats-Msg-Id": "1"}) for _ in range(2)]
    assert [ack.duplicate for ack in acks] == [False, True]


async def test_the_account_counts_messages(js: Any, stream: str) -> None:
    # nats-py: it does not.
    before = await js.account_info()
    await spread(js, stream, 3)
    # Tests on the server of this worker run one after the other.
    assert (await js.account_info()).messages == before.messages + 3
    assert (await js.account_info(totals=False)).messages is None


async def test_the_configuration_of_an_unnamed_consumer_has_its_name(js: Any) -> None:
    # nats-py: None.
    stream = await make_stream(js)
    info = await js.add_consumer(stream, ack_policy="explicit")
    assert (info.config.name, info.config.durable_name) == (info.name, None)
