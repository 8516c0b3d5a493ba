"""`jetarrow load`: types of a sample, malformed rows, a position, Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import jetarrow.sync
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.tools import Command, command
from tests.tools import wait_until

# Rows with which duckdb samples a CSV file at least.
SAMPLE = 2_048


def write_csv(path: Path, last: str) -> None:
    """Writes a file whose last row differs, beyond the sample."""
    path.write_text("id,region,at\n" + "".join(f"{n},eu,2026-11-25\n" for n in range(3 * SAMPLE)) + last, "utf-8")


def write_ndjson(path: Path, *last: str, rows: int = 300) -> None:
    first = (f'{{"id": {n}, "region": "eu", "at": "2026-11-25", "in": {{"x": {n}}}}}\n' for n in range(rows))
    path.write_text("".join([*first, *(f"{line}\n" for line in last)]), "utf-8")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--subject", "x.{regoin}"], "--subject: orders.csv has no column 'regoin'; did you mean region?"),
        (["--subject", "x.{{a}}.{zzz}"], "has no column 'zzz'; it has id, region, at."),
        (["--subject", "x.a", "--msg-id", "idd"], "--msg-id: orders.csv has no column 'idd'; did you mean id?"),
        (["--subject", "x.a", "--columns", "id,regoin"], "--columns: orders.csv has no column 'regoin'"),
        ([], "orders.csv has no column subject"),
    ],
)
def test_a_misspelt_column_is_refused_before_the_rows_are_read(
    cli: Command, away: Path, options: list[str], text: str
) -> None:
    # Reading all rows would fail at the last one.
    write_csv(away / "orders.csv", "x,eu,2026-11-25\n")
    done = cli(
        "load", "orders.csv", *options, "--malformed", "fail", "--sample", str(SAMPLE), "--server", "nats://127.0.0.1:1"
    )
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert text in done.err


def test_a_csv_row_that_breaks_the_sampled_types_is_named(cli: Command, away: Path, stream: str) -> None:
    write_csv(away / "orders.csv", "x,eu,2026-11-25\n7,us\n8,us,2026-11-26\n")
    load = ("load", "orders.csv", "--subject", f"{stream}.{{region}}", "--sample", str(SAMPLE))
    done = cli(*load)
    rows = 3 * SAMPLE
    assert (done.code, done.out) == (
        1,
        f"orders.csv: stored {rows + 1:,} of {rows + 1:,} messages in {stream} (2 malformed)\n",
    )
    assert f'malformed: orders.csv, line {rows + 2}: Error when converting column "id"' in done.err
    assert f"malformed: orders.csv, line {rows + 3}" in done.err
    assert cli(*load, "--malformed", "drop", "--json").json[0]["malformed"] == 2
    failed = cli(*load, "--malformed", "fail")
    assert (failed.code, f"line {rows + 2}" in failed.err, failed.err.splitlines()[-1][:6]) == (1, True, "error:")
    write_csv(away / "orders.csv", "x,eu,2026-11-25\n")
    whole = cli("load", "orders.csv", "--subject", f"{stream}.{{region}}", "--sample", "-1")
    assert (whole.code, "id string" in whole.err) == (0, True)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "x", "region": "eu"}', "column 'id' is an integer in the sample, and a string here"),
        ('{"id": 1.5, "region": "eu"}', "column 'id' is an integer in the sample, and a number here"),
        ('{"id": 1, "region": 2}', "column 'region' is a string in the sample, and an integer here"),
        ('{"id": 1, "regoin": "eu"}', "column 'regoin' is not in the sample"),
        ('{"id": 1, "in": {"y": 1}}', "column 'in.y' is not in the sample"),
        ('{"id": 1, "in": [1]}', "column 'in' is an object in the sample, and an array here"),
        ('{"id": 9223372036854775808}', "column 'id' has a value that is no int64"),
        ('{"id": 1, "in": {"x": 9223372036854775808}}', "column 'in.x' has a value that is no int64"),
        ('{"id": 1, "at": "yesterday"}', "column 'at' has a value that is no date32"),
        ('{"id": 1', "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ("null", "it is not a JSON object"),
    ],
)
def test_a_json_row_that_breaks_the_sampled_types_is_named(
    cli: Command, away: Path, stream: str, line: str, reason: str
) -> None:
    write_ndjson(away / "orders.ndjson", line, '{"id": 300, "region": null, "in": {}}', "{}")
    load = ("load", "orders.ndjson", "--subject", f"{stream}.a", "--sample", "100")
    done = cli(*load)
    assert (done.code, f"malformed: orders.ndjson, record 301: {reason}" in done.err) == (1, True), done.err
    assert done.out == f"orders.ndjson: stored 302 of 302 messages in {stream} (1 malformed)\n"
    rows = cli("read", stream, "--json", "--from-seq", "300").lines
    assert [json.loads(row["data"]) for row in rows] == [
        {"id": 299, "region": "eu", "at": "2026-11-25", "in": {"x": 299}},
        {"id": 300, "in": {}},
        {},
    ]
    assert cli(*load, "--malformed", "drop").code == 0
    failed = cli(*load, "--malformed", "fail")
    assert (failed.code, f"record 301: {reason}" in failed.err) == (1, True), failed.err


def test_json_values_of_one_row_may_differ_if_the_sample_does(cli: Command, away: Path, stream: str) -> None:
    lines = ['{"v": 1, "l": [1], "m": null}', '{"v": 2.5, "l": [2.5, null], "m": {"a": {"b": true}}}', '{"l": []}']
    (away / "a.ndjson").write_text("\n".join(lines), "utf-8")
    assert cli("load", "a.ndjson", "--subject", f"{stream}.a").code == 0
    rows = [json.loads(row["data"]) for row in cli("read", stream, "--json").lines]
    assert rows == [{"v": 1.0, "l": [1.0]}, {"v": 2.5, "l": [2.5, None], "m": {"a": {"b": True}}}, {"l": []}]


def test_a_file_without_rows_of_its_types(cli: Command, away: Path, stream: str) -> None:
    (away / "empty.ndjson").write_text("", "utf-8")
    assert "empty.ndjson has no rows" in cli("load", "empty.ndjson", "--subject", f"{stream}.a").err
    (away / "list.ndjson").write_text("[1]\n", "utf-8")
    done = cli("load", "list.ndjson", "--subject", f"{stream}.a")
    assert (done.code, "no JSON object" in done.err) == (1, True)


@pytest.mark.parametrize("state", ["orders.position", "folder", "kv:LOADS"])
def test_a_state_keeps_the_position(cli: Command, away: Path, stream: str, state: str) -> None:
    (away / "folder").mkdir()
    write_ndjson(away / f"{stream}.ndjson")
    load = ("load", f"{stream}.ndjson", "--subject", f"{stream}.{{region}}", "--state", state)
    assert cli(*load).out == f"{stream}.ndjson: stored 300 of 300 messages in {stream}\n"
    again = cli(*load)
    assert again.out == f"{stream}.ndjson: stored 0 of 0 messages in {stream} (300 by earlier runs)\n"
    assert (again.code, cli(*load, "--json").json[0]["skipped"]) == (0, 300)
    write_ndjson(away / f"{stream}.ndjson", '{"id": 1}')
    other = cli(*load)
    assert (other.code, "not those of the first run" in other.err) == (1, True)
    assert len(cli("read", stream, "--json").lines) == 300


def test_a_state_has_a_place_for_each_file(cli: Command, away: Path, stream: str) -> None:
    for name in ("a", "b"):
        write_ndjson(away / f"{name}.ndjson")
    load = ("load", "a.ndjson", "b.ndjson", "--subject", f"{stream}.a", "--state")
    one = cli(*load, "position")
    assert (one.code, "several files need a folder" in one.err) == (2, True)
    assert cli(*load, "kv:").code == cli(*load, "x", "--mode", "atomic").code == 2
    (away / "positions").mkdir()
    assert cli(*load, "positions").code == 0
    assert sorted(path.name for path in (away / "positions").iterdir()) == ["a.ndjson.position", "b.ndjson.position"]


def test_a_load_warns_if_the_window_does_not_cover_it(
    cli: Command, sync_js: jetarrow.sync.JetStream, away: Path, stream: str
) -> None:
    sync_js.update_stream(stream, duplicate_window=0.1)
    write_ndjson(away / "a.ndjson", rows=20_000)
    load = ("load", "a.ndjson", "--subject", f"{stream}.a", "--msg-id", "id")
    first = cli(*load)
    assert f"stream {stream} compares message ids for 100ms: loading the file again stores rows twice" in first.err
    # The first message is older than the window by now.
    second = cli(*load)
    assert "and has older messages: a row that was loaded before that is stored again; --state" in second.err
    assert "warning" not in cli("load", "a.ndjson", "--subject", f"{stream}.a").err
    sync_js.purge_stream(stream)
    assert "warning" not in cli(*load, "--state", "position").err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ([], "loading the file again stores these rows twice; --state keeps a position"),
        (["--msg-id", "id"], "run the same command again within 2m, or use --state, which has no time limit"),
        (["--state", "position"], "run the same command again to go on"),
    ],
)
def test_ctrl_c_says_what_is_stored_and_how_to_go_on(
    cli: Command, sync_js: jetarrow.sync.JetStream, away: Path, stream: str, options: list[str], advice: str
) -> None:
    rows = 2_000_000
    pq.write_table(pa.table({"id": range(rows)}), away / "large.parquet")
    load = ["load", "large.parquet", "--subject", f"{stream}.a", *options]
    with subprocess.Popen(command(*load), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: sync_js.stream_info(stream).state.messages > 70_000, 60)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    found = re.fullmatch(
        r"stopped: large\.parquet: the server has answered at least ([\d,]+) messages; (.*)", said.splitlines()[-1]
    )
    assert found is not None, said
    assert found[2] == advice
    least = int(found[1].replace(",", ""))
    assert 0 < least <= sync_js.stream_info(stream).state.messages < rows
    assert len(said.splitlines()) == 3


def test_chunks(cli: Command, away: Path, nats_url: str, stream: str) -> None:
    with jetarrow.sync.connect(nats_url) as nc:
        js = nc.jetstream()
        js.update_stream(js.stream_info(stream).config.evolve(allow_atomic=True))
        write_ndjson(away / "orders.ndjson")
        load = ("load", "orders.ndjson", "--subject", f"{stream}.{{region}}", "--mode", "atomic", "--chunk", "70")
        assert cli(*load, "--on-reject", "split").out == f"orders.ndjson: stored 300 of 300 messages in {stream}\n"
        stored = js.read(stream, columns=["headers"]).read_all()
        batches = {dict(headers)["Nats-Batch-Id"][0] for headers in stored.column("headers").to_pylist()}
        assert len(batches) == 5
    refused = cli("load", "orders.ndjson", "--subject", f"{stream}.{{region}}", "--chunk", "70")
    assert (refused.code, "chunk= needs mode" in refused.err) == (2, True)
