"""How a subcommand is made of a function: with the options that all of them have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from jetarrow.cli.session import Session
from jetarrow.cli.units import span

_P = ParamSpec("_P")
_PANEL = "Connection"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=_PANEL, **more)


# Where none is given, the environment has the say, and then the context.
CONNECTION: dict[str, Any] = {
    "server": Annotated[
        str | None, _option("--server", "-s", help="Address, or several with commas; else $NATS_URL.", metavar="URL")
    ],
    "context": Annotated[
        str | None, _option("--context", help="A context of the nats tool; else $NATS_CONTEXT.", metavar="NAME")
    ],
    "user": Annotated[str | None, _option("--user", help="User; else $NATS_USER.", metavar="NAME")],
    "password_file": Annotated[
        str | None,
        _option("--password-file", help="File with the password; else $NATS_PASSWORD, or asked for.", metavar="FILE"),
    ],
    "creds": Annotated[str | None, _option("--creds", help="Credentials file; else $NATS_CREDS.", metavar="FILE")],
    "nkey": Annotated[str | None, _option("--nkey", help="File with an nkey seed; else $NATS_NKEY.", metavar="FILE")],
    "tlsca": Annotated[str | None, _option("--tlsca", help="Certificates to trust; else $NATS_CA.", metavar="FILE")],
    "tlscert": Annotated[str | None, _option("--tlscert", help="Own certificate; else $NATS_CERT.", metavar="FILE")],
    "tlskey": Annotated[str | None, _option("--tlskey", help="Its key; else $NATS_KEY.", metavar="FILE")],
    "domain": Annotated[str | None, _option("--domain", help="JetStream domain.", metavar="NAME")],
    "timeout": Annotated[
        float | None,
        _option("--timeout", help="How long one answer may take (5s).", parser=span, metavar="SPAN"),
    ],
}
JSON = Annotated[bool, typer.Option("--json", "-j", help="Answer in JSON.")]


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def verb(
    app: typer.Typer, name: str, *, example: str, server: bool = True
) -> Callable[[Callable[Concatenate[Session, _P], None]], Callable[Concatenate[Session, _P], None]]:
    """Registers a function as a subcommand. It takes the session first; its docstring is the help.

    Args:
        app: The group that it belongs to.
        name: How it is called.
        example: One call, for the end of the help.
        server: Whether it connects, and so takes the options of a connection.
    """

    def register(function: Callable[Concatenate[Session, _P], None]) -> Callable[Concatenate[Session, _P], None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        common = [_keyword(key, kind, None) for key, kind in CONNECTION.items()] if server else []
        # In the form that typer reads: keywords only, so that arguments may stand before and behind options.
        parameters = [
            _keyword("ctx", typer.Context, inspect.Parameter.empty),
            *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
            _keyword("as_json", JSON, False),
            *common,
        ]

        def call(ctx: typer.Context, as_json: bool, **given: Any) -> None:
            before: dict[str, Any] = ctx.obj or {}
            connection = {key: given.pop(key, None) or before.get(key) for key in CONNECTION}
            with Session(as_json=as_json or before.get("as_json", False), given=connection) as session:
                function(session, **given)  # type: ignore[call-arg]

        face: Any = call
        face.__signature__ = inspect.Signature(parameters)
        face.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name, help=inspect.getdoc(function), epilog=f"Example: [cyan]{example}[/cyan]")(face)
        return function

    return register


def with_connection(function: Callable[..., None]) -> Callable[..., None]:
    """The options of a connection in the place of `**connection`, so that they may stand before the subcommand."""
    own = inspect.signature(function, eval_str=True).parameters.values()
    parameters = [
        *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one.kind != one.VAR_KEYWORD),
        *(_keyword(key, kind, None) for key, kind in CONNECTION.items()),
    ]
    face: Any = function
    face.__signature__ = inspect.Signature(parameters)
    face.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function
