"""Kills writers of a table with keys with SIGKILL, and compares each version of the table with its messages:

    kill_upsert.py URL STREAM FOLDER KIND KILLS SEED     KIND is a key of KEYS

Writers are forked from this process, which has imported everything and done nothing.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import deltalake  # imported before the fork
import jetarrow.sync

from .iceberg_tools import NAME, sql_catalog
from .kill import finished, kill_at, run

SCHEMA = {"id": int, "region": str, "value": int}
KEYS: dict[str, dict[str, Any]] = {
    "subject": {"key": "subject"},
    "moved": {"key": "subject", "partition_by": "region"},
    "column": {"key": ["id"]},
    "columns": {"key": ["id", "region"], "partition_by": "region"},
    "ignored": {"key": ["id"], "deletes": "none"},
    "iceberg": {"key": ["id", "region"]},
}
MARKERS = ({"KV-Operation": "DEL"}, {"KV-Operation": "PURGE"}, {"Nats-Marker-Reason": "MaxAge"})
# Messages that come before each kill.
PIECE = 30

Message = tuple[str, dict[str, str] | None, bytes]


def messages(stream: str, seed: int, count: int) -> list[Message]:
    """Random puts, deletions, payloads without a key, and payloads that are no JSON."""
    choose = random.Random(seed)
    found: list[Message] = []
    for number in range(1, count + 1):
        subject = f"{stream}.k{choose.randrange(6)}"
        kind = choose.random()
        if kind < 0.2:
            found.append((subject, choose.choice(MARKERS), b""))
        elif kind < 0.25:
            found.append((subject, None, b"no JSON"))
        else:
            id = None if kind < 0.3 else choose.randrange(5)
            row = {"id": id, "region": choose.choice(["eu", "us"]), "value": number}
            found.append((subject, {"KV-Operation": "PUT"} if kind > 0.9 else None, json.dumps(row).encode()))
    return found


def expected(sent: list[Message], key: str | list[str], deletes: str = "markers") -> list[dict[str, Any]]:
    """The rows of the table after these messages, in order of sequence."""
    rows: dict[Any, dict[str, Any]] = {}
    for seq, (subject, headers, payload) in enumerate(sent, 1):
        if headers in MARKERS:
            if deletes == "markers":
                rows = {key: row for key, row in rows.items() if row["subject"] != subject}
            continue
        try:
            row = {"subject": subject, "seq": seq, **json.loads(payload)}
        except ValueError:
            continue
        values = tuple(row[name] for name in ([key] if isinstance(key, str) else key))
        if None not in values:
            rows[values] = row
    return sorted(rows.values(), key=lambda row: row["seq"])


def publish(url: str, sent: list[Message]) -> None:
    with jetarrow.sync.connect(url) as nc:
        js = nc.jetstream()
        for subject, headers, payload in sent:
            js.publish(subject, payload, headers=headers)


def write(url: str, stream: str, folder: str, kind: str, rows: int) -> None:
    with jetarrow.sync.connect(url) as nc:
        js = nc.jetstream()
        options: dict[str, Any] = {"schema": SCHEMA, "merge": "upsert", "rows": rows, **KEYS[kind]}
        if kind == "iceberg":
            js.to_iceberg(stream, NAME, catalog=sql_catalog(folder), **options).run()
        else:
            js.to_delta(stream, folder, **options).run()


def delta_versions(folder: str) -> Iterator[tuple[int, Any]]:
    """Positions and rows of the versions of a Delta table."""
    for commit in deltalake.DeltaTable(folder).history():
        if record := json.loads(commit.get("jetarrow") or "{}"):
            yield record["last_seq"], deltalake.DeltaTable(folder, version=commit["version"]).to_pyarrow_table()


def iceberg_versions(folder: str) -> Iterator[tuple[int, Any]]:
    """Positions and rows of the snapshots of an Iceberg table."""
    table = sql_catalog(folder).load_table(NAME)
    for snapshot in table.metadata.snapshots:
        yield (
            json.loads(snapshot.summary["jetarrow"])["last_seq"],
            table.scan(snapshot_id=snapshot.snapshot_id).to_arrow(),
        )


def check(url: str, stream: str, folder: str, kind: str, sent: list[Message], versions: Any) -> None:
    """Compare each version of the table with the messages up to its position, and with `js.latest`."""
    options = {name: value for name, value in KEYS[kind].items() if name != "partition_by"}
    tables = list(iceberg_versions(folder) if kind == "iceberg" else delta_versions(folder))
    assert max(position for position, _ in tables) == len(sent)
    with jetarrow.sync.connect(url) as nc:
        js = nc.jetstream()
        for position, table in tables:
            found = table.sort_by("seq").select(["subject", "seq", *SCHEMA]).to_pylist()
            assert found == expected(sent[:position], **options), position
            if kind == "subject":
                latest = js.latest(stream, as_of_seq=position).read_all()
                seqs = dict(zip(latest["subject"].to_pylist(), latest["seq"].to_pylist(), strict=True))
                broken = {subject for subject, seq in seqs.items() if sent[seq - 1][2] == b"no JSON"}
                # A payload that is no JSON leaves the former row of its subject.
                rows = {row["subject"]: row["seq"] for row in found}
                assert {subject: rows[subject] for subject in rows.keys() - broken} == {
                    subject: seqs[subject] for subject in seqs.keys() - broken
                }
    versions.value = len(tables)


def main(url: str, stream: str, folder: str, kind: str, kills: int, seed: int) -> str:
    from .kill import FORK

    sent = messages(stream, seed, PIECE * (kills + 1))
    choose = random.Random(seed)
    versions = FORK.Value("i", 0)
    finished(publish, url, sent[:PIECE])
    begin = time.monotonic()
    finished(write, url, stream, f"{folder}-whole", kind, 7)
    whole = time.monotonic() - begin
    killed = 0
    for number in range(1, kills + 1):
        finished(publish, url, sent[number * PIECE : (number + 1) * PIECE])
        process = run(write, url, stream, folder, kind, choose.randint(3, 12))
        whole = min(whole, kill_at(process, choose.uniform(whole / 5, whole)))
        killed += process.exitcode == -signal.SIGKILL
    finished(write, url, stream, folder, kind, 11)
    finished(check, url, stream, folder, kind, sent, versions)
    return f"{killed} {versions.value}"


if __name__ == "__main__":
    url, stream, folder, kind, kills, seed = sys.argv[1:]
    print(main(url, stream, folder, kind, int(kills), int(seed)))
