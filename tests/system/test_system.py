"""`nc.system()`: the state of all servers, of some, of one."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.aio.client import Client
from jetarrow.errors import (
    PermissionsViolationError,
    ServerNotFoundError,
    SystemAccountError,
    SystemRequestError,
    TimeoutError,
)
from jetarrow.server import NatsServer
from jetarrow.system import Connz, Healthz, Jsz, Routez, ServerStats, Subsz, Varz, models

from ..tools import cluster, until
from .tools import ACCOUNTS, USER, VERBS, ready

NAMES = ["n0", "n1", "n2"]
# Limits that no call reaches.
LONG: dict[str, Any] = {"timeout": 60, "stall": 30}


@pytest.mark.parametrize("verb", VERBS)
async def test_every_server_answers_every_verb(admin: Client, verb: str) -> None:
    begin = time.monotonic()
    answers = await getattr(admin.system(**LONG), verb)()
    # The number of servers is known: the call waits for neither timeout nor stall.
    assert time.monotonic() - begin < LONG["stall"] / 2
    assert [answer.server.name for answer in answers] == NAMES
    assert answers.missing == 0
    assert {type(answer.data) for answer in answers} == {
        ServerStats if verb == "ping" else getattr(models, verb.capitalize())
    }
    assert all(0 < answer.rtt < 30 for answer in answers)
    assert all(answer.server.cluster == "C" and answer.server.jetstream for answer in answers)


@pytest.mark.parametrize("verb", VERBS)
async def test_one_server_answers_by_name_and_by_id(admin: Client, verb: str) -> None:
    call = getattr(admin.system(**LONG), verb)
    (by_name,) = await call(server="n1")
    (by_id,) = await call(server=by_name.server.id)
    assert by_name.server.name == by_id.server.name == "n1"


def test_sync_has_the_same_answers(servers: dict[str, NatsServer]) -> None:
    with jetarrow.sync.connect(servers["n0"].url, **USER) as nc:
        system = nc.system(**LONG)
        assert repr(system) == f"<System at {servers['n0'].url}>"
        for verb in VERBS:
            assert [answer.server.name for answer in getattr(system, verb)()] == NAMES
        with pytest.raises(TypeError, match="did you mean 'server'"):
            system.varz(servr="n1")  # type: ignore[call-arg]


async def test_filters_select_servers(admin: Client) -> None:
    system = admin.system(**LONG)
    for matching in ({"cluster": "C"}, {"tags": "zone:a"}, {"tags": ["ZONE:A"], "cluster": "C"}):
        assert [answer.server.name for answer in await system.varz(**matching)] == NAMES
        assert len(await system.ping(**matching)) == 3
    for other in ({"cluster": "D"}, {"tags": "zone:b"}, {"domain": "leaf"}):
        begin = time.monotonic()
        assert await system.varz(**other) == await system.ping(**other) == []
        assert time.monotonic() - begin < LONG["stall"] / 2


async def test_fields_are_typed_and_unknown_ones_are_kept(admin: Client) -> None:
    (answer,) = await admin.system(**LONG).varz(server="n0")
    found = answer.data
    assert (found.server_name, found.server_id) == ("n0", answer.server.id)
    assert found.start is not None
    assert found.now is not None
    assert (found.now - found.start).total_seconds() > 0
    assert found.jetstream is not None
    assert found.jetstream.config is not None
    assert found.jetstream.config.sync_interval == 120.0
    raw = found.as_dict()
    assert {"git_commit", "proto", "disk_io_wait_stats"} <= set(raw)
    assert raw["jetstream"]["config"]["sync_interval"] == 120 * 10**9  # type: ignore[index]


async def test_connz_lists_client_and_its_subscriptions(admin: Client, app: Client) -> None:
    await app.subscribe("only.here")
    await app.flush()
    system = admin.system(**LONG)
    found = {
        one.name: (answer.server.name, one)
        for answer in await system.connz(auth=True, subscriptions=True)
        for one in answer.data.connections
    }
    server, one = found["app"]
    assert (server, one.cid, one.lang, one.subscriptions_list) == ("n0", app.client_id, "python", ["only.here"])
    by_subject = await system.connz(account="$G", filter_subject="only.here", server="n0")
    assert [one.cid for one in by_subject[0].data.connections] == [app.client_id]
    by_user = await system.connz(user="admin", server="n0")
    assert {one.account for one in by_user[0].data.connections} == {"$SYS"}
    assert all(one.authorized_user for one in by_user[0].data.connections)
    (by_cid,) = await system.connz(cid=app.client_id, server="n0", subscriptions_detail=True)
    assert by_cid.data.connections[0].subscriptions_list_detail[0].subject == "only.here"


async def test_connz_reads_every_page(admin: Client, servers: dict[str, NatsServer]) -> None:
    """The server sends at most 1,024 connections at a time."""
    for _ in range(1100):
        with socket.create_connection(("127.0.0.1", servers["n2"].port)) as sock:
            sock.sendall(b'CONNECT {"verbose":false,"name":"short"}\r\nPING\r\n')
            while b"PONG" not in sock.recv(65_536):
                pass

    async def closed(**options: Any) -> Connz:
        return (await admin.system(**LONG).connz(state="closed", server="n2", **options))[0].data

    async def all_closed() -> bool:
        return [one.name for one in (await closed()).connections or ()].count("short") == 1100

    await until(all_closed)
    found = await closed()
    listed = [one.cid for one in found.connections or () if one.name == "short"]
    assert len(listed) == len(set(listed)) == 1100
    assert found.num_connections == len(found.connections or ()) == found.total
    assert found.connections[0].stop is not None  # type: ignore[index]
    page = await closed(offset=10, limit=5, sort="stop")
    assert (len(page.connections or ()), page.offset) == (5, 10)


async def test_subsz_reads_every_page_and_tests_a_subject(admin: Client, app: Client) -> None:
    for number in range(1500):
        await app.subscribe(f"many.{number}")
    await app.flush()
    system = admin.system(**LONG)
    (listed,) = await system.subsz(account="$G", server="n0")
    subjects = {one.subject for one in listed.data.subscriptions_list}
    assert {f"many.{number}" for number in range(1500)} <= subjects
    assert len(listed.data.subscriptions_list) == listed.data.total
    (page,) = await system.subsz(account="$G", server="n0", limit=7)
    assert len(page.data.subscriptions_list) == 7
    (matching,) = await system.subsz(test="many.7", server="n0")
    assert [one.subject for one in matching.data.subscriptions_list] == ["many.7"]
    (counts,) = await system.subsz(server="n0")
    assert counts.data.subscriptions_list is None
    assert counts.data.num_subscriptions > 1500


async def test_jsz_lists_accounts_streams_and_consumers(admin: Client, app: Client) -> None:
    js = app.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"], num_replicas=3)
    await js.add_consumer("ORDERS", durable_name="billing")
    await js.publish("orders.a", b"x")
    system = admin.system(**LONG)
    info = await js.stream_info("ORDERS")

    async def is_everywhere() -> bool:
        """Two of the three servers suffice to create a stream and a consumer."""
        shown = {}
        for answer in await system.jsz(consumers=True):
            for account in answer.data.account_details or ():
                for one in account.stream_detail or ():
                    if one.cluster.leader == info.cluster.leader:
                        shown[answer.server.name] = one
        return len(shown) == 3 and bool(shown[info.cluster.leader].consumer_detail)

    await until(is_everywhere)
    leaders = []
    for answer in await system.jsz(consumers=True, config=True):
        (account,) = answer.data.account_details
        (stream,) = account.stream_detail
        assert (account.name, stream.name, stream.config.subjects) == ("$G", "ORDERS", ["orders.>"])
        # The server sends no limit as 18446744073709551615.
        assert account.reserved_storage == -1
        assert account.as_dict()["reserved_storage"] == 2**64 - 1
        leaders.append(stream.cluster.leader)
        if answer.server.name == stream.cluster.leader:
            assert [consumer.name for consumer in stream.consumer_detail] == ["billing"]
    assert set(leaders) == {info.cluster.leader}
    led = await system.jsz(streams=True, stream_leader_only=True)
    holders = [a.server.name for a in led if any(one.stream_detail for one in a.data.account_details or ())]
    assert holders == [info.cluster.leader]
    # The end of these answers is known by the pause after the last one.
    (meta,) = await admin.system(timeout=60, stall=2).jsz(leader_only=True)
    assert meta.data.meta_cluster is not None
    assert meta.data.meta_cluster.leader == meta.server.name
    assert (await system.jsz(account="$G", streams=True, server="n0"))[0].data.account_details[0].stream_detail
    await js.delete_stream("ORDERS")


async def test_healthz_states_whether_a_server_is_healthy(admin: Client, app: Client) -> None:
    system = admin.system(**LONG)
    await app.jetstream().add_stream(name="HEALTHY", subjects=["healthy"], num_replicas=3)

    async def healthy() -> bool:
        return all(answer.data.ok for answer in await system.healthz(account="$G", stream="HEALTHY"))

    await until(healthy)
    for answer in await system.healthz(account="$G", stream="NO", details=True):
        assert not answer.data.ok
        assert answer.data.status_code in (404, 503)
        assert answer.data.errors
        assert answer.data.errors[0].stream == "NO"
    await app.jetstream().delete_stream("HEALTHY")


async def test_routes_accounts_and_other_connections(admin: Client) -> None:
    system = admin.system(**LONG)
    (routes,) = await system.routez(server="n0", subscriptions=True)
    assert {route.remote_name for route in routes.data.routes} == {"n1", "n2"}
    assert any(route.subscriptions_list for route in routes.data.routes)
    assert {(await system.accountz())[0].data.system_account} == {"$SYS"}
    (one,) = await system.accountz(account="$G", server="n0")
    assert one.data.account_detail["account_name"] == "$G"
    assert (await system.leafz(account="$G"))[0].data.leafs == []
    assert (await system.gatewayz(name="other", accounts=True))[0].data.outbound_gateways == {}


@pytest.mark.parametrize("verb", VERBS)
async def test_unknown_option_is_an_error_with_the_nearest_name(admin: Client, verb: str) -> None:
    with pytest.raises(TypeError, match=rf"{verb} has no option 'servr'; did you mean 'server'"):
        await getattr(admin.system(), verb)(servr="n0")


async def test_invalid_options_are_errors(admin: Client) -> None:
    system = admin.system(**LONG)
    with pytest.raises(TypeError, match="did you mean 'subscriptions'"):
        await system.connz(subscription=True)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"state='closd' is not one of open, closed, all; did you mean 'closed'"):
        await system.connz(state="closd")
    with pytest.raises(ValueError, match="did you mean 'bytes_to'"):
        await system.connz(sort="byte_to")
    with pytest.raises(ValueError, match="filter_subject needs account="):
        await system.connz(filter_subject="a")
    with pytest.raises(ValueError, match="consumer='c' needs stream="):
        await system.healthz(consumer="c")
    with pytest.raises(ValueError, match="server, or cluster, domain and tags"):
        await system.varz(server="n0", cluster="C")
    with pytest.raises(ValueError, match="server must not be empty"):
        await system.varz(server="")
    with pytest.raises(TypeError, match="did you mean 'timeout'"):
        admin.system(timeot=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="stall must be positive"):
        admin.system(stall=0)


@pytest.mark.parametrize("chosen", [{}, {"server": "n0"}])
async def test_option_that_the_server_rejects_is_a_typed_error(admin: Client, chosen: dict[str, str]) -> None:
    with pytest.raises(
        SystemRequestError, match=r"rejected SUBSZ: invalid test subject.*code 500.*correct the options"
    ):
        await admin.system().subsz(test="a.*", **chosen)  # type: ignore[arg-type]
    with pytest.raises(SystemRequestError, match="only valid on closed connections"):
        await admin.system().connz(sort="stop", **chosen)  # type: ignore[arg-type]


async def test_unknown_server_is_an_error_with_the_nearest_name(admin: Client) -> None:
    with pytest.raises(ServerNotFoundError, match=r"none of 3 servers has the name 'n00'.*did you mean 'n0'"):
        await admin.system().varz(server="n00")
    unknown = "N" + "A" * 55
    with pytest.raises(ServerNotFoundError, match=f"no server has the id or name '{unknown}'"):
        await admin.system().varz(server=unknown)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("chosen", [{}, {"server": "n0"}, {"cluster": "C"}, {"server": "N" + "A" * 55}])
async def test_without_the_system_account_an_error_names_the_remedy(
    app: Client, verb: str, chosen: dict[str, str]
) -> None:
    begin = time.monotonic()
    with pytest.raises(SystemAccountError, match=r"503 No Responders.*user of the system account.*accounts \{ \$SYS"):
        await getattr(app.system(**LONG), verb)(**chosen)
    assert time.monotonic() - begin < LONG["stall"] / 2


async def test_user_without_permission_gets_the_same_error(servers: dict[str, NatsServer]) -> None:
    async with await jetarrow.connect(servers["n0"].url, user="limited", password="x") as nc:
        begin = time.monotonic()
        with pytest.raises(SystemAccountError, match="permissions violation") as caught:
            await nc.system(**LONG).varz()
        assert time.monotonic() - begin < LONG["stall"] / 2
        assert isinstance(caught.value.__cause__, PermissionsViolationError)


async def test_response_of_another_program_is_a_typed_error() -> None:
    config = "accounts { $SYS { users: [{ user: admin, password: x }] } }\njetstream: disabled"
    with NatsServer(config=config, jetstream=False) as server:
        async with await jetarrow.connect(server.url) as nc:
            for text in (b"{", b"[]", b'{"server": {}, "statsz": 3}', b'{"server": 1}', b"{}"):

                async def answer(msg: Any, text: bytes = text) -> None:
                    await msg.respond(text)

                sub = await nc.subscribe("$SYS.REQ.SERVER.PING", cb=answer)
                with pytest.raises(SystemRequestError, match="could not read the response to STATSZ"):
                    await nc.system().varz()
                await sub.unsubscribe()


@pytest.fixture
def mortal() -> Iterator[dict[str, NatsServer]]:
    """A cluster whose servers the test stops."""
    with cluster(more=ACCOUNTS) as servers:
        ready(servers)
        yield servers


async def test_stopped_and_killed_servers_are_missing(mortal: dict[str, NatsServer]) -> None:
    async with await jetarrow.connect(mortal["n0"].url, **USER) as nc:
        system = nc.system(timeout=20, stall=5)
        (n2,) = await system.ping(server="n2")
        mortal["n2"].pause()
        for call in (system.ping, system.varz, lambda: system.connz(cluster="C")):
            begin = time.monotonic()
            answers = await call()
            assert ([answer.server.name for answer in answers], answers.missing) == (["n0", "n1"], 1)
            # The stall ends the call, not the timeout.
            assert time.monotonic() - begin < 15
        with pytest.raises(ServerNotFoundError, match=r"none of 3 servers \(1 of them did not answer\)"):
            await nc.system(timeout=2).varz(server="n2")
        with pytest.raises(TimeoutError, match=r"could not request VARZ of server '.*': no answer within 0.2 s"):
            await nc.system(timeout=0.2).varz(server=n2.server.id)
        # A server that answers late, after the pause that ends a list, is found by its name.
        late = asyncio.ensure_future(nc.system(timeout=60, stall=0.1).varz(server="n2"))
        await asyncio.wait([late], timeout=1)
        mortal["n2"].resume()
        assert [answer.server.name for answer in await late] == ["n2"]
        mortal["n2"].kill()

        async def only_two_answer() -> bool:
            return [answer.server.name for answer in await system.varz()] == ["n0", "n1"]

        await until(only_two_answer)
        mortal["n1"].stop()

        async def one_is_known() -> bool:
            # A server that stops in order announces it.
            answers = await system.varz()
            return [answer.server.name for answer in answers] == ["n0"] and answers.missing <= 1

        await until(one_is_known)


def test_types_are_exported() -> None:
    kinds = {Varz, Connz, Jsz, Healthz, Subsz, Routez}
    assert len(kinds) == 6
    assert {kind.__name__ for kind in kinds} <= set(models.__all__)
    for name in models.__all__:
        assert getattr(models, name).from_response({"of_newer": 1}).as_dict()["of_newer"] == 1
