"""`jetarrow doctor`: exit codes, the table, `--json`, thresholds, and the connection of the system account."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import jetarrow.sync
import pytest
from jetarrow.cli.exit_codes import EXIT_CODES
from jetarrow.server import NatsServer

from tests.cli.tools import Command, run_in_terminal

ACCOUNTS = """
accounts {
  APP { jetstream: enabled, users: [{user: app, password: pw}] }
  SYS { users: [{user: sys, password: pw}] }
}
system_account: SYS
no_auth_user: app
"""


@pytest.fixture
def js(
    own_sync: jetarrow.sync.JetStream, own_server: NatsServer, monkeypatch: pytest.MonkeyPatch, away: Path
) -> jetarrow.sync.JetStream:
    monkeypatch.setenv("NATS_URL", own_server.url)
    own_sync.add_stream(name="ORDERS", subjects=["orders.>"])
    return own_sync


def test_exit_codes_are_those_of_the_worst_finding(js: jetarrow.sync.JetStream, cli: Command) -> None:
    healthy = cli("doctor")
    assert (healthy.code, healthy.out) == (0, "")
    assert healthy.err.splitlines()[-1] == "no findings"
    js.add_consumer("ORDERS", durable_name="idle")
    js.pause_consumer("ORDERS", "idle", "2099-01-01T00:00:00Z")
    paused = cli("doctor")
    assert (paused.code, paused.err.splitlines()[-1]) == (0, "1 info")
    js.add_stream(name="M", subjects=["m"], storage="memory")
    warned = cli("doctor")
    assert (warned.code, warned.err.splitlines()[-1]) == (1, "1 warning, 1 info")
    js.add_stream(name="FULL", subjects=["full"], max_msgs=1, discard="new")
    js.publish("full", b"x")
    failed = cli("doctor")
    assert (failed.code, failed.err.splitlines()[-1]) == (2, "1 error, 1 warning, 1 info")
    assert re.findall("^(error|warning|info)", failed.out, re.MULTILINE) == ["error", "warning", "info"]
    # One stream only.
    assert [cli("doctor", name).code for name in ("ORDERS", "M", "FULL")] == [0, 1, 2]
    documented = dict(EXIT_CODES)
    assert all("doctor" in documented[code] for code in (0, 1, 2))


def test_json_has_evidence_and_remedy(js: jetarrow.sync.JetStream, cli: Command) -> None:
    js.add_stream(name="M", subjects=["m"], storage="memory")
    done = cli("doctor", "M", "--json")
    assert done.code == 1
    (finding,) = json.loads(done.out)["findings"]
    assert list(finding) == ["severity", "object", "problem", "remedy", "evidence"]
    assert finding["object"] == "stream M"
    healthy = cli("doctor", "ORDERS", "--json")
    assert healthy.code == 0
    assert json.loads(healthy.out)["findings"] == []
    assert "system account" in json.loads(healthy.out)["not_checked"][0]


def test_thresholds_are_options_with_their_defaults_in_the_help(js: jetarrow.sync.JetStream, cli: Command) -> None:
    js.add_consumer("ORDERS", durable_name="C")
    js.publish("orders.eu", b"x")
    assert cli("doctor").code == 0
    for option, value in (("--lag", "1ms"), ("--idle", "0s"), ("--batch", "1001"), ("--retry-time", "3m")):
        assert cli("doctor", option, value).code == 1, option
    shown = cli("doctor", "--help").out
    options = ("full", "lag", "idle", "ephemeral-idle", "retry-time", "batch", "clock", "source-silence")
    assert all(f"--{name}" in shown for name in (*options, "replica-silence", "certificate", "measure"))
    assert shown.count("[default: ") == 11
    wrong = cli("doctor", "--lag", "soon")
    assert (wrong.code, "is not a duration" in wrong.err) == (2, True)


def test_the_table_fits_into_80_columns(js: jetarrow.sync.JetStream, monkeypatch: pytest.MonkeyPatch) -> None:
    js.add_stream(name="A_STREAM_WITH_A_LONG_NAME", subjects=["m"], storage="memory", duplicate_window=1)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    code, shown = run_in_terminal("doctor", "A_STREAM_WITH_A_LONG_NAME")
    assert code == 1
    table = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown.splitlines()]
    rows = table[: next(at for at, line in enumerate(table) if line.startswith("not checked"))]
    assert len(rows) > 8
    assert max(map(len, rows)) <= 80
    text = " ".join(" ".join(row[30:] for row in rows).split())
    assert "Remedy: create a stream with storage file; the storage of an existing stream cannot be changed" in text


def test_the_system_account_is_a_context(away: Path, cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with NatsServer(config=ACCOUNTS) as server:
        monkeypatch.setenv("NATS_URL", server.url)
        folder = away.parent / "config" / "nats" / "context"
        folder.mkdir(parents=True)
        context = {"url": server.url, "user": "sys", "password": "pw"}
        (folder / "sys.json").write_text(json.dumps(context), "utf-8")
        assert cli("stream", "add", "S", "--subjects", "s").code == 0
        alone = cli("doctor")
        assert alone.code == 0
        assert "not checked: sync interval" in alone.err
        whole = cli("doctor", "--system-context", "sys", "--json")
        assert whole.code == 1, whole.err
        found = json.loads(whole.out)
        assert found["not_checked"] == []
        assert "sync_interval 2m" in found["findings"][0]["evidence"]
        # The system account itself has no JetStream.
        failed = cli("doctor", "--context", "sys")
        assert (failed.code, "--system-context" in failed.err) == (1, True)


def test_the_session_of_the_guide(away: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/doctor.md: its commands run, and the diagnosis writes the documented lines to 80 columns."""
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text("utf-8")
    (session,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    steps = [block.splitlines() for block in session.split("$ jetarrow ")[1:]]
    assert len(steps) == 6
    with NatsServer() as server:
        monkeypatch.setenv("NATS_URL", server.url)
        for typed, *expected in steps:
            code, shown = run_in_terminal(*shlex.split(typed))
            lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in shown.splitlines()]
            assert code == (2 if typed.startswith("doctor") else 0)
            if expected:
                assert [line for line in lines if line] == expected, "\n".join(lines)
