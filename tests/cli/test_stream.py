"""`jetarrow stream` and `jetarrow consumer`."""

from __future__ import annotations

import shlex

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
    missing = cli("stream", "get", stream, "77")
    assert (missing.code, missing.out, missing.err.count("\n")) == (1, "", 1)
    assert f"could not read sequence 77 of stream '{stream}'" in missing.err
    assert missing.err.endswith("(err_code 10037); the stream has sequences 1 to 6\n")
    assert f"subject '{stream}.none'" in cli("stream", "get", stream, "--subject", f"{stream}.none").err
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


@pytest.mark.parametrize("typed", ["--max-age 7x", "--max-bytes lots", "--replicas 9", "--nothing", "--storage tape"])
def test_what_is_typed_wrongly_is_named(cli: Command, typed: str) -> None:
    wrong = cli("stream", "add", "CLI_WRONG", *typed.split())
    assert (wrong.code, wrong.out) == (2, "")
    assert typed.split()[0] in wrong.err
    assert wrong.err.endswith("See jetarrow stream add --help\n")
    assert wrong.err.count("\n") == 1


@pytest.mark.parametrize(
    "typed",
    [
        "read S --since 1h --from-seq 0",
        "read S --until 1h --until-seq 9",
        "latest S --as-of 1h --as-of-seq 9",
        "sink parquet S archive --since 1h --from-seq 1",
        "sink delta S archive --since 1h --from-seq 1",
        "stream purge S --seq 2 --keep 1 --yes",
        "stream get S 1 --subject s",
        "kv watch B --updates-only --from-revision 3",
    ],
)
def test_options_that_exclude_each_other_are_wrong_usage(cli: Command, typed: str) -> None:
    wrong = cli(*typed.split())
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (2, "", 1)
    assert wrong.err.startswith("error: ")
    assert "--" in wrong.err


@pytest.mark.parametrize(
    "typed", ["stream info no.dots", "read S --schema 'id NONSENSE'", "read S --columns nix", "bench --size lots"]
)
def test_invalid_values_are_wrong_usage(cli: Command, typed: str) -> None:
    wrong = cli(*shlex.split(typed))
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (2, "", 1)


def test_consumer_lag_leaves_out_temporary_consumers(
    cli: Command, sync_js: jetarrow.sync.JetStream, stream: str
) -> None:
    """A killed read or sink leaves its consumer until the server removes it."""
    fill_sync(sync_js, stream, 3)
    sync_js.add_consumer(stream, durable_name="billing")
    sync_js.add_consumer(stream, name=f"jetarrow-{'x' * 22}", ack_policy="none", inactive_threshold=30)
    assert [row["consumer"] for row in cli("consumer", "lag", stream, "--json").json] == ["billing"]
    shown = cli("consumer", "lag", stream)
    assert "jetarrow-" not in shown.out
    assert "not counted: 1 temporary consumer" in shown.err
    assert len(cli("consumer", "lag", stream, "--all", "--json").json) == 2
