"""Each rule finds its lines, and no others: comments `# ! rule` mark the expected findings of a program."""

from __future__ import annotations

import pytest
from jetarrow.migrate.rules import RULES

from tests.migrate.tools import expected, found

QUIET = "max_reconnect_attempts=-1, ping_interval=120"
PROGRAMS = {
    "connecting": """
import ssl
import nats
from nats import connect as c
from nats.aio.client import Client as NATS

URL = "tls://prod:4222"  # ! tls-address
plain = ssl.create_default_context()
context = ssl.create_default_context()
context.load_cert_chain("me.pem")
options = {"ping_interval": 1}
attempts = 5

async def main(flag):
    await nats.connect()  # ! connect-attempts ping-interval
    await c("nats://h", max_reconnect_attempts=3)  # ! connect-attempts ping-interval
    await c("nats://h", max_reconnect_attempts=attempts, ping_interval=120)  # ! connect-attempts
    await c("nats://h", max_reconnect_attempts=-1, ping_interval=20)
    await c("nats://h", max_reconnect_attempts=flag, ping_interval=20)
    await c("nats://h", allow_reconnect=False, ping_interval=20)
    await c("nats://h", **options)
    await nats.connect(URL, QUIET)
    await nats.connect(["nats://a", "tls://b"], QUIET)  # ! tls-address
    await nats.connect("nats://h", tls=context, QUIET)  # ! tls-required tls-client-certificate
    await nats.connect("nats://h", tls=plain, QUIET)  # ! tls-required
    await nats.connect("nats://h", tls=None, QUIET)
    await nats.connect("nats://h", inbox_prefix=b"a b", QUIET)  # ! prefix
    await nats.connect("nats://h", inbox_prefix="good.one", pending_size=1, QUIET)  # ! pending-size
    nc = NATS()
    await nc.connect("nats://h")  # ! connect-attempts ping-interval
    nc.jetstream(prefix="a..b")  # ! prefix
    nc.jetstream(domain="a.b")  # ! prefix
    nc.jetstream("$JS.hub.API", "hub")
    nc.jsm(prefix="a.*")  # ! prefix
    await nc.publish("a.*", b"")  # ! subject
    await nc.publish("a*.b", b"")
    await nc.request(".a")  # ! subject
    await nc.subscribe("a.*")
    await nc.jetstream().publish("a..b")  # ! subject
    print(nc.connected_url.password)  # ! secrets
    print(nc.connected_url.netloc, nc.options["name"])
    print(nc.options["password"], nc.options.get("token"))  # ! secrets secrets
    for server in nc.servers:
        print(server.username, server.hostname)  # ! secrets
    print(nc.pending_data_size)  # ! pending-data-size
    await nc.publish("a", b"", reply=None)  # ! reply-none
    await nc.publish("a", b"", None)  # ! reply-none
    await nc.publish("a", b"", "b")
    await nc.request("a", b"", old_style=True, headers={"a": "b"})  # ! old-style-headers
    await nc.request("a", b"", old_style=True)
    await nc.request("a", b"", headers={"a": "b"})
""",
    "unchecked subjects": """
import nats
async def main():
    nc = await nats.connect(skip_subject_validation=True, QUIET)
    await nc.publish("a.*", b"")
""",
    "streams": """
import nats
from datetime import datetime, timedelta, timezone
import datetime as dt
from nats.js import api
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

SECOND = 10**9
DAY = 24 * 3600

async def main(js: nats.js.JetStreamContext, start, other):
    StreamConfig(name="S", max_age=7 * DAY * SECOND)  # ! duration
    StreamConfig(name="S", max_age=7 * DAY)
    await js.add_stream(name="S", duplicate_window=120_000_000_000)  # ! duration
    await other.add_stream(name="S", duplicate_window=120_000_000_000)  # ! duration
    api.ConsumerConfig(ack_wait=3e10, opt_start_time=datetime.utcnow())  # ! duration naive-time
    ConsumerConfig(opt_start_time=datetime.now() - timedelta(hours=1))  # ! naive-time
    ConsumerConfig(opt_start_time=dt.datetime(2026, 1, 2))  # ! naive-time
    ConsumerConfig(opt_start_time=datetime.now(timezone.utc) - timedelta(hours=1))
    ConsumerConfig(opt_start_time=dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc))
    ConsumerConfig(opt_start_time=dt.datetime(2026, 1, 2).replace(tzinfo=dt.timezone.utc))
    ConsumerConfig(opt_start_time=start)
    ConsumerConfig(ack_policy="never")  # ! word
    ConsumerConfig(ack_policy="Explicit", deliver_policy=start)
    await js.add_stream(name="S", retention="work")  # ! word
    await js.pull_subscribe("a.>", "d")  # ! max-ack-pending
    await other.pull_subscribe("a.>", "d")  # ! max-ack-pending
    await js.pull_subscribe("a.>", config=ConsumerConfig(max_ack_pending=10))
    await js.pull_subscribe("a.>", config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT))  # ! max-ack-pending
    await js.pull_subscribe("a.>", config=ConsumerConfig(ack_policy=AckPolicy.NONE))
    await js.pull_subscribe("a.>", config=start)
    narrow = ConsumerConfig(filter_subject="a.b", max_ack_pending=10)
    await js.pull_subscribe("a.>", config=narrow)  # ! filter-subject
    await js.subscribe("a.>", config=narrow)  # ! filter-subject
    await js.subscribe("a.b", config=narrow)
    await js.pull_subscribe_bind("work", "S")  # ! bind-order
    await js.pull_subscribe_bind("work", stream="S")
    if await js.purge_stream("S") is True: ...  # ! purge-result
    done = await js.purge_stream("S")
    if done is not True: ...  # ! purge-result
    if done == True or done: ...
    ack = await js.publish("a", b"")
    if ack.duplicate is None: ...  # ! duplicate
    if not ack.duplicate: ...
    ack = await (await js.publish_async("a", b""))
    await js.account_info()  # ! account-info
    await other.account_info()
""",
    "pulls": """
import nats
async def main(js: nats.js.JetStreamContext, other, config):
    sub = await js.pull_subscribe("a", "d", config=config, pending_msgs_limit=10)  # ! pull-limits
    await other.pull_subscribe_bind("d", stream="S", pending_bytes_limit=10)  # ! pull-limits
    await js.pull_subscribe_bind("d", stream="S", inbox_prefix=b"x")  # ! pull-inbox
    await sub.fetch(1, heartbeat=-1)  # ! negative-heartbeat
    await sub.fetch(1, heartbeat=1)
    await other.fetch(1, heartbeat=-1)
    await js.subscribe("a", pending_msgs_limit=10)
""",
    "async publishes": """
import nats
class Service:
    def __init__(self, nc: nats.NATS):
        self.plain = nc.jetstream()
        self.js = nc.jetstream()  # ! async-pending
        self.limited = nc.jetstream(publish_async_max_pending=10)
    async def run(self):
        await self.plain.publish("a", b"")
        await self.js.publish_async("a", b"")
        await self.limited.publish_async("a", b"")
""",
    "stores": """
import asyncio
import nats
from nats.js.api import KeyValueConfig

async def main(nc: "nats.aio.client.Client | None", other):
    js = nc.jetstream()
    kv = await js.create_key_value(bucket="B", placement=other)  # ! bucket-placement
    KeyValueConfig(bucket="B", placement=None)
    KeyValueConfig(bucket="B", placement=other)  # ! bucket-placement
    await kv.put("a..b", b"")  # ! key
    await kv.put("a..b", b"", validate_keys=False)
    await kv.get("a.b")
    await kv.purge("a b")  # ! key
    entry = await asyncio.wait_for(kv.get("a"), 1)
    if entry.value is None: ...  # ! value-none
    if entry.value == b"" or entry.revision is None: ...
    if entry.created is not None and entry.delta is None: ...  # ! entry-time entry-time
    watcher = await kv.watchall(headers_only=True)  # ! headers-only
    await other.watchall(headers_only=True)  # ! headers-only
    await kv.watch("a", headers_only=False)
    async for update in watcher:
        if update.value is None: ...
    await kv.keys()
    await kv.keys(["a"])  # ! key-filters
    await kv.keys(filters=["a"], meta_only=True)  # ! key-filters keywords-of-keys
    await other.keys(filters=["a"])
    store = await js.object_store("a\\n")  # ! store-name
    store = await js.object_store("a")
    info = await store.get_info("x")
    print(info.mtime, info.size)  # ! object-time
    print(info.headers)  # ! object-headers
    for one in await store.list():
        print(one.headers)  # ! object-headers
    result = await store.get("x")
    print(result.info.mtime)  # ! object-time
""",
    "services": """
from nats.micro.request import Request
async def handle(request: Request):
    await request.respond_error("400", "bad")  # ! service-errors
    await request.respond(b"")
async def more(request):
    await request.respond_error("400", "bad")  # ! service-errors
""",
    "messages": """
import nats
from nats.aio.msg import Msg
from nats.errors import SlowConsumerError, TimeoutError
from nats.js.errors import FetchTimeoutError
import nats.js.errors as js_errors

async def on_message(msg):
    print(msg)  # ! message-text
    print(f"{msg.data} {msg}")  # ! message-text
    if type(msg) is Msg: ...  # ! type-of-message
    if type(msg) == Msg or isinstance(msg, Msg): ...  # ! type-of-message
    if type(msg) is str: ...

async def other(msg):
    print(msg)

async def on_error(error):
    if isinstance(error, SlowConsumerError): ...  # ! slow-consumer

async def main(nc: nats.NATS, psub: nats.js.JetStreamContext.PullSubscription):
    sub = await nc.subscribe("a", cb=on_message)
    async for one in sub.messages:
        print(one)  # ! message-text
    msgs = await psub.fetch(10)
    print(msgs[0], msgs[0].data)  # ! message-text
    try:
        str(await sub.next_msg())  # ! message-text
    except (TimeoutError, FetchTimeoutError):  # ! fetch-timeout
        pass
    except js_errors.TooManyStalledMsgsError:  # ! cancelled-publish
        pass
    except js_errors.NotFoundError:
        pass
""",
    "private names": """
import nats.aio.client
from nats.aio.client import _CRLF_, Client  # ! private
from nats.js import JetStreamContext
from ._private import _x
class Mine:
    def __init__(self, nc: Client, msg: nats.aio.msg.Msg, other):
        self._nc = nc
        print(self._nc._client_id, nc.__class__, other._client_id)  # ! private
        msg._ackd = True  # ! private
        nats.aio.client._SPC_  # ! private
        JetStreamContext._is_heartbeat("100")  # ! private
        nc.connected_url._replace(netloc="x")
        print(nats.__name__, self._x)
""",
    "made by the client": """
import nats.js.kv
from nats.js import JetStreamContext
def main(js):
    nats.js.kv.KeyValue.KeyWatcher(js)  # ! constructor
    JetStreamContext.PullSubscription(js, None, "S", "C", b"")  # ! constructor
    JetStreamContext(js)
""",
}
PROGRAMS = {name: program.replace("QUIET", QUIET) for name, program in PROGRAMS.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rules_find_the_marked_lines_and_no_others(name: str) -> None:
    assert found(PROGRAMS[name]) == expected(PROGRAMS[name])


def test_every_rule_finds_a_line() -> None:
    used = {rule for program in PROGRAMS.values() for _, rule in expected(program)}
    assert used == {rule.name for rule in RULES} | {"constructor"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_rules_are_silent_about_programs_on_jetarrow(name: str) -> None:
    program = PROGRAMS[name].replace("import nats.js.kv", "import jetarrow.js.kv as x").replace("nats", "jetarrow")
    assert found(program) == []
