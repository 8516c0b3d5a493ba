"""What every subcommand is handed: the connection, opened at its first use, and the way to answer."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

from jetarrow.cli import output, terminal
from jetarrow.cli.masking import mask
from jetarrow.cli.output import Column
from jetarrow.core import context_files

if TYPE_CHECKING:
    from rich.progress import Progress

    import jetarrow.sync


class Session:
    """One run of a subcommand.

    Args:
        as_json: Whether answers are JSON.
        given: The options of the connection, by name; None where not given.
    """

    def __init__(self, *, as_json: bool, given: Mapping[str, Any]) -> None:
        self.as_json = as_json
        self.given = given
        self._nc: jetarrow.sync.Client | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._nc is not None:
            self._nc.close()

    @property
    def nc(self) -> jetarrow.sync.Client:
        """The connection."""
        if self._nc is None:
            import jetarrow.sync

            self._nc = jetarrow.sync.connect(name="jetarrow", error_cb=self._heard, **self.address(), **self.options())
        return self._nc

    def _heard(self, error: Exception) -> None:
        # What goes wrong while it connects is in the error that ends the command.
        if self._nc is not None:
            self.say(f"warning: {str(error).removeprefix('nats: ')}")

    @property
    def js(self) -> jetarrow.sync.JetStream:
        """JetStream on it."""
        options: dict[str, Any] = {"timeout": self.given.get("timeout") or 5.0}
        if domain := self.given.get("domain"):
            options["domain"] = domain
        return self.nc.jetstream(**options)

    def address(self) -> dict[str, Any]:
        """Where to connect to, as options of `connect`: servers, a context, or both.

        What is typed goes before the environment, and that before the context that is selected. A server that is named
        gets no credentials of a context that is not.
        """
        server, context = self.given.get("server"), self.given.get("context")
        if "@" in (server or ""):
            raise typer.BadParameter(
                "an address with a password or token is seen in the list of processes: put it into $NATS_URL,"
                " or use --user with --password-file.",
                param_hint="--server",
            )
        if not context:
            server = server or os.environ.get("NATS_URL")
            context = None if server else context_files.selected()
        named = {"servers": server, "context": context}
        return {name: value for name, value in named.items() if value}

    def options(self) -> dict[str, Any]:
        """The other options of `connect`."""
        # With a context that is named, the environment's credentials are not meant.
        environment: Mapping[str, str] = {} if self.given.get("context") else os.environ
        options: dict[str, Any] = {}
        if timeout := self.given.get("timeout"):
            options["connect_timeout"] = timeout
        if creds := self.given.get("creds") or environment.get("NATS_CREDS"):
            options["user_credentials"] = os.path.expanduser(creds)
        if seed := self.given.get("nkey") or environment.get("NATS_NKEY"):
            options["nkeys_seed"] = os.path.expanduser(seed)
        if user := self.given.get("user") or environment.get("NATS_USER"):
            options |= {"user": user, "password": self.password(user)}
        elif token := environment.get("NATS_TOKEN"):
            options["token"] = token
        ca, cert, key = (
            self.given.get(name) or environment.get(f"NATS_{name.removeprefix('tls').upper()}")
            for name in ("tlsca", "tlscert", "tlskey")
        )
        if ca or cert or key:
            from jetarrow import TLS

            options["tls"] = TLS(ca=ca, cert=cert, key=key)
        return options

    def password(self, user: str) -> str:
        """The password: out of a file, the environment, or asked for; never out of an argument.

        Args:
            user: Whose.
        """
        if file := self.given.get("password_file"):
            return Path(file).expanduser().read_text("utf-8").rstrip("\r\n")
        if (password := os.environ.get("NATS_PASSWORD")) is not None:
            return password
        if sys.stdin.isatty():
            return getpass.getpass(f"Password of {terminal.one_line(user)}: ")
        raise typer.BadParameter("give --password-file or $NATS_PASSWORD.", param_hint="--user")

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], empty: str) -> None:
        """Answers with rows: a table, or a JSON array.

        Args:
            rows: By name; `--json` has all of their keys.
            columns: What the table shows.
            empty: What is said, on stderr, where there are none.
        """
        rows = list(rows)
        if self.as_json:
            output.json_document(rows)
        elif rows:
            output.console().print(output.table_of(rows, columns))
        else:
            self.say(empty)

    def facts(self, value: Mapping[str, Any], pairs: Iterable[tuple[str, Any]]) -> None:
        """Answers with one thing: names and values, or a JSON object.

        Args:
            value: All of it, for `--json`.
            pairs: What people are shown.
        """
        if self.as_json:
            output.json_document(value)
        else:
            output.facts(pairs)

    def done(self, text: str, **value: Any) -> None:
        """Answers that something was done.

        Args:
            text: For people.
            **value: For `--json`.
        """
        if self.as_json:
            output.json_document(value)
        else:
            output.line(mask(text))

    def say(self, text: str) -> None:
        """Says something beside the answer, on stderr."""
        output.remark(text)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Asks before something is destroyed; ends the command where the answer is not yes.

        Args:
            question: What is about to happen.
            yes: `--yes` was given.
        """
        if yes:
            return
        if not sys.stdin.isatty():
            raise typer.BadParameter("without a terminal to ask on, this needs --yes.", param_hint="--yes")
        typer.confirm(terminal.one_line(mask(question)), abort=True, err=True)

    def progress(self, unit: str = "rows") -> Progress:
        """A bar on stderr: how many, the rate, the time left. Nothing is drawn where stderr is no terminal.

        Args:
            unit: What is counted.
        """
        from jetarrow.cli.progress import bar

        return bar(unit)
