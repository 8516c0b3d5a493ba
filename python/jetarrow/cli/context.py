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
from jetarrow.cli.json_shape import an_object, array_of
from jetarrow.cli.output import Column
from jetarrow.cli.session import Session
from jetarrow.cli.subcommand import verb
from jetarrow.core import context_files
from jetarrow.core.redaction import MASK, redact, redact_url

group = typer.Typer(no_args_is_help=True, help="Named servers and credentials, shared with the nats tool.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The context.")]
# Names of secret fields, including those of later versions of the nats tool.
_SECRET = re.compile("password|token|secret|seed|jwt", re.IGNORECASE)
# Fields that are addresses.
_URLS = ("url", "socks_proxy")
# Credentials that go with a user. Without any of them the nats tool sends the user as a token.
_LOGINS = ("password", "token", "creds", "nkey", "nsc", "user_jwt")
# Option of the command: field of the file.
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
    """Return all fields of a context's file, including those that only the nats tool uses, with secrets masked."""
    path = context_files.path_of(name)
    try:
        said = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        known = ", ".join(context_files.names()) or "none"
        raise FileNotFoundError(
            f"could not read context {name!r}: it does not exist; known contexts: {known}"
        ) from None
    except ValueError:
        raise RuntimeError(f"could not read context {name!r}: {path} is not valid JSON") from None
    if not isinstance(said, dict):
        raise RuntimeError(f"could not read context {name!r}: {path} does not hold a JSON object")
    said = {key: value for key, value in said.items() if value not in ("", None, False)}
    is_token = "user" in said and not any(key in said for key in _LOGINS)
    return {key: MASK if is_token and key == "user" else _masked(key, value) for key, value in said.items()}


def _masked(key: str, value: Any) -> Any:
    """Return a field's value without its secrets."""
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
    """Write a file atomically, readable by its owner only; an existing file keeps its mode."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # mkstemp creates it with mode 0600. The name is short because `path` may have the longest name that is allowed.
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


@verb(group, "ls", example="jetarrow context ls", json=array_of("name selected url description"), server=False)
def ls(session: Session) -> None:
    """Lists the contexts; a star marks the selected one."""
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
    session.rows(rows, columns, "no contexts; create one: jetarrow context add prod --server nats://host:4222")


@verb(
    group,
    "show",
    example="jetarrow context show prod",
    json=an_object("name file url? description? user? password? creds? nkey? ca? cert? key? jetstream_domain?"),
    server=False,
)
def show(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The context; the selected one if omitted.")
    ] = None,
) -> None:
    """Shows the fields of a context with its secrets masked."""
    name = name or context_files.selected()
    if name is None:
        raise typer.BadParameter("no context is selected: give the name of one.")
    said = {"name": name, **_read(name), "file": str(context_files.path_of(name))}
    session.facts(said, said.items())


@verb(group, "select", example="jetarrow context select prod", json=an_object("selected"), server=False)
def select(session: Session, name: Name) -> None:
    """Selects the context that is used if no server is given."""
    _read(name)
    _write(context_files.folder() / "context.txt", name)
    session.done(f"selected context {name}", selected=name)


@verb(
    group,
    "add",
    example="jetarrow context add prod --server tls://nats.example.com --creds ~/prod.creds",
    json=an_object("name file selected"),
)
def add(
    session: Session,
    name: Name,
    description: Annotated[str | None, typer.Option(help="Description.")] = None,
    select: Annotated[bool, typer.Option("--select", help="Also select the context.")] = False,
) -> None:
    """Saves connection options under a name. The password is prompted for, or read from --password-file."""
    path = context_files.path_of(name)
    if path.exists():
        raise FileExistsError(
            f"could not create context {name!r}: it exists; remove it first: jetarrow context rm {name}"
        )
    session.address()
    said: dict[str, Any] = {"description": description or ""}
    said |= {field: value for option, field in _FIELDS.items() if (value := session.given.get(option))}
    said |= {key: str(Path(said[key]).expanduser().absolute()) for key in _PATHS if key in said}
    if "user" in said:
        said["password"] = session.password(said["user"])
    _write(path, json.dumps(said, indent=2) + "\n")
    if select:
        _write(context_files.folder() / "context.txt", name)
    session.done(f"created context {name}", name=name, file=str(path), selected=select)


@verb(group, "rm", example="jetarrow context rm prod --yes", json=an_object("removed"), server=False)
def rm(session: Session, name: Name, yes: Yes = False) -> None:
    """Removes a context."""
    _read(name)
    session.confirm(f"Remove context {name}?", yes=yes)
    context_files.path_of(name).unlink()
    chosen = context_files.folder() / "context.txt"
    if chosen.exists() and chosen.read_text("utf-8").strip() == name:
        chosen.unlink()
    session.done(f"removed context {name}", removed=name)
