"""`jetarrow stream` and `jetarrow consumer`."""

from __future__ import annotations

import jetarrow.sync
import pytest

from tests.cli.tools import Command
from tests.tools import fill_sync

ROW = {
    "name",
    "subjects",
    "messages",
    "bytes",
    "consumers",
    "first_seq",
    "last_seq",
    "last_time",
    "storage",
    "retention",
    "replicas",
    "leader",
}


def test_a_stream_is_made_listed_and_removed(cli: Command, sync_js: jetarrow.sync.JetStream) -> None:
    options = "--subjects cli_a.>,cli_b --max-age 7d --max-bytes 64MiB --max-msg-size 1k --dupe-window 1m30s"
    made = cli("stream", "add", "CLI_A", *options.split(), "--storage", "memory", "--description", "for a test")
    assert (made.code, made.out) == (0, "created stream CLI_A (subjects: cli_a.>, cli_b)\n")
    config = sync_js.stream_info("CLI_A").config
    assert (config.max_age, config.max_bytes, config.max_msg_size) == (604_800, 64 * 1024 * 1024, 1024)
    assert (config.duplicate_window, config.storage, config.description) == (90, "memory", "for a test")
    assert "CLI_A" in cli("stream", "ls").out
    (row,) = (row for row in cli("stream", "ls", "--json").json if row["name"] == "CLI_A")
    assert set(row) == ROW
    assert row["subjects"] == ["cli_a.>", "cli_b"]
    assert row["last_time"] is None
    assert [row["name"] for row in cli("stream", "ls", "--subject", "cli_b", "--json").json] == ["CLI_A"]
    assert "CLI_A" in cli("stream", "report").out
    refused = cli("stream", "rm", "CLI_A")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert cli("stream", "rm", "CLI_A", "--yes", "--json").json == {"removed": "CLI_A"}
    gone = cli("stream", "info", "CLI_A")
    assert (gone.code, gone.out) == (1, "")
    assert "CLI_A" in gone.err
    assert gone.err.count("\n") == 1


def test_what_a_stream_holds(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    fill_sync(sync_js, stream, 5)
    sync_js.publish(f"{stream}.b", b"\xff\x00", headers={"Colour": "red"})
    shown = cli("stream", "info", stream).out
    assert "Messages  6\n" in shown
    whole = cli("stream", "info", stream, "--json").json
    assert whole["state"]["messages"] == 6
    assert whole["config"]["name"] == stream
    assert cli("stream", "subjects", stream, "--json").json == [
        {"subject": f"{stream}.a", "messages": 5},
        {"subject": f"{stream}.b", "messages": 1},
    ]
    one = cli("stream", "get", stream, "2")
    assert (one.out, f"{stream}.a" in one.err) == ("2\n", True)
    last = cli("stream", "get", stream, "--subject", f"{stream}.b", "--json").json
    assert (last["seq"], last["headers"], last["data"]) == (6, {"Colour": ["red"]}, "base64:/wA=")
    assert cli("stream", "get", stream).code == 2
    assert cli("stream", "purge", stream, "--keep", "2", "--yes", "--json").json == {"purged": 4}


def test_consumers(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str) -> None:
    assert "no consumer" in cli("consumer", "ls", stream).err
    fill_sync(sync_js, stream, 3)
    sync_js.add_consumer(stream, durable_name="billing", filter_subject=f"{stream}.a")
    assert "billing" in cli("consumer", "ls", stream).out
    (row,) = cli("consumer", "ls", stream, "--json").json
    assert (row["name"], row["pending"], row["kind"], row["filter_subjects"]) == ("billing", 3, "pull", [f"{stream}.a"])
    assert "durable pull" in cli("consumer", "info", stream, "billing").out
    assert cli("consumer", "info", stream, "billing", "--json").json["config"]["durable_name"] == "billing"
    assert cli("consumer", "pause", stream, "billing", "1h", "--json").json["paused"] is True
    paused = cli("consumer", "pause", stream, "billing", "2099-11-22T10:00+00:00")
    assert paused.out == "paused consumer billing until 2099-11-22 10:00 UTC\n"
    assert "Paused for" in cli("consumer", "info", stream, "billing").out
    assert cli("consumer", "resume", stream, "billing", "--json").json == {"paused": False}
    assert cli("consumer", "resume", stream, "billing").out == "resumed consumer billing\n"
    assert "Paused for" not in cli("consumer", "info", stream, "billing").out
    removed = cli("consumer", "rm", stream, "billing", "-y")
    assert removed.out == f"removed consumer billing of stream {stream}\n"
    assert cli("consumer", "info", stream, "billing").code == 1


@pytest.mark.parametrize("typed", ["--max-age 7x", "--max-bytes lots", "--replicas 9", "--nothing"])
def test_what_is_typed_wrongly_is_named(cli: Command, typed: str) -> None:
    wrong = cli("stream", "add", "CLI_WRONG", *typed.split())
    assert (wrong.code, wrong.out) == (2, "")
    assert typed.split()[0] in wrong.err
    assert wrong.err.endswith("See jetarrow stream add --help\n")
    assert wrong.err.count("\n") == 1
