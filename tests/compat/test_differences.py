"""What jetarrow does otherwise than nats-py, on purpose. MIGRATION.md tells of each, with the reason."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

import nats
import nats.js
import pytest
from jetarrow.server import NatsServer

from ..tools import settle, until
from .face import Collector, Face, arrived, asked, make_stream, spread, subject
from .left_out import left_out

DENIED = (
    'authorization { users: [ { user: "anna", password: "s3cret", permissions: { publish: { deny: ["no.>"] } } } ] }'
)


@pytest.fixture
async def nc(ours: Face) -> Any:
    return await ours.connect()


@pytest.fixture
def js(nc: Any) -> Any:
    return nc.jetstream()


async def test_a_rejected_publish_async_resolves(ours: Face, js: Any) -> None:
    # nats-py: the future stays pending for ever.
    full = await make_stream(js, max_msgs=1, discard="new")
    await js.publish(f"{full}.a", b"x")
    wrong = {"headers": {"Nats-Expected-Last-Sequence": "9"}}
    futures = [await js.publish_async(f"{full}.a", b"x"), await js.publish_async(f"{full}.a", b"x", **wrong)]
    kinds = [await ours.failure(future) for future in futures]
    assert kinds == ["js.errors.ServiceUnavailableError", "js.errors.BadRequestError"]
    await asyncio.wait_for(js.publish_async_completed(), 1)


async def test_a_publish_async_without_an_answer_resolves(ours: Face, nc: Any) -> None:
    # nats-py: the future stays pending for ever.
    await nc.subscribe(where := subject())
    future = await nc.jetstream(ack_timeout=0.2).publish_async(where, b"x")
    assert await ours.failure(future) == "errors.TimeoutError"


async def test_a_cancelled_call_raises_cancelled_error(nc: Any) -> None:
    # nats-py: TooManyStalledMsgsError.
    await nc.subscribe(where := subject())
    js = nc.jetstream(publish_async_max_pending=1)
    await js.publish_async(where, b"x")
    task = asyncio.create_task(js.publish_async(where, b"y"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


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
    assert [(await sub.next_msg()).data for sub in subs] == [b"0", b"0"]


async def test_headers_count_for_max_payload(ours: Face, nc: Any) -> None:
    # nats-py: the server cuts the connection.
    big = b"x" * nc.max_payload
    assert await ours.failure(nc.publish(subject(), big, headers={"a": "b"})) == "errors.MaxPayloadError"
    assert await nc.rtt() > 0


async def test_a_large_fetch_is_split(ours: Face, js: Any) -> None:
    # nats-py: the server cuts the connection where more than its limit is on its way to the client.
    stream = await make_stream(js)
    await js.publish_batch(f"{stream}.a", [b"x" * 50_000] * 1500)
    sub = await js.pull_subscribe(f"{stream}.>", "work", config=ours.api.ConsumerConfig(ack_policy="none"))
    assert len(await sub.fetch(1500, timeout=20)) == 1500
    await js.delete_stream(stream)


async def test_flush_waits_for_what_was_published_before(ours: Face, nc: Any) -> None:
    # nats-py: the ping of a flush overtakes what was published in the same turn of the loop.
    other = Face("nats", ours.url)
    observer = await other.connect()
    sub = await observer.subscribe(where := subject())
    await settle(observer)
    for _ in range(1000):
        await nc.publish(where)
    await nc.flush()
    # The server has all of them, and handed them out before it answers the observer.
    await observer.flush()
    assert sub.pending_msgs == 1000
    await other.close()


async def test_fetch_times_out_in_one_class(ours: Face, js: Any, stream: str) -> None:
    # nats-py: FetchTimeoutError only where heartbeats came, else its base TimeoutError.
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    kinds = {await ours.failure(sub.fetch(batch, timeout=0.05)) for batch in (1, 5)}
    assert kinds == {"js.errors.FetchTimeoutError"}


async def test_a_fetch_ends_when_the_consumer_goes(ours: Face, js: Any, stream: str) -> None:
    # nats-py: waits until the timeout.
    sub = await js.pull_subscribe(f"{stream}.>", durable="work")
    waiting = asyncio.create_task(ours.raised(sub.fetch(1, timeout=8)))
    await asked(sub, 1)
    begin = time.monotonic()
    await js.delete_consumer(stream, "work")
    assert isinstance(await waiting, ours.js_errors.APIError)
    assert time.monotonic() - begin < 3


async def test_wrong_credentials_end_at_once(ours: Face) -> None:
    # nats-py: a plain Error, and by default it tries again 60 times, 2 s apart.
    with NatsServer(config=DENIED, jetstream=False) as server:
        begin = time.monotonic()
        failure = await ours.failure(ours.connect(server.url, user="anna", password="wrong"))
        assert (failure, time.monotonic() - begin < 2) == ("errors.AuthorizationError", True)


async def test_addresses_are_told_without_passwords(ours: Face) -> None:
    # nats-py: with them.
    with NatsServer(config=DENIED, jetstream=False) as server:
        nc = await ours.connect(server.url.replace("//", "//anna:s3cret@"))
        assert nc.connected_url.netloc == server.url.removeprefix("nats://")
        assert "s3cret" not in repr((nc.servers, nc.server_pool, nc.options))


async def test_a_publish_that_is_not_permitted_fails_at_once(ours: Face) -> None:
    # nats-py: a timeout; the server's reason goes to the error callback.
    with NatsServer(config=DENIED) as server:
        errors = Collector()
        nc = await ours.connect(server.url, user="anna", password="s3cret", error_cb=errors.callback)
        begin = time.monotonic()
        for call in (nc.jetstream().publish("no.way", b"x"), nc.request("no.way", b"x", timeout=5)):
            error = await ours.raised(call)
            assert isinstance(error, ours.errors.PermissionsViolationError), error
            assert "no.way" in str(error)
        assert time.monotonic() - begin < 2


async def test_tls_never_becomes_plaintext(ours: Face) -> None:
    # nats-py: sends user and password in clear when a tls:// server offers no TLS.
    seen = bytearray()

    def serve(listener: socket.socket) -> None:
        conn, _ = listener.accept()
        with conn:
            conn.settimeout(3)
            conn.sendall(b'INFO {"server_id":"X","version":"2.11.0","max_payload":1048576,"headers":true}\r\n')
            try:
                while part := conn.recv(4096):
                    seen.extend(part)
                    if b"PING\r\n" in seen:
                        conn.sendall(b"PONG\r\n")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        url = f"tls://anna:s3cret@127.0.0.1:{listener.getsockname()[1]}"
        error = await ours.raised(ours.connect(url, connect_timeout=1, max_reconnect_attempts=1, allow_reconnect=False))
        await asyncio.to_thread(thread.join, 5)
    assert isinstance(error, ours.errors.Error)
    assert b"s3cret" not in seen
    assert b"CONNECT" not in seen


@pytest.mark.parametrize("where", ["a..b", ".a", "a.", "a.*", "a.>"])
async def test_subjects_to_publish_to_are_checked(ours: Face, nc: Any, where: str) -> None:
    # nats-py: sends them; nobody can receive the first three, and a subscriber to the others may get them.
    calls = [nc.publish(where), nc.request(where), nc.jetstream().publish(where)]
    assert [await ours.failure(call) for call in calls] == ["errors.BadSubjectError"] * 3


async def test_one_error_for_a_burst_of_drops(ours: Face) -> None:
    # nats-py: an error for every message dropped.
    errors = Collector()
    nc = await ours.connect(error_cb=errors.callback)
    sub = await nc.subscribe(where := subject(), pending_msgs_limit=10)
    for _ in range(1000):
        await nc.publish(where)
    await arrived(sub, 1000)
    assert (sub.pending_msgs, sub.dropped, sub.delivered) == (10, 990, 1000)
    assert 1 <= len(await errors.wait(1)) < 500


async def test_headers_of_old_style_requests(nc: Any) -> None:
    # nats-py: leaves them out.
    async def answer(msg: Any) -> None:
        await nc.publish(msg.reply, b"", headers=msg.headers)

    await nc.subscribe(where := subject(), cb=answer)
    assert (await nc.request(where, b"", timeout=5, old_style=True, headers={"a": "b"})).headers == {"a": "b"}


async def test_headers_of_several_values(nc: Any) -> None:
    # nats-py: takes one value a name, and gives the last.
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, b"", headers={"a": ["one", "two"]})
    msg = await sub.next_msg()
    assert (msg.headers, msg.headers_all) == ({"a": "two"}, {"a": ["one", "two"]})


async def test_header_values_of_stored_messages_are_text(js: Any, stream: str) -> None:
    # nats-py: an email.header.Header object where there is more than ASCII.
    await js.publish(f"{stream}.a", b"", headers={"a": "\u20ac"})
    assert (await js.get_msg(stream, 1)).headers == {"a": "\u20ac"}


async def test_text_is_sent_as_utf_8(nc: Any) -> None:
    # nats-py: bytes only.
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, "\u20ac")
    assert (await sub.next_msg()).data == "\u20ac".encode()


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
    # nats-py: takes it for UTC, though datetime.now() is local.
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
    # nats-py: delivers what the durable delivers.
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
    # Other tests of this worker's server run before and after, not meanwhile.
    assert (await js.account_info()).messages == before.messages + 3
    assert (await js.account_info(totals=False)).messages is None


def test_the_migration_guide_tells_of_each() -> None:
    text = (Path(__file__).parents[2] / "MIGRATION.md").read_text("utf-8")
    here = "".join(page.read_text("utf-8") for page in Path(__file__).parent.glob("test_differences*.py"))
    tests = set(re.findall(r"^async def (test_\w+)", here, re.MULTILINE))
    assert len(tests) > 20
    assert set(re.findall(r"`(test_\w+)`", text)) == tests


def test_the_migration_guide_names_every_call() -> None:
    text = (Path(__file__).parents[2] / "MIGRATION.md").read_text("utf-8")
    classes = [nats.NATS, nats.aio.subscription.Subscription, nats.aio.msg.Msg, nats.js.JetStreamContext]
    names = {
        f"{cls.__module__}.{cls.__qualname__}.{name}"
        for cls in [*classes, nats.js.JetStreamManager, nats.js.JetStreamContext.PullSubscription]
        for name, value in vars(cls).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    assert len(names) > 40
    missing = [name for name in names if left_out(name) is None and not re.search(rf"\b{name.split('.')[-1]}\b", text)]
    assert not missing


def test_the_migration_guide_s_imports_work() -> None:
    text = (Path(__file__).parents[2] / "MIGRATION.md").read_text("utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["NATS"] is names["nats"].NATS
    assert issubclass(names["TimeoutError"], names["nats"].errors.Error)


async def test_an_absent_server_ends_connect(ours: Face) -> None:
    # nats-py: tried 60 times, 2 s apart, with nothing to see but the error callback.
    with NatsServer(jetstream=False) as server:
        server.stop()
        started = time.monotonic()
        assert await ours.failure(ours.connect(server.url)) == "errors.NoServersError"
        assert time.monotonic() - started < 2
        failed = Collector()
        options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.05, "error_cb": failed.callback}
        connecting = asyncio.create_task(ours.connect(server.url, **options))
        await failed.wait(2)
        await asyncio.to_thread(server.start)
        assert (await asyncio.wait_for(connecting, 10)).is_connected


async def test_callbacks_get_what_had_come_before_unsubscribe(nc: Any) -> None:
    # nats-py: the callback under way is cancelled, and the other messages are discarded.
    got, go_on = [], asyncio.Event()

    async def slow(msg: Any) -> None:
        await go_on.wait()
        got.append(msg.data)

    sub = await nc.subscribe(where := subject(), cb=slow)
    for data in (b"0", b"1", b"2"):
        await nc.publish(where, data)
    await arrived(sub, 3)
    await sub.unsubscribe()
    go_on.set()
    await until(lambda: got == [b"0", b"1", b"2"])


async def test_next_msg_gives_what_had_come_before_close(ours: Face, nc: Any) -> None:
    # nats-py: ConnectionClosedError, and the message is lost.
    sub = await nc.subscribe(where := subject())
    await nc.publish(where, b"0")
    await arrived(sub, 1)
    await nc.close()
    assert (await sub.next_msg()).data == b"0"
    assert await ours.failure(sub.next_msg()) == "errors.ConnectionClosedError"


async def test_the_configuration_of_an_unnamed_consumer_has_its_name(js: Any) -> None:
    # nats-py: None.
    stream = await make_stream(js)
    info = await js.add_consumer(stream, ack_policy="explicit")
    assert (info.config.name, info.config.durable_name) == (info.name, None)


async def test_a_client_that_never_connected_has_no_verbs(ours: Face) -> None:
    # nats-py: AssertionError; a publish is kept, until there is no room.
    nc = ours.load("aio.client").Client()
    calls = (nc.publish("a", b""), nc.subscribe("a"), nc.request("a", b""), nc.flush(), nc.drain())
    assert {await ours.failure(call) for call in calls} == {"errors.ConnectionClosedError"}
    await nc.close()
    assert nc.is_closed
    # It may connect all the same.
    await nc.connect(ours.url)
    assert (nc.is_connected, nc.is_closed) == (True, False)
    await nc.close()


async def test_a_publish_after_publish_async_completed(ours: Face, nc: Any, js: Any) -> None:
    # nats-py: it goes out after what was published before, without waiting for it.
    stream, got = await make_stream(js), Collector()
    other = await ours.connect()
    await other.subscribe(f"{stream}.>", cb=got.callback)
    await other.subscribe("done." + stream, cb=got.callback)
    await other.flush()
    for number in range(50):
        await js.publish_async(f"{stream}.a", b"%d" % number)
    await js.publish_async_completed()
    await nc.publish("done." + stream, b"done")
    await got.wait(51)
    assert got.data == [b"%d" % number for number in range(50)] + [b"done"]
