"""Session of a subcommand: its connection, opened at the first use, and its output."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
        as_json: Whether output is JSON.
        given: Connection options by name; None for options that were not given.
    """

    def __init__(self, *, as_json: bool, given: Mapping[str, Any]) -> None:
        self.as_json = as_json
        self.given = given
        self._nc: jetarrow.sync.Client | None = None
        # Passwords that were typed, so that several connections need one prompt.
        self._typed: dict[str, str] = {}

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
            self._nc = self.connect(error_cb=self._warn)
        return self._nc

    def connect(self, **more: Any) -> jetarrow.sync.Client:
        """Open another connection with the options of the command line; the caller closes it.

        Args:
            **more: Further options of `connect`.
        """
        import jetarrow.sync

        address = self.address()
        try:
            return jetarrow.sync.connect(name="jetarrow", **address, **self.options(), **more)
        except ValueError as error:
            # The file of the context is invalid, not the usage of the command.
            if "context" in address and type(error) is ValueError:
                raise RuntimeError(str(error)) from error
            raise

    @contextmanager
    def system_client(self, context: str | None) -> Iterator[jetarrow.sync.Client | None]:
        """Open a connection of the system account in the block; None without a context.

        Args:
            context: Name of a context of the system account.
        """
        if context is None:
            yield None
            return
        given = {**dict.fromkeys(self.given), "context": context, "timeout": self.given.get("timeout")}
        with Session(as_json=self.as_json, given=given) as other:
            yield other.nc

    def _warn(self, error: Exception) -> None:
        # Errors of the first connect are part of the error that ends the command.
        if self._nc is not None:
            self.say(f"warning: {str(error).removeprefix('nats: ')}")

    @property
    def js(self) -> jetarrow.sync.JetStream:
        """JetStream on this connection."""
        return self.jetstream(self.nc)

    def jetstream(self, nc: jetarrow.sync.Client) -> jetarrow.sync.JetStream:
        """Return JetStream on a connection, with the options of the command line.

        Args:
            nc: The connection.
        """
        return nc.jetstream(**self.jetstream_options())

    def jetstream_options(self) -> dict[str, Any]:
        """Return the options of `nc.jetstream`."""
        options: dict[str, Any] = {"timeout": self.given.get("timeout") or 5.0}
        if domain := self.given.get("domain"):
            options["domain"] = domain
        return options

    def address(self) -> dict[str, Any]:
        """Return the server address as options of `connect`: servers, a context, or both.

        Command line options take precedence over the environment, and the environment over the selected context.
        Credentials of the selected context are never sent to a server given otherwise.
        """
        server, context = self.given.get("server"), self.given.get("context")
        if "@" in (server or ""):
            raise typer.BadParameter(
                "an address with a password or token is visible in the process list: put it into $NATS_URL,"
                " or use --user with --password-file.",
                param_hint="--server",
            )
        if not context:
            server = server or os.environ.get("NATS_URL")
            context = None if server else context_files.selected()
        named = {"servers": server, "context": context}
        return {name: value for name, value in named.items() if value}

    def options(self) -> dict[str, Any]:
        """Return the other options of `connect`."""
        # Credentials of the environment do not apply to a context given by name.
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
        """Return the password from a file, the environment or a prompt; never from an argument.

        Args:
            user: The user's name, for the prompt.
        """
        if file := self.given.get("password_file"):
            return Path(file).expanduser().read_text("utf-8").rstrip("\r\n")
        if (password := os.environ.get("NATS_PASSWORD")) is not None:
            return password
        if user not in self._typed and sys.stdin.isatty():
            self._typed[user] = getpass.getpass(f"Password of {terminal.one_line(user)}: ")
        if user in self._typed:
            return self._typed[user]
        raise typer.BadParameter("give --password-file or $NATS_PASSWORD.", param_hint="--user")

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], empty: str) -> None:
        """Write rows as a table or a JSON array.

        Args:
            rows: Rows by name; `--json` writes all keys.
            columns: Columns of the table.
            empty: Remark on stderr if there are no rows.
        """
        rows = list(rows)
        if self.as_json:
            output.json_document(rows)
        elif rows:
            output.console().print(output.table_of(rows, columns))
        else:
            self.say(empty)

    def facts(self, value: Mapping[str, Any], pairs: Iterable[tuple[str, Any]]) -> None:
        """Write one object as names and values or as JSON.

        Args:
            value: The object, for `--json`.
            pairs: Names and values for people.
        """
        if self.as_json:
            output.json_document(value)
        else:
            output.facts(pairs)

    def done(self, text: str, **value: Any) -> None:
        """Write the result of an action.

        Args:
            text: Result for people.
            **value: Result for `--json`.
        """
        if self.as_json:
            output.json_document(value)
        else:
            output.line(mask(text))

    def say(self, text: str) -> None:
        """Write a remark to stderr."""
        output.remark(text)

    def stopped(self, text: str) -> None:
        """Write the remark of a signal that ended the command: the finished part, and how to continue."""
        # The signal may be that of a closed terminal.
        with suppress(OSError, ValueError):
            self.say(f"stopped: {text}")

    def confirm(self, question: str, *, yes: bool) -> None:
        """Prompt before a destructive action; abort unless the answer is yes.

        Args:
            question: The prompt.
            yes: Whether `--yes` was given, which skips the prompt.
        """
        if yes:
            return
        if not sys.stdin.isatty():
            raise typer.BadParameter("confirmation needs a terminal; give --yes.", param_hint="--yes")
        typer.confirm(terminal.one_line(mask(question)), abort=True, err=True)

    def progress(self, unit: str = "rows", *, transient: bool = False) -> Progress:
        """Return a progress bar on stderr with count, rate and remaining time; hidden unless stderr is a terminal.

        Args:
            unit: Unit of the count.
            transient: Whether the bar is erased at its end.
        """
        from jetarrow.cli.progress import bar

        return bar(unit, transient=transient)
