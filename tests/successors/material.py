"""Certificates, keys and JWTs for scenarios, written to a folder by the process that starts them."""

from __future__ import annotations

import json
from pathlib import Path

from ..connect.conftest import Authority, NKey, Operator


def write_material(folder: Path) -> None:
    """Write the files that `Case.files` has."""
    authority = Authority(folder)
    server = authority.issue("localhost", "127.0.0.1")
    server.cert.rename(folder / "server.pem")
    server.key.rename(folder / "server.key")
    authority.ca.cert.rename(folder / "ca.pem")
    operator, user = Operator(), NKey("U")
    (folder / "operator.conf").write_text(operator.config)
    (folder / "user.creds").write_text(operator.creds(user))
    (folder / "user.jwt").write_text(operator.user(user))
    (folder / "user.nk").write_text(user.seed)
    (folder / "other.nk").write_text(NKey("U").seed)
    (folder / "public.json").write_text(json.dumps({"user": user.public}))
