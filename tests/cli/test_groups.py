"""`jetarrow group`: consumer groups, their members and their state."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import jetarrow.sync
import pytest
from jetarrow.cli.group_state import MEMBER, open_group, read_members, show_partitions
from jetarrow.cli.group_watch import changes
from jetarrow.jetstream.models import ConsumerInfo
from jetarrow.server import NatsServer

from tests.cli.test_run import ALL
from tests.cli.tools import Command, Terminal, command
from tests.groups.go_peer import GoPeer
from tests.tools import wait_until

ARGUMENTS = "--partitions 6 --filter orders.*.* --partition-by 1".split()  # noqa: SIM905


@pytest.fixture
def orders(own_server: NatsServer, away: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[jetarrow.sync.JetStream]:
    monkeypatch.setenv("NATS_URL", own_server.url)
    with jetarrow.sync.connect(own_server.url) as nc:
        js = nc.jetstream()
        js.add_stream(name="ORDERS", subjects=["orders.>"])
        yield js


def test_a_group_from_creation_to_removal(cli: Command, orders: jetarrow.sync.JetStream) -> None:
    assert cli("group", "ls").err == "no consumer groups\n"
    assert cli("group", "ls", "ORDERS").err == "stream ORDERS has no consumer groups\n"
    made = cli("group", "create", "ORDERS", "billing", *ARGUMENTS, "--member", "m2", "--member", "m1")
    assert made.out == "created elastic group billing of stream ORDERS (6 partitions, members: m1, m2)\n"
    assert orders.stream_info("ORDERS-billing").config.retention == "workqueue"
    again = cli("group", "create", "ORDERS", "billing", *ARGUMENTS, "--json").json
    assert again == {
        "stream": "ORDERS",
        "name": "billing",
        "kind": "elastic",
        "partitions": 6,
        "members": ["m1", "m2"],
        "created": False,
    }
    assert cli("group", "add-member", "ORDERS", "billing", "m3", "m1").out == (
        "added m3 to group billing of stream ORDERS (members: m1, m2, m3)\n"
    )
    assert cli("group", "add-member", "ORDERS", "billing", "m3").out.startswith("nothing to add to group billing")
    removed = cli("group", "remove-member", "ORDERS", "billing", "m1", "m9")
    assert removed.out == "removed m1 from group billing of stream ORDERS (members: m2, m3)\n"
    assert cli("group", "remove-member", "ORDERS", "billing", "m1", "--json").json["members"] == ["m2", "m3"]
    (row,) = cli("group", "ls", "ORDERS", "--json").json
    assert (row["members"], row["active"], row["pending"], row["problem"]) == (["m2", "m3"], [], 0, None)
    assert cli("group", "rm", "ORDERS", "billing", "--yes").out == "removed group billing of stream ORDERS\n"
    assert [one.config.name for one in orders.streams()] == ["KV_elastic-consumer-groups", "ORDERS"]
    gone = cli("group", "info", "ORDERS", "billing")
    assert (gone.code, gone.err.count("\n")) == (1, 1)
    assert "jetarrow group ls ORDERS" in gone.err
    assert cli("group", "ls", "NONE").code == 1


def test_info_shows_who_reads_which_partitions(
    cli: Command, orders: jetarrow.sync.JetStream, pcgroups_tool: str, own_server: NatsServer
) -> None:
    cli("group", "create", "ORDERS", "billing", *ARGUMENTS, "--member", "m1", "--member", "m2")
    for number in range(7):
        orders.publish(f"orders.k{number}.x", b"")

    def counts() -> tuple[int, int]:
        found = cli("group", "info", "ORDERS", "billing", "--json").json
        return found["messages"], found["unassigned"]

    wait_until(lambda: counts() == (7, 7))
    shown = cli("group", "info", "ORDERS", "billing").out
    assert "Filter  orders.*.* by 1\n" in shown
    assert "Without a consumer  7\n" in shown
    with GoPeer(pcgroups_tool, own_server.url, "ORDERS").member("billing", "m2", work=30.0):
        wait_until(lambda: "pinned" in cli("group", "info", "ORDERS", "billing").out)
        found = cli("group", "info", "ORDERS", "billing", "--json").json
        first, second = found["members"]
        assert (first["state"], first["partitions"], first["pinned"], first["pending"]) == (
            "absent",
            [0, 1, 2],
            None,
            None,
        )
        # k0, k3 and k5 of 6 partitions are in 4, 5 and 5.
        assert (second["state"], second["partitions"]) == ("pinned", [3, 4, 5])
        assert (second["pending"], second["ack_pending"]) == (3, 1)
        assert second["pinned"]
        assert found["unassigned"] == 3
        assert cli("group", "ls", "--json").json[0]["active"] == ["m2"]
        assert second["pinned_since"].endswith("Z")
        done = cli("group", "step-down", "ORDERS", "billing", "m2")
        assert done.out == "unpinned the client of member m2 of group billing\n"
    missing = cli("group", "step-down", "ORDERS", "billing", "m7")
    assert (missing.code, missing.err.count("\n")) == (1, 1)
    assert "has no member 'm7'" in missing.err


def test_a_static_group(cli: Command, orders: jetarrow.sync.JetStream) -> None:
    made = cli(
        "group", "create", "ORDERS", "audit", "--kind", "static", "--partitions", "3", "--map", "a:0,2", "--map", "b:1"
    )
    assert made.out == "created static group audit of stream ORDERS (3 partitions, members: a, b)\n"
    found = cli("group", "info", "ORDERS", "audit", "--json").json
    assert (found["work_queue"], found["messages"], found["unassigned"]) == ("ORDERS", None, None)
    assert [(one["member"], one["partitions"], one["state"]) for one in found["members"]] == [
        ("a", [0, 2], "absent"),
        ("b", [1], "absent"),
    ]
    assert "a        absent   0, 2" in cli("group", "info", "ORDERS", "audit").out
    refused = cli("group", "add-member", "ORDERS", "audit", "c")
    assert (refused.code, "is static" in refused.err) == (1, True)
    assert cli("group", "create", "ORDERS", "audit", "--partitions", "2").code == 0
    both = cli("group", "info", "ORDERS", "audit")
    assert (both.code, "give --kind" in both.err) == (1, True)
    assert cli("group", "rm", "ORDERS", "audit", "--kind", "static", "--yes").code == 0
    assert cli("group", "info", "ORDERS", "audit", "--json").json["kind"] == "elastic"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("--partitions 0", 2, "--partitions"),
        ("--partitions 2 --partition-by 1", 2, "it needs --filter"),
        ("--partitions 2 --filter a.* --filter b.* --filter c.* --partition-by 1 --partition-by 1", 2, "one for each"),
        ("--partitions 2 --filter a.* --partition-by x", 2, "not a list of numbers"),
        ("--partitions 2 --filter a.* --partition-by 2", 1, "from 1 to 1"),
        ("--partitions 2 --filter a.b", 1, "has no `*`"),
        ("--partitions 2 --member m1 --map m2:0", 2, "not both"),
        ("--partitions 2 --map m2", 2, "member with partitions"),
        ("--partitions 2 --map m2:0", 1, "each partition"),
        ("--partitions 2 --kind static --filter a.* --partition-by 1", 2, "static group"),
        ("--partitions 2 --kind other", 2, "'other'"),
    ],
)
def test_settings_that_are_refused(
    arguments: str, code: int, words: str, cli: Command, orders: jetarrow.sync.JetStream
) -> None:
    done = cli("group", "create", "ORDERS", "G", *arguments.split())
    assert (done.code, done.err.count("\n")) == (code, 1)
    # typer colours no errors, and the name by which it calls an option differs between its versions.
    assert words in done.err
    assert [one.config.name for one in orders.streams()] == ["ORDERS"]


def test_another_configuration_is_refused(cli: Command, orders: jetarrow.sync.JetStream) -> None:
    assert cli("group", "create", "ORDERS", "G", *ARGUMENTS).code == 0
    done = cli("group", "create", "ORDERS", "G", "--partitions", "7")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "other partitions" in done.err
    assert cli("group", "create", "NONE", "G", "--partitions", "7").code == 1


def test_an_invalid_entry_does_not_hide_other_groups(cli: Command, orders: jetarrow.sync.JetStream) -> None:
    cli("group", "create", "ORDERS", "good", *ARGUMENTS)
    orders.key_value("elastic-consumer-groups").put("ORDERS.bad", b"{}")
    bad, good = cli("group", "ls", "--json").json
    assert (bad["name"], bad["partitions"], good["problem"]) == ("bad", None, None)
    assert "entry of the group" in bad["problem"]


def test_partitions_as_text() -> None:
    assert show_partitions([0, 1, 2, 6]) == "0-2, 6"
    assert show_partitions([]) == ""
    assert show_partitions([3]) == "3"


def test_changes_between_two_states() -> None:
    def row(member: str, **more: object) -> dict[str, object]:
        return {**dict.fromkeys(MEMBER.split()), "member": member, "partitions": [0], "pending": 5, **more}

    before = [row("a"), row("b"), row("c")]
    after = [row("b", pending=4), row("c", pinned="x"), row("d")]
    names = [(one["member"], one["state"]) for one in changes(before, after, counts=True)]
    assert names == [("a", "removed"), ("b", None), ("c", None), ("d", None)]
    assert [one["member"] for one in changes(before, after, counts=False)] == ["a", "c", "d"]
    assert changes(after, after, counts=True) == []


@pytest.mark.parametrize("as_json", [False, True])
def test_watch_writes_a_line_for_each_change(
    as_json: bool, cli: Command, orders: jetarrow.sync.JetStream, pcgroups_tool: str, own_server: NatsServer
) -> None:
    cli("group", "create", "ORDERS", "billing", *ARGUMENTS, "--member", "m1")
    words = ["group", "watch", "ORDERS", "billing", "--every", "100ms", "--no-counts", *(["--json"] if as_json else [])]
    with subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = process.stdout

        def next_line() -> str:
            line = lines.readline()
            if as_json:
                found = json.loads(line)
                assert (found["stream"], found["group"]) == ("ORDERS", "billing")
                assert tuple(found) == ALL["group", "watch"].shapes[0].keys
                return f"{found['member']} {found['state']} {found['partitions']}"
            _, member, state, *more = line.rstrip("\n").split("  ")
            partitions = next((one.partition(" ")[2] for one in more if one.startswith("partitions ")), "")
            first, _, last = partitions.partition("-")
            return f"{member} {state} {list(range(int(first), int(last) + 1)) if partitions else []}"

        assert next_line() == "m1 absent [0, 1, 2, 3, 4, 5]"
        cli("group", "add-member", "ORDERS", "billing", "m2")
        assert [next_line(), next_line()] == ["m1 absent [0, 1, 2]", "m2 absent [3, 4, 5]"]
        with GoPeer(pcgroups_tool, own_server.url, "ORDERS").member("billing", "m2", ack_wait=30.0):
            assert next_line() == "m2 waiting [3, 4, 5]"
            orders.publish("orders.k0.x", b"")
            assert next_line() == "m2 pinned [3, 4, 5]"
            cli("group", "remove-member", "ORDERS", "billing", "m2")
            assert [next_line(), next_line()] == ["m1 absent [0, 1, 2, 3, 4, 5]", "m2 removed []"]
        cli("group", "rm", "ORDERS", "billing", "--yes")
        assert process.wait(30) == 0
        assert process.stderr.read() == "group billing of stream ORDERS was removed\n"


def test_a_member_that_is_removed_meanwhile_is_no_absent_one(cli: Command, orders: jetarrow.sync.JetStream) -> None:
    """Configuration and consumers are read one after the other."""

    class Removing:
        """The context of another program that removes the member after the configuration was read."""

        def consumer_info(self, stream: str, consumer: str) -> ConsumerInfo:
            group.remove_member("m2")
            return orders.consumer_info(stream, consumer)

    cli("group", "create", "ORDERS", "billing", *ARGUMENTS, "--member", "m1", "--member", "m2")
    group = open_group(orders, "ORDERS", "billing")
    config, rows = read_members(Removing(), group)  # type: ignore[arg-type]
    assert config.members == ("m1",)
    assert [(row["member"], row["partitions"]) for row in rows] == [("m1", list(range(6)))]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_watch_redraws_a_table_until_q(cli: Command, orders: jetarrow.sync.JetStream) -> None:
    cli("group", "create", "ORDERS", "billing", *ARGUMENTS, "--member", "m1")
    with Terminal("group", "watch", "ORDERS", "billing", "--every", "100ms") as terminal:
        terminal.until("0-5")
        cli("group", "add-member", "ORDERS", "billing", "m2")
        terminal.until("3-5")
        orders.publish("orders.k0.x", b"")
        terminal.until("1 buffered, 1 of them without a consumer, 0 not copied yet")
        terminal.type("q")
        assert terminal.end() == 0


def test_watch_of_a_group_that_does_not_exist(cli: Command, orders: jetarrow.sync.JetStream) -> None:
    start = time.monotonic()
    done = cli("group", "watch", "ORDERS", "billing")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert time.monotonic() - start < 20
