"""`jetarrow context`: named servers and credentials, shared with the nats tool."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from jetarrow.cli.arguments import Yes
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.core import context_files
from jetarrow.core.redaction import MASK, redact, redact_url

group = typer.Typer(no_args_is_help=True, help="Named servers and credentials, shared with the nats tool.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The context.")]
# Fields that are secrets, also those of later versions of the nats tool.
_SECRET = re.compile("password|token|secret|seed|jwt", re.IGNORECASE)
# Fields that are addresses.
_URLS = ("url", "socks_proxy")
# With a user alone, these log in: without any of them the nats tool sends the user as a token.
_LOGINS = ("password", "token", "creds", "nkey", "nsc", "user_jwt")
# An option of the command, and the field of the file.
_FIELDS = {
    "server": "url",
    "user": "user",
    "creds": "creds",
    "nkey": "nkey",
    "tlsca": "ca",
    "tlscert": "cert",
    "tlskey": "key",
    "domain": "jetstream_domain",
}
_PATHS = ("creds", "nkey", "ca", "cert", "key")


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    app.add_typer(group, name="context")


def _read(name: str) -> dict[str, Any]:
    """All fields of a context's file, also those that only the nats tool knows. Secrets are masked."""
    path = context_files.path_of(name)
    try:
        said = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        known = ", ".join(context_files.names()) or "none"
        raise FileNotFoundError(f"there is no context {name!r}; there are: {known}") from None
    except ValueError:
        raise ValueError(f"{path} is not JSON") from None
    if not isinstance(said, dict):
        raise ValueError(f"{path} must hold a JSON object")
    said = {key: value for key, value in said.items() if value not in ("", None, False)}
    is_token = "user" in said and not any(key in said for key in _LOGINS)
    return {key: MASK if is_token and key == "user" else _masked(key, value) for key, value in said.items()}


def _masked(key: str, value: Any) -> Any:
    """A field's value without its secrets."""
    if _SECRET.search(key):
        return MASK
    if isinstance(value, str):
        return redact_url(value) if key in _URLS or "://" in value else redact(value)
    if isinstance(value, list):
        return [_masked(key, each) for each in value]
    if isinstance(value, dict):
        return {name: _masked(name, each) for name, each in value.items()}
    return value


def _write(path: Path, text: str) -> None:
    """A file that only its owner reads, there once it is whole; an existing one keeps its mode."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # mkstemp creates it with mode 0600. Its name is short: that of the file may be as long as the file system allows.
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        with suppress(FileNotFoundError):
            shutil.copymode(path, unfinished)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise


@verb(group, "ls", example="jetarrow context ls", server=False)
def ls(session: Session) -> None:
    """Lists the contexts; the selected one has a star."""
    chosen, rows = context_files.selected(), []
    for name in context_files.names():
        said = _read(name)
        row = {"name": name, "selected": name == chosen, "url": said.get("url"), "description": said.get("description")}
        rows.append(row)
    columns = (
        Column("selected", "", lambda is_it: "*" if is_it else ""),
        Column("name", "Context"),
        Column("url", "Server"),
        Column("description", "Description"),
    )
    session.rows(rows, columns, "there is no context; make one: jetarrow context add prod --server nats://host:4222")


@verb(group, "show", example="jetarrow context show prod", server=False)
def show(
    session: Session,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The context; none is the selected one.")] = None,
) -> None:
    """Shows what a context holds, without its secrets."""
    name = name or context_files.selected()
    if name is None:
        raise typer.BadParameter("no context is selected: give its name.")
    said = {"name": name, **_read(name), "file": str(context_files.path_of(name))}
    session.facts(said, said.items())


@verb(group, "select", example="jetarrow context select prod", server=False)
def select(session: Session, name: Name) -> None:
    """Makes a context the one that is used where no server is named."""
    _read(name)
    _write(context_files.folder() / "context.txt", name)
    session.done(f"context {name} is selected", selected=name)


@verb(group, "add", example="jetarrow context add prod --server tls://nats.example.com --creds ~/prod.creds")
def add(
    session: Session,
    name: Name,
    description: Annotated[str | None, typer.Option(help="A text for people.")] = None,
    select: Annotated[bool, typer.Option("--select", help="Select it, too.")] = False,
) -> None:
    """Keeps the options of a connection under a name. A password is asked for, or read from --password-file."""
    path = context_files.path_of(name)
    if path.exists():
        raise FileExistsError(f"there is a context {name!r} already: jetarrow context rm {name}")
    session.address()
    said: dict[str, Any] = {"description": description or ""}
    said |= {field: value for option, field in _FIELDS.items() if (value := session.given.get(option))}
    said |= {key: str(Path(said[key]).expanduser().absolute()) for key in _PATHS if key in said}
    if "user" in said:
        said["password"] = session.password(said["user"])
    _write(path, json.dumps(said, indent=2) + "\n")
    if select:
        _write(context_files.folder() / "context.txt", name)
    session.done(f"context {name} is there", name=name, file=str(path), selected=select)


@verb(group, "rm", example="jetarrow context rm prod --yes", server=False)
def rm(session: Session, name: Name, yes: Yes = False) -> None:
    """Removes a context."""
    _read(name)
    session.confirm(f"Remove context {name}?", yes=yes)
    context_files.path_of(name).unlink()
    chosen = context_files.folder() / "context.txt"
    if chosen.exists() and chosen.read_text("utf-8").strip() == name:
        chosen.unlink()
    session.done(f"context {name} removed", removed=name)
