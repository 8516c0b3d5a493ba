"""The context files of the `nats` tool: named sets of options for `connect`.

They lie in `$XDG_CONFIG_HOME/nats/context/<name>.json` (`~/.config` without it); `context.txt` beside that folder names
the selected one, and `$NATS_CONTEXT` another one for a shell. Values are secrets: no error shows any.
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

# A field of the file, and the option of `connect` that it is; TLS has its own.
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
# Not about the connection.
_OTHER = {"name", "description", "color_scheme"}
# What else the tool does with a field, for the error.
_NEEDS = {
    "nsc": "the program nsc, which the nats tool runs",
    "socks_proxy": "a SOCKS proxy",
    "user_jwt": "a user JWT without its seed: give creds",
    "jetstream_event_prefix": "advisories under another prefix",
}
_CREDENTIALS = {"user", "password", "token", "user_credentials", "nkeys_seed", "nkeys_seed_str", "user_jwt_cb"}
_LOGIN = {"user", "password"}
# Of an option that has this value the context's counts.
_NOT_GIVEN: tuple[object, ...] = (None, False, DEFAULT_INBOX_PREFIX)


@dataclass(frozen=True)
class ContextFile:
    """What a context file says.

    Attributes:
        name: Its name.
        path: Where it lies.
        connect: Options of `connect`. Holds secrets, which `repr` leaves out.
        jetstream: Options of `nc.jetstream`: `domain` or `api_prefix`, or neither.
        description: What its owner wrote.
    """

    name: str
    path: Path
    connect: dict[str, Any] = field(repr=False)
    jetstream: dict[str, str]
    description: str = ""


def folder() -> Path:
    """Where the `nats` tool keeps its settings: `context.txt`, and the files in `context/`."""
    parent = os.environ.get("XDG_CONFIG_HOME")
    return (Path(parent) if parent else Path.home() / ".config") / "nats"


def path_of(name: str) -> Path:
    """The file of a context, there or not.

    Args:
        name: The context's name.

    Raises:
        ValueError: It cannot be a context's name.
    """
    if not name or ".." in name or "/" in name or os.sep in name or not name.isprintable():
        raise ValueError(f"{name!r} cannot be the name of a context: it is part of a file's name")
    return folder() / "context" / f"{name}.json"


def names() -> list[str]:
    """The contexts that there are, sorted."""
    return sorted(path.stem for path in (folder() / "context").glob("*.json") if path.stat().st_size)


def selected() -> str | None:
    """The context of `$NATS_CONTEXT`, else the one that `nats context select` chose; None where neither is."""
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
        FileNotFoundError: There is no such context, or none is selected; the text names those that there are.
        UnsupportedError: It holds what this client cannot do; the text names the field.
        ValueError: It is not a context file.
        OSError: It cannot be read.
    """
    name = name or selected()
    if name is None:
        raise FileNotFoundError(
            f"no context is selected: pass its name, set $NATS_CONTEXT or run `nats context select`; {_list_contexts()}"
        )
    path = path_of(name)
    try:
        said = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no context {name!r}: {_list_contexts()} ({path.parent})") from None
    except ValueError:
        # The decoder's own error may hold the text.
        raise ValueError(f"context {name!r}: {path} is not JSON") from None
    if not isinstance(said, dict):
        raise ValueError(f"context {name!r}: {path} must hold a JSON object")
    said = {key: value for key, value in said.items() if value and key not in _OTHER} | {
        "description": said.get("description") or ""
    }
    return _parse_fields(name, path, said)


def _parse_fields(name: str, path: Path, said: dict[str, Any]) -> ContextFile:
    description = str(said.pop("description"))
    where = f"context {name!r}: {path}"
    for key, value in said.items():
        if key not in _CONNECT and key not in _JETSTREAM and key not in _TLS:
            needs = _NEEDS.get(key, "a later version of jetarrow")
            message = f"{where} has the field {key!r}, which cannot be used here: it needs {needs}"
            raise UnsupportedError(f"field {key!r} of a context", needs, "not there", message=message)
        if not isinstance(value, bool if key == "tls_first" else str):
            raise ValueError(f"{where}: the field {key!r} is not a {'truth value' if key == 'tls_first' else 'text'}")
        if key in _PATHS and isinstance(value, str):
            if "://" in value:
                message = f"{where}: the field {key!r} is kept elsewhere, which the nats tool fetches: give a file"
                raise UnsupportedError(f"field {key!r} of a context", "a file", "a reference", message=message)
            # As the tool: variables in the path of the credentials, and a home directory in every path.
            said[key] = os.path.expanduser(os.path.expandvars(value) if key == "creds" else value)
    jetstream = {option: said[key] for key, option in _JETSTREAM.items() if key in said}
    if len(jetstream) > 1:
        raise ValueError(f"{where}: jetstream_domain and jetstream_api_prefix exclude each other")
    connect = {option: said[key] for key, option in _CONNECT.items() if key in said}
    certificates = {key: said[key] for key in _TLS if key in said}
    if certificates:
        connect["tls"] = TLS(**certificates)
    return ContextFile(name, path, connect, jetstream, description)


def _list_contexts() -> str:
    known = names()
    return f"there are {', '.join(known)}" if known else "there are none"


def merge(given: dict[str, Any], context: ContextFile) -> None:
    """Puts a context's options where the call gave none.

    One way to log in at a time: what the call gives takes the place of all that the context has, except that a user of
    the context goes with a password of the call, and the other way round.

    Args:
        given: The options of `connect`, which are changed.
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
