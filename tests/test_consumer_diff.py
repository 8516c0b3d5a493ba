"""pull_subscribe on an existing durable: it has the requested configuration, or an error is raised."""

from __future__ import annotations

from typing import Any

import pytest
from jetarrow import errors
from jetarrow.js.api import AckPolicy, ConsumerConfig
from jetarrow.js.client import JetStreamContext

from .tools import fill_subjects


@pytest.fixture
async def durable(js: JetStreamContext, stream: str) -> str:
    await js.add_consumer(stream, durable_name="d", filter_subject=f"{stream}.a", max_ack_pending=7, ack_wait=60)
    return stream


async def test_pull_subscribe_with_same_config_binds(js: JetStreamContext, durable: str) -> None:
    for options in ({}, {"max_ack_pending": 7}, {"ack_wait": 60, "ack_policy": "explicit", "flow_control": False}):
        given: Any = options
        await js.pull_subscribe(f"{durable}.a", durable="d", **given)
    await js.pull_subscribe("", durable="d", stream=durable)
    await js.pull_subscribe(f"{durable}.a", "d", config=ConsumerConfig(ack_wait=60))
    await js.pull_subscribe(f"{durable}.a", "d", config=(await js.consumer_info(durable, "d")).config)
    assert (await js.consumer_info(durable, "d")).config.max_ack_pending == 7


async def test_pull_subscribe_with_other_subject_raises_error(js: JetStreamContext, durable: str) -> None:
    with pytest.raises(errors.Error, match=r"the subject does not match; filter_subjects is '.*\.a', not '.*\.b'"):
        await js.pull_subscribe(f"{durable}.b", durable="d")


async def test_unfiltered_consumer_binds_any_subject(js: JetStreamContext, stream: str) -> None:
    await js.add_consumer(stream, durable_name="d")
    await js.pull_subscribe(f"{stream}.>", durable="d")
    await js.pull_subscribe(f"{stream}.a", durable="d")
    with pytest.raises(errors.Error, match="filter_subjects is not set, not"):
        await js.pull_subscribe(f"{stream}.a", durable="d", filter_subjects=[f"{stream}.a", f"{stream}.b"])


async def test_error_lists_all_differences(js: JetStreamContext, durable: str) -> None:
    with pytest.raises(errors.Error) as caught:
        await js.pull_subscribe(
            f"{durable}.a", durable="d", max_ack_pending=9, ack_policy=AckPolicy.ALL, ack_wait=30, max_deliver=3
        )
    text = str(caught.value)
    for part in (
        "max_ack_pending is 7, not 9",
        "ack_policy is 'explicit', not 'all'",
        "ack_wait is 60",
        "max_deliver is",
        "pass update=True to change it",
        f"consumer 'd' of stream {durable!r}",
    ):
        assert part in text


async def test_update_changes_existing_consumer(js: JetStreamContext, durable: str) -> None:
    await fill_subjects(js, durable, ["a", "b", "c"])
    sub = await js.pull_subscribe(f"{durable}.b", durable="d", max_ack_pending=9, update=True)
    config = (await sub.consumer_info()).config
    assert (config.filter_subject, config.max_ack_pending, config.ack_wait) == (f"{durable}.b", 9, 60)
    assert [msg.data for msg in await sub.fetch(5, timeout=10)] == [b"2"]
    both = [f"{durable}.a", f"{durable}.c"]
    await js.pull_subscribe("", durable="d", stream=durable, filter_subjects=both, update=True)
    config = (await js.consumer_info(durable, "d")).config
    assert (config.filter_subject, config.filter_subjects) == (None, both)


async def test_unknown_options_raise_type_error(js: JetStreamContext, durable: str) -> None:
    unknown: Any = {"max_ack_pendng": 5}
    for name in ("d", "new"):
        with pytest.raises(TypeError, match="max_ack_pendng"):
            await js.pull_subscribe(f"{durable}.a", durable=name, **unknown)
