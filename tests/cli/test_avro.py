"""Avro in the command: `load`, `read`, `latest` and `sink`."""

from __future__ import annotations

import json
from pathlib import Path

import jetarrow.sync
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.tools import Command

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": ["null", "string"]}],
}
ROWS = {"id": [1, 2, 3], "region": ["eu", None, "us"]}


@pytest.fixture
def loaded(cli: Command, away: Path, sync_js: jetarrow.sync.JetStream, stream: str) -> str:
    """A stream with three records, and the file of their schema."""
    (away / "order.avsc").write_text(json.dumps(ORDER))
    pq.write_table(pa.table(ROWS), away / "orders.parquet")
    done = cli("load", "orders.parquet", "--subject", f"{stream}.{{id}}", "--format", "avro", "--schema", "order.avsc")
    assert done.code == 0, done.err
    return stream


@pytest.mark.parametrize("subcommand", ["read", "latest"])
def test_records_are_loaded_and_read(cli: Command, loaded: str, away: Path, subcommand: str) -> None:
    done = cli(
        subcommand, loaded, "--payload", "avro", "--schema", "order.avsc", "--columns", "value", "--to", "rows.parquet"
    )
    assert done.code == 0, done.err
    assert pq.read_table(away / "rows.parquet").select(["id", "region"]).to_pydict() == ROWS


def test_sink(cli: Command, loaded: str, away: Path) -> None:
    done = cli("sink", "parquet", loaded, "archive", "--payload", "avro", "--schema", "order.avsc")
    assert done.code == 0, done.err
    assert pq.read_table(away / "archive").select(["id", "region"]).to_pydict() == ROWS


def test_a_schema_is_required(cli: Command, loaded: str, away: Path) -> None:
    done = cli("read", loaded, "--payload", "avro")
    assert (done.code, "avro needs a file with its schema" in done.err) == (2, True)
    done = cli("load", "orders.parquet", "--subject", "x.a", "--format", "avro")
    assert (done.code, "avro needs a file with its schema" in done.err) == (2, True)
