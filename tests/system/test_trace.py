"""`nc.trace()`: the way of a message through servers, accounts, subscriptions and streams."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import jetarrow
import jetarrow.sync
import pyarrow as pa
import pytest
from jetarrow.aio.client import Client
from jetarrow.errors import BadSubjectError, Error, PermissionsViolationError, SystemRequestError, TimeoutError
from jetarrow.js.client import JetStreamContext
from jetarrow.server import NatsServer
from jetarrow.system import Trace
from jetarrow.system.trace import COLUMNS, events_of

from ..tools import cluster, until
from .tools import ACCOUNTS, ready

Row = tuple[str | None, ...]


def rows(trace: Trace, *names: str) -> list[Row]:
    return [tuple(getattr(event, name) for name in names) for event in trace.events]


@pytest.fixture
async def js(app: Client, servers: dict[str, NatsServer]) -> AsyncIterator[JetStreamContext]:
    """A context on n0, and the stream TRACED on n1."""
    js = app.jetstream(timeout=20)
    await js.add_stream(name="TRACED", subjects=["traced.>"], num_replicas=3)
    # A request has no answer during an election.
    stream = app.jetstream(timeout=1).stream("TRACED")

    async def led_by_n1() -> bool:
        with suppress(Error):  # during an election
            if (await stream.info()).cluster.leader == "n1":
                return True
            await stream.step_down("n1")
        return False

    await until(led_by_n1, 30)
    yield js
    await js.delete_stream("TRACED")


async def subscribed(nc: Client, subject: str, queue: str = "") -> Any:
    """A subscription that every server of the cluster knows."""
    sub = await nc.subscribe(subject, queue)
    await nc.flush()
    return sub


async def test_hops_of_a_cluster_are_in_the_order_of_the_way(
    app: Client, js: JetStreamContext, servers: dict[str, NatsServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await jetarrow.connect(servers["n2"].url, name="far") as far:
        await subscribed(far, "traced.*", "workers")
        near = await subscribed(app, "traced.a")

        async def has_reached_all() -> bool:
            found = await app.trace("traced.a", b"x")
            return {event.server for event in found} == {"n0", "n1", "n2"}

        await until(has_reached_all)
        monkeypatch.setattr("jetarrow.system.trace_request._STALL", 30)
        begin = time.monotonic()
        found = await app.trace("traced.a", b"x", timeout=60)
        # The last report ends the call: neither timeout nor stall.
        assert time.monotonic() - begin < 15
        assert found.is_complete
        assert found.errors == []
        by_hop = {event.hop: event.server for event in found.events}
        assert (by_hop[""], {by_hop["1"], by_hop["2"]}) == ("n0", {"n1", "n2"})
        assert rows(found, "server", "kind", "event")[:2] == [("n0", "client", "ingress"), ("n0", "client", "egress")]
        (stored,) = [event for event in found if event.event == "jetstream"]
        assert (stored.server, stored.account, stored.kind) == ("n1", "$G", None)
        assert stored.detail == "stream 'TRACED', subject 'traced.a'"
        (queued,) = [event for event in found if event.server == "n2" and event.event == "egress"]
        assert queued.detail == f"to 'far' (cid {far.client_id}), subscription 'traced.*', queue 'workers'"
        assert all(event.time is not None and event.data["type"] for event in found)
        # A trace without delivery.
        assert (await js.stream_info("TRACED")).state.messages == 0
        assert near.pending_msgs == 0


async def test_deliver_delivers_and_stores(app: Client, js: JetStreamContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jetarrow.system.trace_request._STALL", 30)
    sub = await subscribed(app, "traced.b")
    found = await app.trace("traced.b", "text", headers={"Note": ["a", "b"]}, deliver=True, timeout=60)
    assert {"ingress", "egress", "jetstream"} <= {event.event for event in found}
    msg = await sub.next_msg(timeout=10)
    assert (msg.data, msg.headers_all["Note"]) == (b"text", ["a", "b"])
    stored = await js.get_msg("TRACED", 1)
    assert stored.data == b"text"


def test_sync_has_the_same_trace(servers: dict[str, NatsServer]) -> None:
    with jetarrow.sync.connect(servers["n0"].url) as nc:
        found = nc.trace("nowhere")
        assert rows(found, "server", "event", "detail") == [
            ("n0", "ingress", f"subject 'nowhere' from a connection (cid {nc.client_id})")
        ]
        with pytest.raises(TypeError, match="did you mean 'deliver'"):
            nc.trace("nowhere", delivr=True)  # type: ignore[call-arg]


async def test_table_has_the_documented_columns(app: Client) -> None:
    await subscribed(app, "table.<b")
    found = await app.trace("table.<b")
    table = found.to_pyarrow()
    assert table.schema == pa.schema([(name, pa.string()) for name in COLUMNS])
    assert table.to_pylist() == [dict(zip(COLUMNS, row, strict=True)) for row in rows(found, *COLUMNS)]
    assert pa.table(found) == table
    assert found.to_polars().shape == (len(found), 5)
    assert list(found.to_pandas()["server"]) == ["n0"] * len(found)
    first, header, *lines = repr(found).splitlines()
    assert first == f"<Trace of 'table.<b': {len(found)} events>"
    assert header.split() == list(COLUMNS)
    assert len(lines) == len(found) == len(list(found))
    assert found[0] == found.events[0]
    page = found._repr_html_()
    assert "table.&lt;b" in page
    assert "<b" not in page.replace("<body", "")


def test_repr_escapes_control_characters() -> None:
    report = {"server": {"name": "n\x1b]0;x\x07"}, "events": [{"type": "in", "acc": "$G", "subj": "a"}]}
    found = Trace("a", list(events_of("", report)))
    assert found[0].server == "n\x1b]0;x\x07"
    assert r"n\x1b]0;x\x07" in repr(found)
    assert "\x1b" not in repr(found) + found._repr_html_()


ACCOUNTS_AND_MAPPING = """
accounts {
  $SYS { users: [{ user: admin, password: x }] }
  SHOP {
    users: [
      { user: shop, password: x }
      { user: no_inbox, password: x, permissions: { publish: ["orders.>"] } }
      { user: no_orders, password: x, permissions: { publish: { deny: ["orders.>"] } } }
    ]
    mappings: { "orders.old": "orders.new" }
    exports: [{ stream: "orders.>" }, { stream: "hidden.>" }]
    imports: [{ service: { account: BILLING, subject: "bill.make" }, to: "make" }]
  }
  BILLING {
    users: [{ user: billing, password: x }]
    exports: [{ service: "bill.make", allow_trace: true }]
    imports: [
      { stream: { account: SHOP, subject: "orders.>" }, prefix: "shop", allow_trace: true }
      { stream: { account: SHOP, subject: "hidden.>" } }
    ]
  }
}
"""


@pytest.fixture(scope="module")
def accounts() -> Iterator[NatsServer]:
    with NatsServer(config=ACCOUNTS_AND_MAPPING, jetstream=False) as server:
        yield server


async def test_imports_and_mappings_are_events(accounts: NatsServer) -> None:
    async with (
        await jetarrow.connect(accounts.url, user="shop", password="x") as shop,
        await jetarrow.connect(accounts.url, user="billing", password="x") as billing,
    ):
        await subscribed(billing, "shop.orders.new")
        await subscribed(billing, "bill.make")
        found = await shop.trace("orders.old")
        assert rows(found, "event", "account") == [
            ("ingress", "SHOP"),
            ("subject mapping", "SHOP"),
            ("stream export", "BILLING"),
            ("egress", "BILLING"),
        ]
        assert found[1].detail == "to 'orders.new'"
        assert found[2].detail == "to 'shop.orders.new'"
        found = await shop.trace("make")
        (imported,) = [event for event in found if event.event == "service import"]
        assert imported.detail == "from 'make' to 'bill.make'"
        assert rows(found, "event", "account")[-1] == ("egress", "BILLING")
        # Without allow_trace the other account is not traced.
        await subscribed(billing, "hidden.a")
        found = await shop.trace("hidden.a")
        assert rows(found, "event", "account") == [("ingress", "SHOP"), ("stream export", "BILLING")]


async def test_message_that_may_not_be_published_has_an_error(accounts: NatsServer) -> None:
    async with await jetarrow.connect(accounts.url, user="no_orders", password="x") as nc:
        found = await nc.trace("orders.a")
        (failed,) = found.errors
        assert (failed.event, failed.error) == ("ingress", 'Permissions Violation for Publish to "orders.a"')
        assert failed.detail.endswith(failed.error)


async def test_user_without_inboxes_gets_a_permission_error(accounts: NatsServer) -> None:
    async with await jetarrow.connect(accounts.url, user="no_inbox", password="x") as nc:
        with pytest.raises(PermissionsViolationError, match=r"could not trace 'orders.a'.*_INBOX"):
            await nc.trace("orders.a", timeout=5)
    with (
        jetarrow.sync.connect(accounts.url, user="no_inbox", password="x") as blocking,
        pytest.raises(PermissionsViolationError),
    ):
        blocking.trace("orders.a", timeout=5)


async def test_invalid_arguments_are_errors(app: Client) -> None:
    with pytest.raises(BadSubjectError):
        await app.trace("a b")
    with pytest.raises(ValueError, match="timeout must be positive"):
        await app.trace("a", timeout=0)
    headers = {"nats-trace-dest": "elsewhere"}
    with pytest.raises(ValueError, match=r"header 'nats-trace-dest' is set by trace\(\) itself"):
        await app.trace("a", headers=headers)
    given = {"Note": "a"}
    await app.trace("a", headers=given)
    assert given == {"Note": "a"}


@pytest.fixture
def mortal() -> Iterator[dict[str, NatsServer]]:
    """A cluster whose servers the test stops."""
    with cluster(more=ACCOUNTS) as servers:
        ready(servers)
        yield servers


async def test_silent_servers_are_missing_hops(mortal: dict[str, NatsServer]) -> None:
    async with (
        await jetarrow.connect(mortal["n0"].url) as nc,
        await jetarrow.connect(mortal["n2"].url) as far,
    ):
        await subscribed(far, "far")

        async def has_reached_n2() -> bool:
            return {event.server for event in await nc.trace("far")} == {"n0", "n2"}

        await until(has_reached_n2)
        mortal["n2"].pause()
        try:
            begin = time.monotonic()
            found = await nc.trace("far", timeout=3)
            assert 0.4 < time.monotonic() - begin < 15
            assert (found.is_complete, found.missing) == (False, ["1"])
            assert [event.server for event in found] == ["n0", "n0"]
            assert "no report of hops 1" in repr(found)
            mortal["n0"].pause()
            with pytest.raises(TimeoutError, match=r"could not trace 'far': no server reported.*within 0.2 s"):
                await nc.trace("far", timeout=0.2)
        finally:
            mortal["n0"].resume()
            mortal["n2"].resume()


async def test_report_of_another_program_is_a_typed_error(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (b"{", b"{}", b'{"events": []}', b'{"events": [3]}', b'{"events": [{"type": "in"}], "request": 1}'):
        inbox = app.new_inbox()
        monkeypatch.setattr("jetarrow.system.trace_request.DESTINATION", "Other")
        native = property(lambda session, inbox=inbox: Native(session.connection, inbox))
        monkeypatch.setattr(type(app._session), "native", native)
        with pytest.raises(SystemRequestError, match="could not read a trace event"):
            await app.trace(f"{inbox}.0", text, deliver=True)
        monkeypatch.undo()


class Native:
    """A connection with a fixed inbox, to which the trace itself publishes."""

    def __init__(self, connection: Any, inbox: str) -> None:
        self._connection, self._inbox = connection, inbox

    def new_inbox(self) -> str:
        return self._inbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)
