"""Each finding of `js.doctor` about streams and the account, planted on a real server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import jetarrow
import jetarrow.sync
import pytest
from jetarrow.jetstream.doctor import system
from jetarrow.jetstream.doctor.finding import Finding
from jetarrow.jetstream.doctor.thresholds import Thresholds
from jetarrow.js.client import JetStreamContext
from jetarrow.js.errors import NotFoundError
from jetarrow.server import NatsServer

from ..tools import until


def only(findings: Any) -> Finding:
    """The only finding."""
    (finding,) = findings
    assert isinstance(finding, Finding)
    assert all(finding.as_dict().values())
    return finding


async def test_a_healthy_stream_has_no_findings(js: JetStreamContext, stream: str) -> None:
    await js.publish_batch(f"{stream}.a", [b"x"] * 10)
    sub = await js.pull_subscribe(f"{stream}.>", durable="healthy")
    for msg in await sub.fetch(10):
        await msg.ack_sync(timeout=20)
    found = await js.doctor(stream)
    assert list(found) == []
    assert found.worst is None
    assert "system account" in found.not_checked[0]


async def test_a_missing_stream_raises(js: JetStreamContext) -> None:
    with pytest.raises(NotFoundError, match="NOPE"):
        await js.doctor("NOPE")
    with pytest.raises(ValueError, match="stream"):
        await js.doctor("a.b")


async def test_system_must_be_a_client_of_the_same_face(js: JetStreamContext, stream: str, nats_url: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc, pytest.raises(TypeError, match="same face"):
        await js.doctor(stream, system=nc)


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"storage": "memory"}, "memory storage"),
        ({"duplicate_window": 5}, "duplicate window is shorter"),
        ({"persist_mode": "async"}, "persist mode async"),
        ({"no_ack": True}, "not acknowledged"),
    ],
)
async def test_settings_of_a_stream(own: JetStreamContext, config: dict[str, Any], word: str) -> None:
    await own.add_stream(name="P", subjects=["p"], **config)
    finding = only(await own.doctor("P"))
    assert (finding.severity, finding.object) == ("warning", "stream P")
    assert word in finding.problem


@pytest.mark.parametrize(
    ("config", "severity", "words"),
    [
        ({"max_msgs": 10, "discard": "new"}, "warning", "max_msgs is 80% full: at the limit messages are rejected"),
        ({"max_msgs": 8, "discard": "new"}, "error", "max_msgs is 100% full: at the limit messages are rejected"),
        ({"max_msgs": 10}, "warning", "max_msgs is 80% full: at the limit the oldest messages will be deleted"),
        ({"max_msgs": 7}, "info", "max_msgs is 100% full: the oldest messages are deleted"),
        ({"max_bytes": 10_000}, "warning", "max_bytes is"),
        ({"max_msgs": 10, "retention": "workqueue"}, "warning", "also unprocessed ones"),
        (
            {"max_msgs_per_subject": 10, "discard": "new", "discard_new_per_subject": True},
            "warning",
            "max_msgs_per_subject is 80% full",
        ),
    ],
)
async def test_limits_of_a_stream(own: JetStreamContext, config: dict[str, Any], severity: str, words: str) -> None:
    await own.add_stream(name="P", subjects=["p"], **config)
    await own.publish_batch("p", [b"x" * 1000] * 8)
    finding = only(await own.doctor("P"))
    assert (finding.severity, finding.object) == (severity, "stream P")
    assert words in finding.problem


async def test_a_bucket_with_full_histories_has_no_findings(own: JetStreamContext) -> None:
    bucket = await own.create_key_value(bucket="B", history=1)
    for _ in range(3):
        await bucket.put("key", b"1")
    assert list(await own.doctor("KV_B")) == []


async def test_max_consumers(own: JetStreamContext) -> None:
    await own.add_stream(name="P", subjects=["p"], max_consumers=2)
    for name in "ab":
        await own.add_consumer("P", durable_name=name)
    finding = only(await own.doctor("P"))
    assert "max_consumers is 100% full" in finding.problem


async def test_limits_of_the_account() -> None:
    config = """
        accounts { APP { jetstream: {max_streams: 2, max_store: 1MB}, users: [{user: app, password: pw}] } }
        no_auth_user: app
    """
    with NatsServer(config=config) as server:
        async with await jetarrow.connect(server.url, user="app", password="pw") as nc:
            js = nc.jetstream()
            await js.add_stream(name="A", subjects=["a"])
            assert list(await js.doctor()) == []
            await js.add_stream(name="B", subjects=["b"], max_bytes=900 * 1024)
            findings = {one.problem.partition(":")[0]: one.severity for one in await js.doctor()}
            assert findings == {"max_streams is 100% full": "error", "max_storage is 88% reserved": "warning"}


async def test_a_mirror_whose_origin_is_gone(own: JetStreamContext) -> None:
    await own.add_stream(name="O", subjects=["o"])
    await own.add_stream(name="M", mirror={"name": "O"})

    async def is_active() -> bool:
        mirror = (await own.stream_info("M")).mirror
        return mirror is not None and (mirror.active or -1) > 0

    await until(is_active)
    # Heartbeats are sent once a second.
    assert list(await own.doctor("M", thresholds=Thresholds(source_silence=5))) == []
    await own.delete_stream("O")
    silent = Thresholds(source_silence=2)

    async def found() -> bool:
        return len(await own.doctor("M", thresholds=silent)) > 0

    await until(found)
    finding = only(await own.doctor("M", thresholds=silent))
    assert finding.severity in ("warning", "error")
    assert "copying from stream O" in finding.problem


async def test_a_source_that_does_not_exist(own: JetStreamContext) -> None:
    await own.add_stream(name="P", sources=[{"name": "NOPE"}])
    finding = only(await own.doctor("P", thresholds=Thresholds(source_silence=0)))
    assert finding.severity in ("warning", "error")
    assert "copying from stream NOPE" in finding.problem


async def test_a_sealed_stream(own: JetStreamContext) -> None:
    await own.add_stream(name="P", subjects=["p"])
    await own.update_stream(name="P", subjects=["p"], sealed=True)
    finding = only(await own.doctor("P"))
    assert (finding.severity, "sealed" in finding.problem) == ("info", True)


@pytest.mark.newest_server
async def test_a_stream_without_subjects(own: JetStreamContext) -> None:
    await own.add_stream(name="O", subjects=["o"])
    await own.add_stream(name="M", mirror={"name": "O"})
    await own.update_stream(name="M", mirror=None)
    findings = [one.problem for one in await own.doctor("M") if "subjects" in one.problem]
    # Later servers set the subject to the name of the stream.
    has_subjects = bool((await own.stream_info("M")).config.subjects)
    assert len(findings) == (not has_subjects)


async def test_the_clock_of_the_client(own: JetStreamContext, monkeypatch: pytest.MonkeyPatch) -> None:
    await own.add_stream(name="P", subjects=["p"])
    now = system.client_now
    monkeypatch.setattr(system, "client_now", lambda: now() - timedelta(hours=1))
    finding = only(await own.doctor())
    assert (finding.severity, finding.object) == ("warning", "client")
    assert "1h behind that of server" in finding.problem


def test_the_blocking_face_has_the_same_verb(own_sync: jetarrow.sync.JetStream) -> None:
    own_sync.add_stream(name="P", subjects=["p"], storage="memory")
    assert only(own_sync.doctor()).object == "stream P"
