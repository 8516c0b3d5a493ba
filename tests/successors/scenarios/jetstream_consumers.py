"""Consumers: creation, update, pause, reset, lists."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from ..case import Case


async def _stream(case: Case, js: Any, count: int = 4, **options: Any) -> Any:
    stream = await js.create_stream(name=case.name, subjects=[f"{case.name}.>"], storage="memory", **options)
    for number in range(count):
        await js.publish(f"{case.name}.{number % 2}", b"%d" % number)
    return stream


async def _create(case: Case, key: str, made: Any) -> None:
    """Note the state of the consumer that a coroutine returns, or its error."""

    async def create() -> Any:
        consumer = await made
        case.note(f"{key}: names", (consumer.name, consumer.stream_name, type(consumer).__name__))
        return consumer.info

    await case.call(key, create())


async def create_returns_the_consumer(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js)
    config = case.module("jetstream.consumer").ConsumerConfig
    await _create(case, "name", stream.create_consumer(name="a"))
    await _create(case, "same again", stream.create_consumer(name="a"))
    await _create(case, "other options", stream.create_consumer(name="a", description="x"))
    await _create(case, "object", stream.create_consumer(config(name="b", ack_policy="explicit", durable_name="b")))
    await _create(case, "durable", stream.create_consumer(name="c", durable_name="c", filter_subject=f"{case.name}.1"))
    await _create(case, "of the context", js.create_consumer(case.name, "d", durable_name="d", ack_policy="all"))
    await _create(case, "of the context without durable", js.create_consumer(case.name, "e", max_deliver=3))
    await case.call("no name", stream.create_consumer(ack_policy="explicit"))
    await case.call("no name in an object", stream.create_consumer(config(durable_name="x")))
    await case.call("unknown option", stream.create_consumer(name="x", nope=1))
    await case.call("invalid option", stream.create_consumer(name="x", deliver_policy="by_start_sequence"))
    await case.call("invalid value", stream.create_consumer(name="x", ack_policy="nope"))
    await case.call("invalid name", stream.create_consumer(name="a.b"))
    await case.call("no such stream", js.create_consumer(f"{case.name}X", "a"))
    await case.call("limits", stream.get_consumer_info("e"))


async def create_accepts_all_options(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js)
    options: dict[str, Any] = {
        **{"ack_policy": "explicit", "ack_wait": timedelta(seconds=5), "backoff": [10**9, 2 * 10**9], "max_deliver": 5},
        **{"deliver_policy": "by_start_sequence", "opt_start_seq": 2, "replay_policy": "original"},
        **{"description": "text", "filter_subjects": [f"{case.name}.0", f"{case.name}.1"], "headers_only": True},
        **{"inactive_threshold": timedelta(minutes=5), "max_ack_pending": 7, "max_batch": 8, "max_bytes": 9_000},
        **{"max_expires": timedelta(seconds=20), "max_waiting": 3, "mem_storage": True, "metadata": {"a": "b"}},
        **{"num_replicas": 1, "sample_freq": "50%", "priority_groups": ["g"], "priority_policy": "pinned_client"},
        **{"priority_timeout": 10**9},
    }
    await _create(case, "options", stream.create_consumer(name="a", **options))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    await _create(case, "time", stream.create_consumer(name="b", deliver_policy="by_start_time", opt_start_time=start))
    later = datetime.now(UTC) + timedelta(hours=1)
    paused = await stream.create_consumer(name="c", pause_until=later)
    left = paused.info.pause_remaining
    case.note("paused", (paused.info.paused, timedelta(minutes=59) < left <= timedelta(hours=1)))
    case.note("until", paused.info.config.pause_until == later)


async def push_consumers_are_not_supported(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js)
    await case.call("create", stream.create_consumer(name="a", deliver_subject=f"{case.name}d"))
    await case.call("info", stream.get_consumer_info("a"))
    await case.call("get", stream.get_consumer("a"))
    await case.call("update", stream.update_consumer(name="a", deliver_subject=f"{case.name}d", description="x"))


async def update_replaces_the_configuration(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js)
    config = case.module("jetstream.consumer").ConsumerConfig
    await stream.create_consumer(name="a", ack_policy="explicit", description="first", max_deliver=3)
    await _create(case, "keywords", stream.update_consumer(name="a", ack_policy="explicit", description="second"))
    await _create(case, "object", stream.update_consumer(config(name="a", ack_policy="explicit", max_deliver=9)))
    await _create(case, "of the context", js.update_consumer(case.name, "a", ack_policy="explicit", max_ack_pending=5))
    await case.call("other ack policy", stream.update_consumer(name="a"))
    await case.call("no name", stream.update_consumer(description="x"))
    await case.call("no such consumer", stream.update_consumer(name="x"))
    await case.call("no such stream", js.update_consumer(f"{case.name}X", "a"))
    await _create(case, "create or update", stream.create_or_update_consumer(name="b", description="first"))
    await _create(case, "updated", stream.create_or_update_consumer(config(name="b", description="second")))
    await _create(case, "of the context again", js.create_or_update_consumer(case.name, name="b", description="third"))
    await case.call("create or update without name", stream.create_or_update_consumer(description="x"))
    await case.call("without name in the context", js.create_or_update_consumer(case.name))


async def get_and_delete(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js)
    await stream.create_consumer(name="a")
    await _create(case, "get", stream.get_consumer("a"))
    await _create(case, "get of the context", js.get_consumer(case.name, "a"))
    await case.call("info", stream.get_consumer_info("a"))
    await case.call("info of the context", js.get_consumer_info(case.name, "a"))
    await case.call("delete", stream.delete_consumer("a"))
    await case.call("delete again", stream.delete_consumer("a"))
    await case.call("delete of the context", js.delete_consumer(case.name, "a"))
    await case.call("get deleted", stream.get_consumer("a"))
    await case.call("info of deleted", js.get_consumer_info(case.name, "a"))
    missing = f"{case.name}X"
    await case.call("get of no stream", js.get_consumer(missing, "a"))
    await case.call("delete of no stream", js.delete_consumer(missing, "a"))
    await case.call("info of no stream", js.get_consumer_info(missing, "a"))


async def lists_of_consumers(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js)
    case.note("no names", [name async for name in js.consumer_names(case.name)])
    for name in "cab":
        await stream.create_consumer(name=name)
    case.note("names", sorted([name async for name in js.consumer_names(case.name)]))
    found = [info async for info in js.list_consumers(case.name)]
    case.note("consumers", sorted(found, key=lambda info: info.name))
    await case.call("names of no stream", anext(js.consumer_names(f"{case.name}X")))
    await case.call("consumers of no stream", anext(js.list_consumers(f"{case.name}X")))


async def limit_of_consumers(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js, max_consumers=1)
    await stream.create_consumer(name="a")
    await case.call("second", stream.create_consumer(name="b"))
    await case.call("second in the context", js.create_consumer(case.name, "b"))


async def pause_and_resume(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js)
    await stream.create_consumer(name="a")
    until = int(time.time()) + 3600.25
    await case.call("pause", stream.pause_consumer("a", until))
    info = await stream.get_consumer_info("a")
    case.note("paused", info.paused)
    case.note("until", info.config.pause_until.timestamp() == until)
    await case.call("resume", stream.resume_consumer("a"))
    case.note("resumed", (await stream.get_consumer_info("a")).paused)
    await case.call("pause no such consumer", stream.pause_consumer("x", until))
    await case.call("resume no such consumer", stream.resume_consumer("x"))
    await case.call("pause in the past", stream.pause_consumer("a", 1.0))
    case.note("not paused", (await stream.get_consumer_info("a")).paused)


async def reset_of_the_position(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js)
    consumer = await stream.create_consumer(name="a", ack_policy="explicit")
    for _ in range(3):
        await (await consumer.next(max_wait=5)).double_ack(timeout=20)
    await case.call("sequence", stream.reset_consumer("a", 2))
    await case.call("no sequence", stream.reset_consumer("a"))
    await case.call("zero", stream.reset_consumer("a", 0))
    await case.call("of the consumer", consumer.reset(3))
    case.note("cached", consumer.info)
    await stream.create_consumer(name="b", deliver_policy="by_start_sequence", opt_start_seq=3)
    await case.call("before the start", stream.reset_consumer("b", 1))
    await case.call("no such consumer", stream.reset_consumer("x"))


async def strict_mode(case: Case) -> None:
    js = case.jetstream.new(await case.connect(), strict=True)
    stream = await _stream(case, js)
    await _create(case, "create", stream.create_consumer(name="a", ack_policy="explicit"))
    await case.call("info", stream.get_consumer_info("a"))
    await case.call("list", anext(js.list_consumers(case.name)))


async def ordered_consumers(case: Case) -> None:
    js = await case.context()
    stream = await _stream(case, js)
    config = case.module("jetstream.consumer").OrderedConsumerConfig
    for key, made in {
        "keywords": stream.ordered_consumer(name_prefix="p", filter_subjects=[f"{case.name}.1"]),
        "object": stream.ordered_consumer(config(name_prefix="q", deliver_policy="last")),
        "of the context": js.ordered_consumer(case.name, name_prefix="r", opt_start_seq=2),
        "object of the context": js.ordered_consumer(case.name, config(name_prefix="s", metadata={"a": "b"})),
    }.items():
        await _create(case, key, made)
    await case.call("unknown option", stream.ordered_consumer(nope=1))
    await case.call("no such stream", js.ordered_consumer(f"{case.name}X"))
