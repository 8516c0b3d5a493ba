"""`jetarrow kv` and `jetarrow object`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.cli.tools import Command


def test_kv(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("kv", "add", "CLI_KV", "--history", "3", "--ttl", "1h").out == "created bucket CLI_KV\n"
    assert cli("kv", "put", "CLI_KV", "limits.eu", "500", "--json").json == {"key": "limits.eu", "revision": 1}
    assert cli("kv", "get", "CLI_KV", "limits.eu").out == "500"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from\nstdin")))
    assert cli("kv", "put", "CLI_KV", "text", "-").code == 0
    assert cli("kv", "get", "CLI_KV", "text", "--json").json["value"] == "from\nstdin"
    taken = cli("kv", "create", "CLI_KV", "limits.eu", "1")
    assert (taken.code, taken.out) == (1, "")
    for part in ("'limits.eu'", "'CLI_KV'", "revision 1", "err_code 10071", "jetarrow kv put CLI_KV limits.eu"):
        assert part in taken.err
    assert cli("kv", "create", "CLI_KV", "limits.us", "7").out == "limits.us stored at revision 3\n"
    assert cli("kv", "ls", "CLI_KV").out == "limits.eu\nlimits.us\ntext\n"
    assert cli("kv", "ls", "CLI_KV", "limits.>", "--json").json == ["limits.eu", "limits.us"]
    (bucket,) = (row for row in cli("kv", "ls", "--json").json if row["bucket"] == "CLI_KV")
    assert (bucket["history"], bucket["ttl"]) == (3, 3600)
    assert cli("kv", "del", "CLI_KV", "limits.eu").out == "deleted limits.eu from bucket CLI_KV\n"
    rows = cli("kv", "history", "CLI_KV", "limits.eu", "--json").json
    assert [(row["operation"], row["value"]) for row in rows] == [("PUT", "500"), ("DEL", None)]
    gone = cli("kv", "get", "CLI_KV", "limits.eu")
    assert (gone.code, gone.err.count("\n")) == (1, 1)
    for typed in (["get", "CLI_KV", "nix"], ["history", "CLI_KV", "nix"], ["get", "CLI_KV", "nix", "--revision", "1"]):
        missing = cli("kv", *typed)
        assert (missing.code, missing.err.count("\n")) == (1, 1)
        assert "'nix'" in missing.err
        assert "'CLI_KV'" in missing.err
    assert cli("kv", "purge", "CLI_KV", "text").out == "purged text from bucket CLI_KV\n"
    assert cli("kv", "rm", "CLI_KV", "--yes").out == "removed bucket CLI_KV\n"
    assert cli("kv", "ls", "CLI_KV").code == 1


def test_objects(cli: Command, away: Path) -> None:
    data = bytes(range(256)) * 2000
    (away / "model.bin").write_bytes(data)
    assert cli("object", "add", "CLI_OBJ", "--max-bytes", "10MiB").out == "created object store CLI_OBJ\n"
    assert cli("object", "put", "CLI_OBJ", "model.bin").out == "stored model.bin (500.0 KiB)\n"
    (row,) = cli("object", "ls", "CLI_OBJ", "--json").json
    assert (row["name"], row["size"], row["chunks"]) == ("model.bin", len(data), 4)
    assert cli("object", "info", "CLI_OBJ", "model.bin", "--json").json["digest"].startswith("SHA-256=")
    assert "model.bin" in cli("object", "ls", "CLI_OBJ").out
    (away / "model.bin").unlink()
    assert cli("object", "get", "CLI_OBJ", "model.bin").out == "wrote model.bin (500.0 KiB)\n"
    assert (away / "model.bin").read_bytes() == data
    # An object's name is arbitrary text and must not select another folder.
    assert cli("object", "put", "CLI_OBJ", "model.bin", "--name", "../../up.bin").code == 0
    assert cli("object", "get", "CLI_OBJ", "../../up.bin").code == 0
    assert (away / "up.bin").exists()
    assert "CLI_OBJ" in {row["bucket"] for row in cli("object", "ls", "--json").json}
    removed = cli("object", "rm", "CLI_OBJ", "model.bin", "-y")
    assert removed.out == "removed model.bin from object store CLI_OBJ\n"
    assert cli("object", "get", "CLI_OBJ", "model.bin").code == 1
    assert cli("object", "clean", "CLI_OBJ").err == "object store CLI_OBJ has no chunks to remove\n"
    for _ in range(2):
        assert cli("publish", "$O.CLI_OBJ.C.left", "12345").code == 0
    assert cli("object", "clean", "CLI_OBJ", "--json").json == [], "the put may go on"
    found = cli("object", "clean", "CLI_OBJ", "--older-than", "0s", "--dry-run")
    assert "left" in found.out
    assert found.err == "would remove 2 chunks (10 B) from object store CLI_OBJ\n"
    (row,) = cli("object", "clean", "CLI_OBJ", "--older-than", "0s", "--json").json
    assert {name: row[name] for name in row if name != "newest"} == {
        "nuid": "left",
        "name": None,
        "chunks": 2,
        "size": 10,
        "removed": True,
    }
    assert cli("object", "clean", "CLI_OBJ", "--older-than", "0s", "--json").json == []
    assert cli("object", "rm", "CLI_OBJ", "-y", "--json").json == {"removed": "CLI_OBJ"}
