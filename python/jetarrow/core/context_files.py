"""Context files of the `nats` tool: named sets of options for `connect`.

A context is the file `$XDG_CONFIG_HOME/nats/context/<name>.json` (default `~/.config`). The file `context.txt` in the
parent folder has the name of the selected context; `$NATS_CONTEXT` overrides it. Values are secrets, so error texts do
not contain them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jetarrow.core.arguments import DEFAULT_SERVERS
from jetarrow.core.errors import UnsupportedError
from jetarrow.core.options import DEFAULT_INBOX_PREFIX
from jetarrow.core.tls import TLS

# Field of the file to option of `connect`; TLS fields are below.
_CONNECT = {
    "url": "servers",
    "user": "user",
    "password": "password",
    "token": "token",
    "creds": "user_credentials",
    "nkey": "nkeys_seed",
    "inbox_prefix": "inbox_prefix",
    "tls_first": "tls_handshake_first",
}
_PATHS = {"creds", "nkey", "cert", "key", "ca"}
_TLS = ("ca", "cert", "key")
_JETSTREAM = {"jetstream_domain": "domain", "jetstream_api_prefix": "api_prefix"}
# Fields that do not concern the connection.
_OTHER = {"name", "description", "color_scheme"}
# Requirement of an unsupported field, for the error text.
_NEEDS = {
    "nsc": "the program nsc, which the nats tool runs",
    "socks_proxy": "a SOCKS proxy",
    "user_jwt": "a user JWT without its seed: give creds",
    "jetstream_event_prefix": "advisories under another prefix",
}
_CREDENTIALS = {"user", "password", "token", "user_credentials", "nkeys_seed", "nkeys_seed_str", "user_jwt_cb"}
_LOGIN = {"user", "password"}
# Values of an option that a context overrides.
_NOT_GIVEN: tuple[object, ...] = (None, False, DEFAULT_INBOX_PREFIX)


@dataclass(frozen=True)
class ContextFile:
    """The options of a context file.

    Attributes:
        name: The context's name.
        path: The file.
        connect: Options of `connect`. They contain secrets, so `repr` omits them.
        jetstream: Options of `nc.jetstream`: `domain` or `api_prefix`, or neither.
        description: The description of the context.
    """

    name: str
    path: Path
    connect: dict[str, Any] = field(repr=False)
    jetstream: dict[str, str]
    description: str = ""


def folder() -> Path:
    """The folder of the `nats` tool's settings: `context.txt`, and the files in `context/`."""
    parent = os.environ.get("XDG_CONFIG_HOME")
    return (Path(parent) if parent else Path.home() / ".config") / "nats"


def path_of(name: str) -> Path:
    """The file of a context, whether it exists or not.

    Args:
        name: The context's name.

    Raises:
        ValueError: The name is not a valid context name.
    """
    if not name or ".." in name or "/" in name or os.sep in name or not name.isprintable():
        raise ValueError(
            f"invalid context name {name!r}: it is part of a file name; use printable characters without / and .."
        )
    return folder() / "context" / f"{name}.json"


def names() -> list[str]:
    """The names of all contexts, sorted."""
    return sorted(path.stem for path in (folder() / "context").glob("*.json") if path.stat().st_size)


def selected() -> str | None:
    """The context of `$NATS_CONTEXT`, else the one that `nats context select` selected; None without both."""
    if name := os.environ.get("NATS_CONTEXT"):
        return name
    try:
        return (folder() / "context.txt").read_text("utf-8").strip() or None
    except FileNotFoundError:
        return None


def load(name: str | None = None) -> ContextFile:
    """Reads a context file.

    Args:
        name: The context; None is the selected one.

    Raises:
        FileNotFoundError: The context does not exist, or none is selected; the text lists the existing ones.
        UnsupportedError: The context has a field that jetarrow does not support; the text has the field.
        ValueError: The file is not a context file.
        OSError: The file cannot be read.
    """
    name = name or selected()
    if name is None:
        raise FileNotFoundError(
            f"no context is selected: pass its name, set $NATS_CONTEXT or run `nats context select`; {_list_contexts()}"
        )
    path = path_of(name)
    try:
        fields = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"context {name!r} does not exist in {path.parent}: {_list_contexts()}") from None
    except ValueError:
        # The decoder's error may contain the text, which has secrets.
        raise ValueError(f"could not read context {name!r}: {path} is not JSON; correct or delete the file") from None
    if not isinstance(fields, dict):
        raise ValueError(
            f"could not read context {name!r}: {path} must contain a JSON object; correct or delete the file"
        )
    fields = {key: value for key, value in fields.items() if value and key not in _OTHER} | {
        "description": fields.get("description") or ""
    }
    return _parse_fields(name, path, fields)


def _parse_fields(name: str, path: Path, fields: dict[str, Any]) -> ContextFile:
    description = str(fields.pop("description"))
    where = f"context {name!r}: {path}"
    for key, value in fields.items():
        if key not in _CONNECT and key not in _JETSTREAM and key not in _TLS:
            needs = _NEEDS.get(key, "a later version of jetarrow")
            message = f"{where} has the field {key!r}, which jetarrow does not support: it needs {needs}"
            raise UnsupportedError(f"field {key!r} of a context", needs, "not available", message=message)
        if not isinstance(value, bool if key == "tls_first" else str):
            raise ValueError(
                f"{where}: the field {key!r} must be {'true or false' if key == 'tls_first' else 'a string'}"
            )
        if key in _PATHS and isinstance(value, str):
            if "://" in value:
                message = (
                    f"{where}: the field {key!r} is a reference, which jetarrow does not fetch; use the path of a file"
                )
                raise UnsupportedError(f"field {key!r} of a context", "a file", "a reference", message=message)
            # As the tool does: expands variables in the path of the credentials, and `~` in every path.
            fields[key] = os.path.expanduser(os.path.expandvars(value) if key == "creds" else value)
    jetstream = {option: fields[key] for key, option in _JETSTREAM.items() if key in fields}
    if len(jetstream) > 1:
        raise ValueError(f"{where}: jetstream_domain and jetstream_api_prefix are both set; remove one of them")
    connect = {option: fields[key] for key, option in _CONNECT.items() if key in fields}
    certificates = {key: fields[key] for key in _TLS if key in fields}
    if certificates:
        connect["tls"] = TLS(**certificates)
    return ContextFile(name, path, connect, jetstream, description)


def _list_contexts() -> str:
    known = names()
    return f"the contexts are {', '.join(known)}" if known else "no context exists"


def merge(given: dict[str, Any], context: ContextFile) -> None:
    """Sets the options of a context that the call does not set.

    Credentials of the call replace all credentials of the context. Exception: a user of the context combines with a
    password of the call, and vice versa.

    Args:
        given: The options of `connect`; changed in place.
        context: The context.
    """
    explicit = {name for name in _CREDENTIALS if given.get(name) is not None}
    if _has_user(given["servers"]) or explicit - _LOGIN:
        explicit |= _CREDENTIALS
    elif explicit:
        explicit |= _CREDENTIALS - _LOGIN
    for name, value in context.connect.items():
        had = given[name]
        if name not in explicit and (had is DEFAULT_SERVERS or had in _NOT_GIVEN):
            given[name] = value


def _has_user(servers: object) -> bool:
    addresses = servers.split(",") if isinstance(servers, str) else servers
    return isinstance(addresses, list) and any("@" in urlsplit(str(address)).netloc for address in addresses)
