"""Registration of functions as subcommands, with the options that all subcommands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from jetarrow.cli.json_shape import JsonShape
from jetarrow.cli.session import Session
from jetarrow.cli.units import span
from jetarrow.cli.usage import Command, UsageError

_P = ParamSpec("_P")
PANEL = "Connection"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=PANEL, **more)


# Options that are not given come from the environment, and then from the context.
CONNECTION: dict[str, Any] = {
    "server": Annotated[
        str | None,
        _option("--server", "-s", help="Address, or several separated with commas; default $NATS_URL.", metavar="URL"),
    ],
    "context": Annotated[
        str | None, _option("--context", help="A context of the nats tool; default $NATS_CONTEXT.", metavar="NAME")
    ],
    "user": Annotated[str | None, _option("--user", help="User; default $NATS_USER.", metavar="NAME")],
    "password_file": Annotated[
        str | None,
        _option("--password-file", help="File with the password; default $NATS_PASSWORD, or a prompt.", metavar="FILE"),
    ],
    "creds": Annotated[str | None, _option("--creds", help="Credentials file; default $NATS_CREDS.", metavar="FILE")],
    "nkey": Annotated[
        str | None, _option("--nkey", help="File with an nkey seed; default $NATS_NKEY.", metavar="FILE")
    ],
    "tlsca": Annotated[str | None, _option("--tlsca", help="Certificates to trust; default $NATS_CA.", metavar="FILE")],
    "tlscert": Annotated[
        str | None, _option("--tlscert", help="Client certificate; default $NATS_CERT.", metavar="FILE")
    ],
    "tlskey": Annotated[
        str | None, _option("--tlskey", help="Key of the client certificate; default $NATS_KEY.", metavar="FILE")
    ],
    "domain": Annotated[str | None, _option("--domain", help="JetStream domain.", metavar="NAME")],
    "timeout": Annotated[
        float | None,
        _option("--timeout", help="Timeout of a request (5s).", parser=span, metavar="SPAN"),
    ],
}
JSON = Annotated[bool, typer.Option("--json", "-j", help="Write JSON.")]


def _keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def verb(
    app: typer.Typer, name: str, *, example: str, json: JsonShape | tuple[JsonShape, ...] = (), server: bool = True
) -> Callable[[Callable[Concatenate[Session, _P], None]], Callable[Concatenate[Session, _P], None]]:
    """Register a function as a subcommand. Its first parameter is the session, its docstring the help.

    Args:
        app: The group of the subcommand.
        name: Name of the subcommand.
        example: Example call for the end of the help.
        json: Documented output of `--json`, one shape or several.
        server: Whether it connects, so that it has connection options.
    """

    def register(function: Callable[Concatenate[Session, _P], None]) -> Callable[Concatenate[Session, _P], None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        common = [_keyword(key, kind, None) for key, kind in CONNECTION.items()] if server else []
        # Keyword-only, so that typer accepts arguments before and after options.
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
                try:
                    function(session, **given)  # type: ignore[call-arg]
                except ValueError as error:
                    # The library raises exactly this class for an invalid argument, and subclasses for invalid data.
                    if type(error) is not ValueError:
                        raise
                    raise UsageError(f"{str(error).rstrip('.')}.", ctx=ctx) from error

        face: Any = call
        face.__signature__ = inspect.Signature(parameters)
        face.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        shapes = json if isinstance(json, tuple) else (json,)
        documented = "".join(f"\n\n--json: {shape.text}" for shape in shapes)
        epilog = f"Example: [cyan]{example}[/cyan]{documented}"
        # typer copies the attributes to the callback of its command.
        face.example, face.shapes = example, shapes
        app.command(name, help=inspect.getdoc(function), epilog=epilog, cls=Command)(face)
        return function

    return register


def with_connection(function: Callable[..., None]) -> Callable[..., None]:
    """Replace `**connection` with the connection options, so that they are accepted before the subcommand."""
    own = inspect.signature(function, eval_str=True).parameters.values()
    parameters = [
        *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one.kind != one.VAR_KEYWORD),
        *(_keyword(key, kind, None) for key, kind in CONNECTION.items()),
    ]
    face: Any = function
    face.__signature__ = inspect.Signature(parameters)
    face.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function
