"""Errors of a real server: each names stream, key or consumer, and what to do."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import jetarrow.js.errors as errors
import jetarrow.sync
import pytest
from jetarrow.aio.client import Client
from jetarrow.errors import NoRespondersError
from jetarrow.jetstream.manage.consumers import put_consumer
from jetarrow.js.api import ConsumerConfig
from jetarrow.js.client import JetStreamContext

FULL: dict[str, tuple[dict[str, Any], str]] = {
    "messages": ({"max_msgs": 1}, "max_msgs (update_stream)"),
    "bytes": ({"max_bytes": 60}, "max_bytes (update_stream)"),
    "messages per subject": (
        {"max_msgs_per_subject": 1, "discard_new_per_subject": True},
        "max_msgs_per_subject (update_stream)",
    ),
}
_numbers = itertools.count()


async def new_stream(js: JetStreamContext, **config: Any) -> str:
    name = f"ERRORS{next(_numbers)}"
    await js.add_stream(name=name, subjects=[f"{name}.>"], **config)
    return name


async def error_of(call: Awaitable[Any]) -> errors.APIError:
    with pytest.raises(errors.APIError) as caught:
        await call
    return caught.value


@pytest.mark.parametrize("limit", FULL)
@pytest.mark.parametrize("verb", ["publish", "publish_async", "publish_batch", "sync publish"])
async def test_full_stream_is_named_with_its_limit(nats_url: str, js: JetStreamContext, limit: str, verb: str) -> None:
    config, remedy = FULL[limit]
    name = await new_stream(js, discard="new", **config)
    subject = f"{name}.a"
    await js.publish(subject, b"")
    if verb == "publish_batch":
        (failed,) = (await js.publish_batch(subject, [b"x" * 99])).errors
        error: Any = failed.error
    elif verb == "sync publish":
        with jetarrow.sync.connect(nats_url) as nc, pytest.raises(errors.StreamFullError) as caught:
            nc.jetstream().publish(subject, b"x" * 99)
        error = caught.value
    else:
        call = js.publish(subject, b"x" * 99) if verb == "publish" else await js.publish_async(subject, b"x" * 99)
        error = await error_of(call)
    assert type(error) is errors.StreamFullError
    assert (error.code, error.err_code, error.stream) == (503, 10077, name)
    assert f"'{name}'" in str(error)
    assert str(error).endswith(remedy)
    assert "JetStream" not in str(error)


async def test_oversize_message_names_stream_subject_and_setting(js: JetStreamContext) -> None:
    name = await new_stream(js, max_msg_size=10)
    error = await error_of(js.publish(f"{name}.a", b"x" * 11))
    assert type(error) is errors.MessageTooLargeError
    assert (error.err_code, error.stream, error.subject) == (10054, name, f"{name}.a")
    assert f"could not store the message to '{name}.a' in stream '{name}'" in str(error)
    assert "max_msg_size" in str(error)


async def test_wrong_last_sequence_names_stream_and_subject(js: JetStreamContext) -> None:
    name = await new_stream(js)
    error = await error_of(js.publish(f"{name}.a", b"", expected_last_seq=9))
    assert type(error) is errors.WrongLastSequenceError
    assert error.stream == name
    assert f"'{name}.a' in stream '{name}'" in str(error)


async def test_rejected_message_names_its_subject(js: JetStreamContext) -> None:
    name = await new_stream(js)
    error = await error_of(js.publish(f"{name}.a", b"", expected_stream="OTHER"))
    assert error.subject == f"{name}.a"
    assert f"could not store the message to '{name}.a'" in str(error)


@pytest.mark.parametrize(
    "call",
    [
        lambda js: js.pull_subscribe("zzz.>", "d"),
        lambda js: js.subscribe("zzz.>"),
        lambda js: js.find_stream_name_by_subject("zzz.>"),
    ],
    ids=["pull_subscribe", "subscribe", "find_stream_name_by_subject"],
)
async def test_subject_without_stream_is_named_with_remedy(
    js: JetStreamContext, call: Callable[[JetStreamContext], Awaitable[Any]]
) -> None:
    error = await error_of(call(js))
    assert type(error) is errors.StreamNotFoundError
    assert error.subject == "zzz.>"
    text = str(error)
    assert "no stream stores the subject 'zzz.>'; correct it, or create a stream" in text
    assert "None" not in text


async def test_misspelt_subject_has_suggestion(js: JetStreamContext) -> None:
    name = await new_stream(js)
    error = await error_of(js.pull_subscribe(f"{name}x.>", "d"))
    assert str(error).endswith(f"did you mean '{name}.>'?")


@pytest.mark.parametrize("verb", ["request", "old_style", "request_many"])
async def test_core_request_without_responders_does_not_name_jetstream(nc: Client, verb: str) -> None:
    with pytest.raises(NoRespondersError) as caught:
        if verb == "request_many":
            async for _ in nc.request_many("unbound.subject", timeout=30):
                pass
        else:
            await nc.request("unbound.subject", b"", timeout=30, old_style=verb == "old_style")
    text = str(caught.value)
    assert "unbound.subject" in text
    assert "start the service" in text
    assert "JetStream" not in text


async def test_jetstream_request_without_responders_names_jetstream(nc: Client) -> None:
    error = await error_of(nc.jetstream(domain="elsewhere").account_info())
    assert type(error) is errors.JetStreamNotEnabledError
    assert "$JS.elsewhere.API.INFO; enable JetStream, or check the domain" in str(error)
    assert "None" not in str(error)


async def test_overlapping_subjects_name_the_other_stream(js: JetStreamContext) -> None:
    name = await new_stream(js)
    for call in (
        js.add_stream(name=f"{name}B", subjects=["free.to.take", f"{name}.a"]),
        js.add_stream(name=f"{name}C", subjects=[f"{name}.*"]),
    ):
        error = await error_of(call)
        assert type(error) is errors.SubjectOverlapError
        assert f"stream '{name}' stores subjects of '{name}." in str(error)


async def test_overlap_of_an_update_names_the_other_stream_only(js: JetStreamContext) -> None:
    name, other = await new_stream(js), await new_stream(js)
    error = await error_of(js.update_stream(name, subjects=[f"{name}.>", f"{other}.a"]))
    assert f"could not update stream '{name}': stream '{other}' stores subjects of '{other}.a'" in str(error)


async def test_existing_stream_and_consumer_are_named(js: JetStreamContext) -> None:
    name = await new_stream(js)
    error = await error_of(js.add_stream(name=name, subjects=["another.subject"]))
    assert type(error) is errors.StreamExistsError
    assert f"could not create stream '{name}'" in str(error)
    await js.add_consumer(name, durable_name="c")
    config = ConsumerConfig(durable_name="c", description="other")
    error = await error_of(put_consumer(js._api, name, config, action="create"))
    assert type(error) is errors.ConsumerExistsError
    assert (error.stream, error.consumer) == (name, "c")
    assert f"could not create consumer 'c' of stream '{name}'" in str(error)


async def test_consumer_limits_are_named(js: JetStreamContext) -> None:
    name = await new_stream(js, max_consumers=1, consumer_limits={"max_ack_pending": 10, "inactive_threshold": 60})
    for config, err_code, setting in (
        ({"max_ack_pending": 11}, 10121, "max_ack_pending"),
        ({"inactive_threshold": 99}, 10153, "inactive_threshold"),
    ):
        error = await error_of(js.add_consumer(name, durable_name="c", **config))
        assert (error.err_code, error.consumer) == (err_code, "c")
        assert f"could not create consumer 'c' of stream '{name}'" in str(error)
        assert f"lower {setting}" in str(error)
    await js.add_consumer(name, durable_name="c")
    error = await error_of(js.add_consumer(name, durable_name="d"))
    assert error.err_code == 10026
    assert "could not create consumer 'd'" in str(error)
    assert "raise max_consumers" in str(error)


async def test_missing_message_is_named(js: JetStreamContext) -> None:
    name = await new_stream(js, allow_direct=True)
    for direct in (False, True):
        error = await error_of(js.get_msg(name, 77, direct=direct))
        assert f"could not read message 77 of stream '{name}'" in str(error)
        error = await error_of(js.get_last_msg(name, f"{name}.a", direct=direct))
        assert f"could not read the last message of subject '{name}.a' of stream '{name}'" in str(error)


async def test_key_errors_name_key_bucket_and_revision(js: JetStreamContext) -> None:
    kv = await js.create_key_value(bucket=f"KEYS{next(_numbers)}", history=3, max_value_size=100)
    bucket = kv._name
    await kv.create("k", b"1")
    operations: dict[str, Callable[[], Awaitable[Any]]] = {
        f"could not create key 'k' in bucket '{bucket}': it exists at revision 1": lambda: kv.create("k", b"2"),
        f"could not update key 'k' in bucket '{bucket}': its revision is 1, 9 was expected": lambda: kv.update(
            "k", b"2", last=9
        ),
        f"could not delete key 'k' in bucket '{bucket}': its revision is 1": lambda: kv.delete("k", last=9),
        f"could not purge key 'k' in bucket '{bucket}': its revision is 1": lambda: kv.purge("k", last=9),
    }
    for text, call in operations.items():
        error = await error_of(call())
        assert isinstance(error, errors.KeyWrongLastSequenceError)
        assert (error.key, error.bucket, error.revision) == ("k", bucket, 1)
        assert text in str(error)
        assert "err_code=10071" in str(error)
    error = await error_of(kv.put("k", b"x" * 101))
    assert type(error) is errors.MessageTooLargeError
    assert f"could not put key 'k' in bucket '{bucket}' (code=400 err_code=10054" in str(error)
    error = await error_of(kv.create("big", b"x" * 101))
    assert f"could not create key 'big' in bucket '{bucket}'" in str(error)
    error = await error_of(kv.update("new", b"", last=4))
    assert "it has no revision, 4 was expected" in str(error)
    error = await error_of(kv.get("none"))
    assert str(error) == f"nats: key not found: bucket '{bucket}' has no key 'none'"
    await kv.delete("k")
    error = await error_of(kv.get("k"))
    assert f"key 'k' of bucket '{bucket}' was deleted (DEL at revision 2)" in str(error)
