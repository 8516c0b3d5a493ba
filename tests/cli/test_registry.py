"""A schema registry in the command: `load`, `read` and `latest`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.tools import Command

from ..registry.server import RegistryServer, running

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": ["null", "string"]}],
}
ROWS = {"id": [1, 2, 3], "region": ["eu", None, "us"]}


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with running(RegistryServer()) as server:
        yield server


@pytest.fixture
def loaded(cli: Command, away: Path, stream: str, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stream with three framed records."""
    registry.authorization = "Bearer t0ken"
    monkeypatch.setenv("JETARROW_REGISTRY_TOKEN", "t0ken")
    (away / "order.avsc").write_text(json.dumps(ORDER))
    pq.write_table(pa.table(ROWS), away / "orders.parquet")
    load = ("load", "orders.parquet", "--subject", f"{stream}.{{id}}", "--format", "avro", "--registry", registry.url)
    done = cli(*load, "--schema", "order.avsc", "--registry-subject", "orders-value")
    assert done.code == 0, done.err
    assert registry.subjects == {"orders-value": [1]}
    return stream


@pytest.mark.parametrize("subcommand", ["read", "latest"])
def test_records_are_loaded_and_read(
    cli: Command, loaded: str, away: Path, registry: RegistryServer, subcommand: str
) -> None:
    done = cli(subcommand, loaded, "--payload", "avro", "--registry", registry.url, "--to", "rows.parquet")
    assert done.code == 0, done.err
    assert pq.read_table(away / "rows.parquet").select(["id", "region"]).to_pydict() == ROWS


def test_the_latest_schema_of_a_subject(cli: Command, loaded: str, registry: RegistryServer) -> None:
    load = ("load", "orders.parquet", "--subject", f"{loaded}.a", "--format", "avro", "--registry", registry.url)
    done = cli(*load, "--registry-subject", "orders-value")
    assert done.code == 0, done.err
    done = cli(*load)
    assert (done.code, "--registry-subject" in done.err) == (2, True)


def test_wrong_credentials(
    cli: Command, loaded: str, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JETARROW_REGISTRY_TOKEN", "0ther")
    done = cli("read", loaded, "--payload", "avro", "--registry", registry.url)
    assert (done.code, "status 401" in done.err, "0ther" in done.err) == (1, True, False)


def test_invalid_options(cli: Command, loaded: str) -> None:
    done = cli("read", loaded, "--registry", "http://127.0.0.1:1")
    assert (done.code, "it is for avro and protobuf" in done.err) == (2, True)
    done = cli("read", loaded, "--payload", "avro", "--registry", "nowhere")
    assert (done.code, "use https://host:8081" in done.err) == (2, True)
