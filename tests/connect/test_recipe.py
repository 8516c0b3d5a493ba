"""The recipe of docs/recipes/operate.md for TLS and NKEYs: its configuration and its program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jetarrow.errors
import pytest
from jetarrow.server import NatsServer

PAGE = (Path(__file__).parents[2] / "docs" / "recipes" / "operate.md").read_text("utf-8")
RECIPE = PAGE.partition("## Connect with TLS and an NKEY")[2].partition("\n## ")[0]


def test_tls_and_nkey(authority: Any, new_key: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files, key = authority.issue("localhost", "127.0.0.1"), new_key()
    (tmp_path / "ca.pem").write_bytes(authority.ca.cert.read_bytes())
    (tmp_path / "billing.nk").write_text(key.seed)
    config, program = (re.findall(rf"```{language}\n(.*?)```", RECIPE, re.DOTALL)[0] for language in ("text", "python"))
    config = config.replace('jetstream { store_dir: "/data" }\n', "")
    config = config.replace("server.pem", str(files.cert)).replace("server.key", str(files.key))
    config, known = re.subn(r"nkey: U[A-Z2-7]{55}", f"nkey: {key.public}", config)
    assert known == 1
    with NatsServer(config=config) as server:
        port = server.url.rpartition(":")[2]
        names: dict[str, Any] = {}
        exec(program.replace("localhost:4222", f"localhost:{port}"), names)
        with names["connect"]() as nc:
            nc.jetstream().add_stream(name="S", subjects=["s"])
            assert nc.jetstream().publish("s", b"x").seq == 1
        (tmp_path / "billing.nk").write_text(new_key().seed)
        with pytest.raises(jetarrow.errors.AuthorizationError):
            names["connect"]()
