"""`jetarrow pipe`: streams that are made of other streams."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import jetarrow.sync
import pytest

from tests.cli.tools import Command, Terminal


@pytest.fixture
def target(sync_js: jetarrow.sync.JetStream, stream: str, cli: Command) -> Iterator[str]:
    name = f"{stream}_OUT"
    assert cli("stream", "add", name, "--subjects", f"{name}.>", "--allow-atomic").code == 0
    yield name
    sync_js.delete_stream(name)


def values(js: jetarrow.sync.JetStream, target: str) -> list[dict[str, object]]:
    rows = js.read(target, subjects=f"{target}.out.>").read_all()
    return [json.loads(data) for data in rows["data"].to_pylist()]


def test_a_query(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, target: str) -> None:
    sync_js.publish_batch(f"{stream}.a", [json.dumps({"id": n, "key": "ab"[n % 2]}) for n in range(10)])
    run = ["pipe", stream, target, "--subject", f"{target}.out.{{key}}"]
    query = f"select id, key from {stream} where id > 6"
    assert cli(*run, "--sql", query).out == f"made 3 messages in {target} of 10 rows\n"
    assert values(sync_js, target) == [{"id": n, "key": "ab"[n % 2]} for n in (7, 8, 9)]
    found = cli(*run, "--sql", query, "--json").json
    assert found == {"rows": 0, "messages": 0, "dead_letters": 0, "skipped": 0, "last_seq": None}
    assert cli(*run, "--sql", query, "--reset", "10", "--json").json["messages"] == 1
    assert cli(*run, "--sql", "select", "--name", "other").code == 1


def test_a_function_of_this_folder(
    cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, target: str, away: Path
) -> None:
    sync_js.publish_batch(f"{stream}.a", [b'{"id": 1}', b"no json", b'{"id": 3}'])
    (away / "pipe_functions.py").write_text("def twice(rows):\n    return rows\n\nnumber = 5\n", "utf-8")
    run = ["pipe", stream, target, "--schema", "id BIGINT", "--subject", f"{target}.out.x", "--python"]
    failed = cli(*run, "pipe_functions:twice")
    assert failed.code == 1
    assert failed.err.startswith(
        f"error: pipe '{stream}' could not process message 2: the payload could not be decoded"
    )
    done = cli(*run, "pipe_functions:twice", "--on-error", "dead_letter")
    assert done.out == f"made 2 messages in {target} of 3 rows, 1 dead letter\n"
    for wrong in ("pipe_functions", "pipe_functions:none", "no_module:x", "pipe_functions:number"):
        assert cli(*run, wrong).code == 2
    assert cli(*run, "pipe_functions:twice", "--sql", "select 1").code == 2
    assert cli("pipe", stream, target).code == 2


def test_other_tables(cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, target: str) -> None:
    bucket = sync_js.create_key_value(bucket=stream)
    bucket.put("a", b'{"name": "Anna"}')
    sync_js.publish_batch(f"{stream}.x", [b'{"key": "a", "n": 1}', b'{"key": "b", "n": 2}'])
    query = f"select n, names.value.name as name from {stream} left join names using (key) order by n"
    more = ["--table", f"names=kv:{stream}", "--sql", query, "--subject", f"{target}.out.x"]
    assert cli("pipe", stream, target, *more).code == 0
    assert values(sync_js, target) == [{"n": 1, "name": "Anna"}, {"n": 2}]
    last = ["--table", f"last={stream}", "--sql", "select max(n) as n from last", "--subject", f"{target}.out.y"]
    assert cli("pipe", stream, target, "--name", "last", *last).code == 0
    assert values(sync_js, target)[-1] == {"n": 2}
    assert cli("pipe", stream, target, "--table", "x", "--sql", "select 1").code == 2
    sync_js.delete_key_value(stream)


def test_ctrl_c_ends_it_after_its_step(
    cli: Command, sync_js: jetarrow.sync.JetStream, stream: str, target: str
) -> None:
    sync_js.publish_batch(f"{stream}.a", [b'{"id": 1}'] * 1_000)
    run = ["pipe", stream, target, "--sql", f"select id from {stream}", "--subject", f"{target}.out.x", "--follow"]
    with Terminal(*run) as terminal:
        while sync_js.stream_info(target).state.messages < 1_000:
            terminal.process.poll()
            assert terminal.process.returncode is None
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.end() == 130
    assert cli(*run[:-1], "--json").json["rows"] == 0
    assert len(values(sync_js, target)) == 1_000
