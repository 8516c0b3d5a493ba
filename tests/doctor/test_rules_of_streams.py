"""The rules of `js.doctor` about streams, at their thresholds."""

from __future__ import annotations

from typing import Any

import pytest
from jetarrow.jetstream.doctor.rules import RULES
from jetarrow.jetstream.doctor.snapshot import ConsumerFacts, ServerFacts, StreamFacts

from .facts import account, ago, all_of, consumer, found, of_consumer, snapshot, stream

CLUSTER = {"name": "C", "leader": "n1"}


def peer(name: str, **state: Any) -> dict[str, Any]:
    return {"name": name, "current": True, "active": 10**8, **state}


def test_healthy_facts_have_no_findings() -> None:
    server = ServerFacts("n0", "2.15.1", sync_interval=120, sync_always=True)
    assert len(RULES) > 20
    assert found(of_consumer(consumer(), account=account(), servers=(server,), is_whole_account=True)) == []


@pytest.mark.parametrize(
    ("replicas", "cluster", "severity"),
    [(1, CLUSTER, ["warning"]), (2, CLUSTER, ["warning"]), (3, CLUSTER, []), (1, {"leader": "n1"}, []), (1, None, [])],
)
def test_few_replicas_in_a_cluster_are_a_warning(replicas: int, cluster: Any, severity: list[str]) -> None:
    facts = snapshot(stream(config={"num_replicas": replicas}, cluster=cluster))
    assert found(facts) == [(one, "stream S") for one in severity]


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"storage": "memory"}, "its server restarts"),
        ({"storage": "memory", "num_replicas": 3}, "all of its 3 servers"),
        ({"persist_mode": "async"}, "before it is written"),
        ({"no_ack": True}, "not acknowledged"),
        ({"subjects": None}, "stores nothing"),
    ],
)
def test_settings_that_lose_messages_are_warnings(config: dict[str, Any], word: str) -> None:
    (finding,) = all_of(snapshot(stream(config=config)))
    assert (finding.severity, finding.object) == ("warning", "stream S")
    assert word in finding.problem


def test_a_sealed_stream_is_an_info() -> None:
    assert found(snapshot(stream(config={"sealed": True}))) == [("info", "stream S")]


@pytest.mark.parametrize(("window", "count"), [(29.9, 1), (30, 0), (120, 0)])
def test_duplicate_window_is_compared_with_the_retry_time(window: float, count: int) -> None:
    assert len(found(snapshot(stream(config={"duplicate_window": int(window * 1e9)})))) == count
    mirror = {"duplicate_window": 0, "subjects": None, "mirror": {"name": "O"}}
    assert found(snapshot(stream(config=mirror))) == []


@pytest.mark.parametrize(
    ("replicas", "interval", "always", "severity"),
    [
        (1, 120, False, "warning"),
        (3, 120, False, "info"),
        (3, 121, False, "warning"),
        (1, 120, True, None),
        (1, None, False, None),
    ],
)
def test_sync_interval_is_judged_with_the_replicas(
    replicas: int, interval: float | None, always: bool, severity: str | None
) -> None:
    server = ServerFacts("n0", "2.15.1", sync_interval=interval, sync_always=always)
    facts = snapshot(stream(config={"num_replicas": replicas}), servers=(server,))
    assert found(facts) == ([] if severity is None else [(severity, "server n0")])
    assert found(snapshot(stream(config={"num_replicas": replicas}), servers=None)) == []


@pytest.mark.parametrize(("messages", "severity"), [(79, []), (80, ["warning"]), (99, ["warning"]), (100, ["error"])])
@pytest.mark.parametrize("limit", ["max_msgs", "max_bytes"])
def test_a_limit_that_rejects_messages(limit: str, messages: int, severity: list[str]) -> None:
    state = {"messages" if limit == "max_msgs" else "bytes": messages}
    facts = snapshot(stream(config={limit: 100, "discard": "new"}, state=state))
    assert found(facts) == [(one, "stream S") for one in severity]
    assert all("rejected (discard new)" in one.problem for one in all_of(facts))


@pytest.mark.parametrize(("first", "severity"), [(1, "warning"), (2, "info")])
def test_a_limit_that_deletes_messages_is_an_info_once_it_does(first: int, severity: str) -> None:
    state = {"messages": 90, "first_seq": first}
    facts = snapshot(stream(config={"max_msgs": 100}, state=state))
    assert found(facts) == [(severity, "stream S")]
    assert "deleted (discard old)" in all_of(facts)[0].problem


@pytest.mark.parametrize(("retention", "pending"), [("limits", 5), ("workqueue", 0)])
def test_a_limit_that_deletes_unprocessed_messages_is_a_warning(retention: str, pending: int) -> None:
    info = stream(config={"max_msgs": 100, "retention": retention}, state={"messages": 90, "first_seq": 7})
    assert found(of_consumer(consumer(num_pending=pending), info)) == [("warning", "stream S")]


@pytest.mark.parametrize(("count", "severity"), [(7, []), (8, ["warning"]), (10, ["error"])])
def test_max_msgs_per_subject_is_judged_if_it_rejects(count: int, severity: list[str]) -> None:
    config = {"max_msgs_per_subject": 10, "discard": "new"}
    for rejects in (True, False):
        facts = StreamFacts(stream(config={**config, "discard_new_per_subject": rejects}), subjects={"s.a": count})
        assert found(snapshot(facts)) == [(one, "stream S") for one in severity if rejects]


@pytest.mark.parametrize(("used", "count"), [(7, 0), (8, 1)])
def test_max_consumers_and_max_waiting(used: int, count: int) -> None:
    info = stream(config={"max_consumers": 10}, state={"consumer_count": used})
    assert found(snapshot(info)) == [("warning", "stream S")] * count
    waiting = consumer(config={"max_waiting": 10}, num_waiting=used)
    assert found(of_consumer(waiting)) == [("warning", "consumer S > C")] * count


