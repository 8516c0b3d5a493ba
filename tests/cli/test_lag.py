"""`jetarrow lag`: the table, and the HTTP endpoint that Prometheus and KEDA read."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import jetarrow.sync
import pytest
from jetarrow.cli.lag import _Source
from jetarrow.cli.lag_server import CACHE_TIME, LagServer, address_of, as_json, as_metrics
from jetarrow.cli.session import Session
from jetarrow.server import NatsServer
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.test_every_verb import assert_documented
from tests.cli.test_run import ALL
from tests.cli.tools import Command, command
from tests.tools import fill_sync, gjson, wait_until

ROW = {
    "stream": "ORDERS",
    "consumer": "billing",
    "num_pending": 3,
    "num_ack_pending": 2,
    "num_redelivered": 1,
    "num_waiting": 0,
    "ack_floor": 4,
    "behind": timedelta(seconds=1.5),
    "paused": False,
}


def get(address: str) -> tuple[int, str]:
    """Returns status and body of a GET request."""
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Returns the samples of a text for Prometheus by name and label values."""
    families = list(text_string_to_metric_families(text))
    assert all(family.type == "gauge" and family.documentation for family in families)
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Starts `jetarrow lag --serve` as a process; yields it with its address."""
    typed = command("lag", *arguments, "--json")
    with subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            written = "".join(process.stdout.readline() for _ in range(3))
            assert_documented(ALL[("lag",)].shapes[1], written, ["lag", "--serve"])
            yield process, json.loads(written)["url"]
        finally:
            process.kill()


def fill(js: jetarrow.sync.JetStream, stream: str, consumer: str = "billing") -> None:
    """Adds a consumer with five messages, of which two were delivered."""
    js.add_stream(name=stream, subjects=[f"{stream}.>"])
    fill_sync(js, stream, 5)
    js.pull_subscribe(f"{stream}.>", durable=consumer).fetch(2, timeout=5)


def test_lag_lists_the_consumers_of_all_or_of_the_named_streams(cli: Command) -> None:
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        for stream in ("A", "B", "C"):
            fill(nc.jetstream(), stream)
        given = ["--server", server.url]
        assert [row["stream"] for row in cli("lag", *given, "--json").json] == ["A", "B", "C"]
        rows = cli("lag", "A", "C", *given, "--json").json
        assert [(row["stream"], row["num_pending"], row["num_ack_pending"]) for row in rows] == [
            ("A", 3, 2),
            ("C", 3, 2),
        ]
        assert_documented(ALL[("lag",)].shapes[0], cli("lag", *given, "--json").out, ["lag"])
        shown, group = cli("lag", "A", *given).out, cli("consumer", "lag", "A", *given).out
        assert shown.splitlines()[0].split() == group.splitlines()[0].split()
        assert "billing" in shown
        missing = cli("lag", "A", "NONE", *given)
        assert missing.code == 1
        assert "NONE" in missing.err
        # Also before it serves.
        assert cli("lag", "NONE", "--serve", ":0", *given).code == 1


def test_serve_answers_prometheus_and_keda() -> None:
    with NatsServer() as server, jetarrow.sync.connect(server.url) as nc:
        js = nc.jetstream()
        for stream in ("A", "B"):
            fill(js, stream)
        js.add_stream(name="EMPTY", subjects=["empty"])
        with serving("A", "EMPTY", "--serve", ":0", "--server", server.url) as (_, url):
            assert url.startswith("http://127.0.0.1:")
            status, text = get(f"{url}/metrics")
            found = samples(text)
            behind = found.pop(("jetarrow_consumer_behind_seconds", "A", "billing"))
            assert (status, behind > 0) == (200, True)
            assert found == {
                ("jetarrow_up",): 1,
                ("jetarrow_consumer_pending_messages", "A", "billing"): 3,
                ("jetarrow_consumer_ack_pending_messages", "A", "billing"): 2,
                ("jetarrow_consumer_redelivered_messages", "A", "billing"): 0,
                ("jetarrow_consumer_waiting_requests", "A", "billing"): 0,
                ("jetarrow_consumer_paused", "A", "billing"): 0,
            }
            for path in ("/lag", "/", "/lag?x=1"):
                status, text = get(url + path)
                assert status == 200
                assert gjson(json.loads(text), "streams.A.consumers.billing.lag") == 5
            assert gjson(json.loads(text), "streams.EMPTY.consumers") == {}
            assert gjson(json.loads(text), "streams.B") is None
            assert get(f"{url}/healthz") == (200, "ok\n")
            assert get(f"{url}/other")[0] == 404


def test_serve_survives_a_killed_nats_server() -> None:
    """KEDA must get an error, never a lag of 0, and Prometheus no old values."""
    with NatsServer() as server:
        with jetarrow.sync.connect(server.url) as nc:
            fill(nc.jetstream(), "A")
        with serving("--serve", ":0", "--server", server.url) as (process, url):
            assert samples(get(f"{url}/metrics")[1])["jetarrow_up",] == 1
            server.kill()
            wait_until(lambda: samples(get(f"{url}/metrics")[1]) == {("jetarrow_up",): 0}, 30)
            status, text = get(f"{url}/lag")
            assert status == 503
            assert "not connected" in json.loads(text)["error"]
            assert get(f"{url}/healthz")[0] == 200
            server.start()
            wait_until(lambda: samples(get(f"{url}/metrics")[1]).get(("jetarrow_up",)) == 1, 30)
            assert gjson(json.loads(get(f"{url}/lag")[1]), "streams.A.consumers.billing.lag") == 5
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
            assert process.stderr is not None
            assert process.stderr.read().splitlines() == [
                "warning: disconnected",
                "reconnected to the NATS server",
            ]


def test_serve_reports_a_frozen_nats_server() -> None:
    with NatsServer() as server, serving("--serve", ":0", "--server", server.url, "--timeout", "3s") as (_, url):
        server.pause()
        wait_until(lambda: samples(get(f"{url}/metrics")[1]) == {("jetarrow_up",): 0}, 30)
        assert get(f"{url}/lag")[0] == 503
        server.resume()
        wait_until(lambda: samples(get(f"{url}/metrics")[1]).get(("jetarrow_up",)) == 1, 30)


def test_serve_works_with_the_documented_permissions(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "recipes" / "operate.md").read_text("utf-8")
    section = page.split("## Serve consumer lag to Prometheus and KEDA")[1].split("```yaml")[0]
    subjects = re.findall(r"`(\$JS\.[^`]+)`", section)
    assert len(subjects) == 3
    allowed = json.dumps(subjects)
    user = f'user: lag, password: x, permissions: {{ publish: {allowed}, subscribe: "_INBOX.>" }}'
    config = f"authorization {{ users: [ {{ user: all, password: x }}, {{ {user} }} ] }}\n"
    monkeypatch.setenv("NATS_PASSWORD", "x")
    with NatsServer(config=config) as server, jetarrow.sync.connect(server.url, user="all", password="x") as nc:
        fill(nc.jetstream(), "A")
        with serving("--serve", ":0", "--server", server.url, "--user", "lag") as (_, url):
            assert gjson(json.loads(get(f"{url}/lag")[1]), "streams.A.consumers.billing.lag") == 5


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_serve_ends_with_a_signal(number: signal.Signals, code: int, nats_url: str) -> None:
    with serving("--serve", ":0", "--server", nats_url) as (process, url):
        assert get(f"{url}/healthz")[0] == 200
        process.send_signal(number)
        assert process.wait(30) == code


def test_source_opens_a_closed_connection_again(nats_url: str) -> None:
    """A server that rejects the credentials of a reconnect closes the connection for good."""
    source = _Source(Session(as_json=True, given={"server": nats_url}), None, temporary=False)
    source()
    assert source._nc is not None
    source._nc.close()
    assert isinstance(source(), list)
    source.close()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:80", ("::1", 80)),
        ("host.name:65535", ("host.name", 65535)),
    ],
)
def test_address_without_a_host_is_the_loopback_interface(text: str, address: tuple[str, int]) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize("text", ["", "9464", "host", ":", ":65536", ":x", "http://host:80", "::1:80", "[]:80"])
def test_wrong_address_is_wrong_usage(text: str, cli: Command) -> None:
    wrong = cli("lag", "--serve", text)
    assert wrong.code == 2
    assert "0.0.0.0:9464" in wrong.err


def test_address_in_use_is_a_failure(cli: Command) -> None:
    with LagServer(("127.0.0.1", 0), list) as server:
        failed = cli("lag", "--serve", f":{server.server_port}")
    assert failed.code == 1
    assert f"could not listen on 127.0.0.1:{server.server_port}" in failed.err
    assert "use another port" in failed.err


NAMES = ['quote"', "back\\slash", "line\nbreak", "ünïcode", "brace}", "a=b,c", "", 'all\\"\n']


def test_label_values_are_escaped() -> None:
    rows = [{**ROW, "stream": stream, "consumer": consumer} for stream in NAMES for consumer in NAMES]
    found = samples(as_metrics(rows))
    assert {key[1:] for key in found if len(key) == 3} == {(stream, name) for stream in NAMES for name in NAMES}
    assert len(found) == 6 * len(NAMES) ** 2 + 1


def test_unknown_age_has_no_sample() -> None:
    rows: list[dict[str, Any]] = [{**ROW, "behind": None}]
    assert ("jetarrow_consumer_behind_seconds", "ORDERS", "billing") not in samples(as_metrics(rows))
    assert gjson(as_json(rows), "streams.ORDERS.consumers.billing.behind_seconds") is None
    assert gjson(as_json([ROW]), "streams.ORDERS.consumers.billing.behind_seconds") == 1.5


def test_gjson_path_of_names_with_special_characters() -> None:
    value = as_json([{**ROW, "stream": "A.B", "consumer": "a.b|c"}])
    assert gjson(value, r"streams.A\.B.consumers.a\.b\|c.pending") == 3
    assert gjson(value, "streams.A.B.consumers") is None


@contextmanager
def in_thread(source: Any) -> Iterator[LagServer]:
    with LagServer(("127.0.0.1", 0), source) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_concurrent_scrapes_share_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, started, go = [], threading.Event(), threading.Event()

    def source() -> list[dict[str, Any]]:
        calls.append(1)
        started.set()
        assert go.wait(20)
        return [ROW]

    now = [100.0]
    monkeypatch.setattr("jetarrow.cli.lag_server.time.monotonic", lambda: now[0])
    answers: list[tuple[int, str]] = []
    with in_thread(source) as server:
        paths = [f"{server.url}/{path}" for path in ("metrics", "lag") * 10]
        threads = [threading.Thread(target=lambda path=path: answers.append(get(path))) for path in paths]
        for thread in threads:
            thread.start()
        assert started.wait(20)
        # Does not wait for the NATS server.
        assert get(f"{server.url}/healthz")[0] == 200
        go.set()
        for thread in threads:
            thread.join()
        assert [status for status, _ in answers] == [200] * 20
        assert len(calls) == 1
        now[0] += CACHE_TIME
        get(paths[0])
        assert len(calls) == 2


def test_failure_is_an_answer_without_secrets() -> None:
    def source() -> list[dict[str, Any]]:
        raise RuntimeError("no route to nats://user:hunter2@host:4222")

    with in_thread(source) as server:
        status, text = get(f"{server.url}/lag")
        assert (status, "hunter2" in text, "host:4222" in text) == (503, False, True)
        assert samples(get(f"{server.url}/metrics")[1]) == {("jetarrow_up",): 0}


def test_head_has_no_body_and_other_methods_are_rejected() -> None:
    with in_thread(lambda: [ROW]) as server:
        for method, expected in (("HEAD", 200), ("POST", 501)):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
            connection.request(method, "/metrics")
            answer = connection.getresponse()
            assert answer.status == expected
            assert answer.getheader("Server", "").strip() == "jetarrow"
            if method == "HEAD":
                assert answer.read() == b""
            connection.close()
