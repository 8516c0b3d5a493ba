"""Two clusters that a gateway connects, and a leaf node with a JetStream domain."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.server import NatsServer

from ..tools import free_ports, until, wait_until
from .tools import USER, VERBS

ACCOUNTS = 'system_account: "$SYS"\naccounts { $SYS { users: [{ user: admin, password: x }] } }\n'
NAMES = ["a0", "b0", "leaf0"]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, NatsServer]]:
    at_a, at_b, leafs = free_ports(3)
    gateways = ", ".join(
        f'{{ name: {name}, urls: ["nats://127.0.0.1:{port}"] }}' for name, port in zip("AB", (at_a, at_b), strict=True)
    )
    remotes = f'{{ url: "nats://127.0.0.1:{leafs}" }}, {{ url: "nats://admin:x@127.0.0.1:{leafs}", account: "$SYS" }}'
    configs = {
        "a0": f"gateway {{ name: A, listen: 127.0.0.1:{at_a}, gateways: [{gateways}] }}\n"
        f"leafnodes {{ listen: 127.0.0.1:{leafs} }}",
        "b0": f"gateway {{ name: B, listen: 127.0.0.1:{at_b}, gateways: [{gateways}] }}",
        "leaf0": f"jetstream {{ domain: leaf }}\nleafnodes {{ remotes: [{remotes}] }}",
    }
    with contextlib.ExitStack() as stack:
        found = {}
        for name, config in configs.items():
            server = NatsServer(config=f"server_name: {name}\n{config}\n{ACCOUNTS}", jetstream=name == "leaf0")
            found[name] = stack.enter_context(server)
        with jetarrow.sync.connect(found["b0"].url, **USER) as nc:
            wait_until(lambda: [answer.data.active_servers for answer in nc.system().ping()] == [3, 3, 3], 60)
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_servers_of_all_clusters_answer(servers: dict[str, NatsServer], name: str) -> None:
    with jetarrow.sync.connect(servers[name].url, **USER) as nc:
        # Limits that no call reaches: the number of servers is known.
        everyone = nc.system(timeout=60, stall=30)
        for verb in VERBS:
            answers = getattr(everyone, verb)()
            assert [answer.server.name for answer in answers] == NAMES, verb
            assert answers.missing == 0
        system = nc.system(timeout=60, stall=30)
        assert [answer.server.name for answer in system.varz(domain="leaf")] == ["leaf0"]
        assert [answer.server.name for answer in system.ping(cluster="B")] == ["b0"]
        assert [answer.server.name for answer in nc.system(timeout=20, stall=2).jsz(leader_only=True)] == ["leaf0"]
        (leafs,) = system.leafz(server="a0")
        assert {(leaf.name, leaf.account) for leaf in leafs.data.leafs or ()} == {("leaf0", "$G"), ("leaf0", "$SYS")}
        (gateways,) = system.gatewayz(server="a0")
        assert list(gateways.data.outbound_gateways or ()) == ["B"]


async def test_traces_cross_gateways_and_leaf_nodes(servers: dict[str, NatsServer]) -> None:
    """A report over a gateway may overtake the interest in its subject, and is lost then: the trace is repeated."""
    async with (
        await jetarrow.connect(servers["a0"].url) as nc,
        await jetarrow.connect(servers["b0"].url) as on_b,
        await jetarrow.connect(servers["leaf0"].url) as on_leaf,
    ):
        for other in (on_b, on_leaf):
            await other.subscribe("far")
            await other.flush()

        async def has_reached_all(sender: jetarrow.Client) -> bool:
            return {event.server for event in await sender.trace("far")} == set(NAMES)

        await until(lambda: has_reached_all(nc), 30)
        for _ in range(20):
            found = await nc.trace("far", timeout=60)
            assert found.is_complete
            kinds = {(event.server, event.kind) for event in found if event.event == "ingress"}
            assert kinds == {("a0", "client"), ("b0", "gateway"), ("leaf0", "leafnode")}
        await until(lambda: has_reached_all(on_leaf), 30)
        found = await on_leaf.trace("far", timeout=60)
        assert [(event.server, event.hop) for event in found if event.event == "ingress"] == [
            ("leaf0", ""),
            ("a0", "1"),
            ("b0", "1.1"),
        ]