@pytest.mark.parametrize(("limit", "severity"), [(11, []), (10, ["warning"]), (8, ["error"])])
@pytest.mark.parametrize("name", ["max_storage", "max_memory", "max_streams", "max_consumers"])
def test_limits_of_the_account(name: str, limit: int, severity: list[str]) -> None:
    assert found(snapshot(account=account(**{name: limit}))) == [(one, "account") for one in severity]


def test_limits_of_a_tier_and_reserved_bytes() -> None:
    whole = account()
    whole.tiers = {"R3": account(max_streams=9)}  # type: ignore[dict-item]  # with the same attributes
    assert found(snapshot(account=whole)) == [("warning", "account, tier R3")]
    reserved = account(max_storage=100)
    reserved.reserved_storage = 2**64 - 1
    assert found(snapshot(account=reserved)) == []
    reserved.reserved_storage = 100
    (finding,) = all_of(snapshot(account=reserved))
    assert (finding.severity, "reserved" in finding.problem) == ("warning", True)


@pytest.mark.parametrize(
    ("peers", "severity"),
    [
        ([peer("n2"), peer("n3")], []),
        ([peer("n2", active=9_999_999_999), peer("n3")], []),
        ([peer("n2", active=10 * 10**9), peer("n3")], ["warning"]),
        ([peer("n2", offline=True), peer("n3")], ["warning"]),
        ([peer("n2", offline=True), peer("n3", offline=True)], ["error"]),
        ([peer("n2", current=False, lag=7), peer("n3")], ["warning"]),
        ([peer("n2", current=False, offline=True), peer("n3", current=False)], ["warning", "warning"]),
    ],
)
def test_replicas_that_are_offline_or_late(peers: list[dict[str, Any]], severity: list[str]) -> None:
    info = stream(config={"num_replicas": 3}, cluster={**CLUSTER, "replicas": peers})
    assert found(snapshot(info)) == [(one, "stream S") for one in severity]


def test_streams_and_consumers_without_a_leader_are_errors() -> None:
    info = stream(config={"num_replicas": 3}, cluster={"name": "C"})
    late = consumer(cluster={"name": "C"})
    assert found(of_consumer(late, info)) == [("error", "stream S"), ("error", "consumer S > C")]
    assert found(snapshot(unavailable="no leader")) == [("error", "JetStream")]
    facts = snapshot(missing=("GONE",), offline={"stream OLD": "unsupported"})
    assert found(facts) == [("error", "stream GONE"), ("error", "stream OLD")]


@pytest.mark.parametrize(("leaders", "count"), [(["n1"] * 3, 1), (["n1"] * 2, 0), (["n1", "n1", "n2"], 0)])
def test_one_server_that_leads_all_streams(leaders: list[str], count: int) -> None:
    streams = [
        stream(config={"name": f"S{number}", "num_replicas": 3}, cluster={"name": "C", "leader": name})
        for number, name in enumerate(leaders)
    ]
    assert found(snapshot(*streams, is_whole_account=True)) == [("warning", "server n1")] * count
    assert found(snapshot(*streams)) == []


@pytest.mark.parametrize(
    ("state", "created", "severity"),
    [
        ({"active": 29 * 10**9, "lag": 4}, 3600, []),
        ({"active": 30 * 10**9, "lag": 0}, 3600, ["warning"]),
        ({"active": -1}, 29, []),
        ({"active": -1}, 30, ["warning"]),
        ({"active": 1, "error": {"code": 404, "description": "stream not found"}}, 0, ["error"]),
    ],
)
@pytest.mark.parametrize("kind", ["mirror", "source"])
def test_mirrors_and_sources(kind: str, state: dict[str, Any], created: float, severity: list[str]) -> None:
    copied = {"name": "O", **state}
    if kind == "mirror":
        info = stream(config={"subjects": None, "mirror": {"name": "O"}}, mirror=copied, created=ago(created))
    else:
        info = stream(config={"sources": [{"name": "O"}]}, sources=[copied], created=ago(created))
    assert found(snapshot(info)) == [(one, "stream S") for one in severity]


def test_settings_that_a_server_or_this_client_does_not_have() -> None:
    atomic = stream(config={"allow_atomic": True})
    assert found(snapshot(atomic)) == []
    assert found(snapshot(atomic, version="2.11.9")) == [("error", "stream S")]
    (finding,) = all_of(snapshot(atomic, servers=(ServerFacts("n0", "2.15.1"), ServerFacts("n1", "2.11.9"))))[1:]
    assert (finding.object, finding.evidence) == ("stream S", "n1: nats-server 2.11.9")
    assert "2.12 or newer" in finding.remedy
    level = stream(config={"metadata": {"_nats.req.level": "6"}})
    assert found(snapshot(level, account=account())) == [("error", "stream S")]
    # The level is unknown.
    assert found(snapshot(level, account=None)) == []
    assert found(snapshot(stream(config={"from_the_future": 1}))) == [("info", "stream S")]


def test_durable_consumers_that_are_less_durable_than_their_stream() -> None:
    assert found(of_consumer(consumer(config={"mem_storage": True}))) == [("warning", "consumer S > C")]
    three = stream(config={"num_replicas": 3})
    assert found(of_consumer(consumer(config={"num_replicas": 1}), three)) == [("warning", "consumer S > C")]
    ephemeral = consumer(config={"durable_name": None, "mem_storage": True, "num_replicas": 1})
    assert found(of_consumer(ephemeral, three)) == []
    assert found(of_consumer(ConsumerFacts(consumer(config={"num_replicas": 0})), three)) == []
