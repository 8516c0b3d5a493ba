"""Usage of subcommands: their usage line, and options that exclude each other."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from jetarrow.cli.json_shape import JsonShape

# typer does not export the base class of its usage errors.
UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")


class Command(TyperCommand):
    """A subcommand with the usage line `jetarrow kv ls [OPTIONS] BUCKET [FILTER]`, whatever typer's version."""

    @property
    def example(self) -> str:
        """An example call."""
        return str(getattr(self.callback, "example", ""))

    @property
    def shapes(self) -> tuple[JsonShape, ...]:
        """The documented output of `--json`."""
        return tuple(getattr(self.callback, "shapes", ()))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line after the name."""
        pieces = [self.options_metavar or "[OPTIONS]"]
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                name = (getattr(param, "metavar", None) or param.name or "").upper()
                pieces.append((name if param.required else f"[{name}]") + ("..." if param.nargs != 1 else ""))
        return pieces


def exclusive(**options: object) -> None:
    """Reject more than one of several options.

    Args:
        **options: Values by the names of the options; None, False and empty lists are not given.

    Raises:
        BadParameter: More than one is given.
    """
    # Compared by identity, because 0 is a value.
    given = [
        "--" + name.replace("_", "-")
        for name, value in options.items()
        if value is not None and value is not False and value != []
    ]
    if len(given) > 1:
        raise typer.BadParameter(f"give {' or '.join(given)}, not both.", param_hint=given[1])
